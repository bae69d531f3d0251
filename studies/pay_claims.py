"""Claims about pay, all the book's own, and the metrics derived for them.

Below: case_claims, results. Above: pay (the study), chapter 14.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .case_claims import CLINICS, says
from .results import HOLDS, Results
from .study import Claim

RULES = ("Shapley", "marginal", "nucleolus", "size", "alone")
MINT = "floor and mint"
LATE, EARLY = "clinics @ 48", "clinics @ 6"
HOSPITALS = "hospitals @ 48, judged by all"


def gained(results: Results) -> Iterator[tuple[str, str, str, Tensor]]:
    """What two names earn beyond one, as a share of what the one name earned."""
    for who, owner in (("Alder as two", "Alder"), ("Elm twice", "Elm")):
        for length in (6, 48):
            place = f"{who} @ {length}"
            for rule in ("Shapley", "nucleolus", "size", "alone"):
                if results.has("pay gained", rule, place):
                    more = results.values("pay gained", rule, place)
                    one = results.values("pay", rule, f"clinics @ {length}, {owner}")
                    yield place, rule, "gained / pay", more / one
    if results.has("pay", "marginal", f"{LATE}, Alder"):
        for place in (LATE, EARLY):
            pays = [results.values("pay", "marginal", f"{place}, {name}") for name in CLINICS]
            yield place, "marginal", "paid in total", torch.stack(pays).sum(0)


OF_PAY: dict[str, Claim] = {
    "core early": says(
        "After 6 rounds the least core's epsilon is more than two fifths of the clinics' gain",
        "epsilon / gain", "core", at=EARLY, above=0.4,
    ),
    "core late": says(
        "After 48 rounds it is, too", "epsilon / gain", "core", at=LATE, above=0.4,
    ),
    "core, hospitals": says(
        "It is more than a quarter of the hospitals' gain",
        "epsilon / gain", "core", at=HOSPITALS, above=0.25,
    ),
    "core empty": says("The clinics' core is empty", "core empty", "core", at=LATE, above=0.8),
    "core empty, hospitals": says(
        "The hospitals' core is empty", "core empty", "core", at=HOSPITALS, above=0.8
    ),
    "core of rounds": says(
        "In most rounds the core is empty", "share of rounds", "core", at="rounds, silent",
        above=0.5,
    ),
    "alone, Shapley": says(
        "By the Shapley value more than four of six clinics get less than they have alone",
        "paid less than alone", "Shapley", at=LATE, above=4,
    ),
    "alone, nucleolus": says(
        "So does the nucleolus", "paid less than alone", "nucleolus", at=LATE, above=4,
    ),
    "marginal leaves": says(
        "Marginal pay leaves more than half of the accuracy unpaid",
        "beyond the gain", "marginal", at=LATE, below=-0.5,
    ),
    "marginal in total": says(
        "Marginal pay adds up to less than .1 of accuracy",
        "paid in total", "marginal", at=LATE, below=0.1,
    ),
    "two names, Shapley": says(
        "Under two names Alder earns a quarter more by the Shapley value",
        "gained / pay", "Shapley", at="Alder as two @ 48", above=0.25,
    ),
    "two names, nucleolus": says(
        "Under two names Alder earns more by the nucleolus",
        "pay gained", "nucleolus", at="Alder as two @ 48", above=0.05,
    ),
    "two names, alone": says(
        "Under two names Alder earns more if paid by its accuracy alone",
        "pay gained", "alone", at="Alder as two @ 48", above=0.05,
    ),
    "two names, size": says(
        "Under two names Alder earns the same by size, within .02",
        "pay gained", "size", at="Alder as two @ 48", above=-0.02, below=0.02,
    ),
    "two names, marginal": says(
        "Under two names Alder earns the same by marginal pay, within .03",
        "pay gained", "marginal", at="Alder as two @ 48", above=-0.03, below=0.03,
    ),
    "two names, marginal, early": says(
        "After 6 rounds a second name gains it less than .03 by marginal pay",
        "pay gained", "marginal", at="Alder as two @ 6", below=0.03,
    ),
    "copies, Shapley": says(
        "Elm earns a quarter more by the Shapley value if it joins twice",
        "gained / pay", "Shapley", at="Elm twice @ 48", above=0.25,
    ),
    "copies, size": says(
        "By size, too", "gained / pay", "size", at="Elm twice @ 48", above=0.25,
    ),
    "copies, marginal": says(
        "By marginal pay Elm earns the same if it joins twice, within .03",
        "pay gained", "marginal", at="Elm twice @ 48", above=-0.03, below=0.03,
    ),
    "Cleveland as two": says(
        "Under two names Cleveland earns more by the Shapley value",
        "pay gained", "Shapley", at="Cleveland as two @ 48", above=0.01,
    ),
    "the copy takes": says(
        "When Elm joins, Alder's Shapley pay falls",
        "pay gained", "Shapley", at="Elm joins, Alder", below=-0.03,
    ),
    "the copy adds": says(
        "When Elm joins, accuracy does not rise", "gain added", "all", at="Elm joins", below=0.01,
    ),
    "late Alder": says(
        "Alder earns the same if it joins after half of the rounds, within .03",
        "pay gained", "Shapley", at="Alder joins half-way", above=-0.03, below=0.03,
    ),
    "late Cedar": says(
        "Cedar loses less than .06 if it joins after half of the rounds",
        "pay gained", "Shapley", at="Cedar joins half-way", above=-0.06,
    ),
    "early Cedar": says(
        "Cedar loses more than .06 if it leaves after half of the rounds",
        "pay gained", "Shapley", at="Cedar leaves half-way", below=-0.06,
    ),
    "late or early": says(
        "Cedar earns more if it works in the second half than if it works in the first",
        "pay", ("Shapley", "Cedar joins half-way"), ("Shapley", "Cedar leaves half-way"),
        above=0.03,
    ),
    "floor": says(
        "Monthly values, cut at zero, pay out more than there is",
        "paid / gain", "floor", at="months, retrained", above=1.05,
    ),
    "carry over": says(
        "With debts carried over less is paid beyond the gain",
        "paid / gain", "carry over", "floor", "months, retrained", below=0,
    ),
    "carry over, too": says(
        "But still more than there is", "paid / gain", "carry over", at="months, retrained",
        above=1,
    ),
    "mint": says(
        "Worths of 1 / loss, cut at zero, pay more than twice the gain",
        "paid / gain", MINT, at="rounds, silent", above=2,
    ),
    "mint, left out": says(
        "If absent clients are left out, more than four times",
        "paid / gain", MINT, at="rounds, left out", above=4,
    ),
    "steep models": says(
        "With rho 1 at least two clinics get a worse model than alone",
        "paid less than alone", "rho 1", at=LATE, above=2,
    ),
    "flat models": says(
        "The largest rho that leaves no clinic worse than alone lies above 0 and below .5",
        "largest rho", "rho", at=LATE, above=0.05, below=0.5,
    ),
    "half a model": says(
        "A model with half of its change is as accurate, within .02",
        "accuracy", "share 0.5", "share 1", "sparse models", above=-0.02, below=0.02,
    ),
    "a tenth of a model": says(
        "With a tenth of its change it is less accurate",
        "accuracy", "share 0.1", "share 1", "sparse models", below=-0.1,
    ),
    "moved": says(
        "Another training run moves a clinic's Shapley pay by less than .01, on average",
        "moved by another training", "Shapley", at="clinics", below=0.01,
    ),
}  # fmt: skip


def broken(results: Results, *names: str) -> list[str]:
    """Those of the named claims about pay that do not hold, with what was measured."""
    found = {name: results.judge(OF_PAY[name]) for name in names}
    return [f"{name}: {entry.measured}" for name, entry in found.items() if entry.verdict != HOLDS]
