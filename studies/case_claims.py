"""Claims about the two cases, the metrics derived for them, and the scoreboard of the lessons.

All claims are the book's own: no paper shows what several scores say of the same clients.
Below: results. Above: cases (the studies), lessons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.show.scoreboard import Said, Scoreboard, scoreboard
from fedlab_mini.show.widgets import ChangesExplorer

from .results import HOLDS, Results
from .study import Claim

CLINICS = ("Alder", "Birch", "Cedar", "Damson", "Elm", "Fir")
ALL = "all clients"  # the scenario of what belongs to no single client
RETRAINED, AGAIN = "retrained", "retrained again"
ACCURACY, LOSS = f"{RETRAINED}, accuracy", f"{RETRAINED}, loss"
ALONE, WITHOUT = f"{ACCURACY}, alone", f"{ACCURACY}, leave one out"
SHARE, VALUE, SCORE, LONG = "share @ 48", "value @ 48", "score @ 48", "score @ 768"
STEPS = ((6, 48), (12, 96))  # rounds between which a share may change


def gained(results: Results) -> Iterator[tuple[str, str, str, Tensor]]:
    """How much a client's retrained share changes if training goes on."""
    for name in results.scenarios:
        if name != ALL:
            for early, late in STEPS:
                ends = [results.values(f"share @ {n}", ACCURACY, name) for n in (early, late)]
                yield name, ACCURACY, f"share gained, {early} to {late}", ends[1] - ends[0]


def says(sentence: str, metric: str, a: Any, b: Any = "", at: str = "", **bounds: float) -> Claim:
    """A claim of the book about a case; bounds: above, below."""
    return Claim(
        sentence,
        metric,
        a,
        b,
        at,
        low=bounds.get("above", -torch.inf),
        high=bounds.get("below", torch.inf),
        source="book",
    )


OF_CLINICS = {
    # What is paid depends on when one stops, and on the measure.
    "Alder early": says(
        "After 48 rounds Alder's share is lower than after 6",
        "share gained, 6 to 48", ACCURACY, at="Alder", below=-0.1,
    ),
    "Cedar late": says(
        "After 48 rounds Cedar's share is higher than after 6",
        "share gained, 6 to 48", ACCURACY, at="Cedar", above=0.1,
    ),
    "Damson early": says(
        "After 96 rounds Damson's share is lower than after 12",
        "share gained, 12 to 96", ACCURACY, at="Damson", below=-0.08,
    ),
    "Cedar by loss": says(
        "By the loss Cedar's share is higher than by accuracy",
        SHARE, LOSS, ACCURACY, "Cedar", above=0.15,
    ),
    "Alder by loss": says(
        "By the loss Alder's share is lower than by accuracy",
        SHARE, LOSS, ACCURACY, "Alder", below=-0.08,
    ),
    "Cedar first": says(
        "Cedar's share is higher than Alder's", SHARE, (ACCURACY, "Cedar"), (ACCURACY, "Alder"),
        above=0.05,
    ),
    "Birch near Alder": says(
        "Birch's share is less than a tenth of the total below Alder's",
        SHARE, (ACCURACY, "Birch"), (ACCURACY, "Alder"), above=-0.1, below=0,
    ),
    "Elm like Alder": says(
        "The copy's share is that of the original, within .05",
        SHARE, (ACCURACY, "Elm"), (ACCURACY, "Alder"), above=-0.05, below=0.05,
    ),
    "Damson low": says("Damson's share is below a tenth", SHARE, ACCURACY, at="Damson", below=0.1),
    "Fir nothing": says(
        "Fir's share is zero, within .03", SHARE, ACCURACY, at="Fir", above=-0.03, below=0.03
    ),
    "two retrainings": says("Two retrainings agree", "tau @ 48", ACCURACY, at=ALL, above=0.5),
    "alone finds Damson": says(
        "Alone, Damson is worth less than Birch",
        VALUE, (ALONE, "Damson"), (ALONE, "Birch"), below=-0.15,
    ),
    "alone, Fir": says("Alone, Fir is worth nothing", VALUE, ALONE, at="Fir", above=-0.05,
                       below=0.05),
    "without Cedar": says(
        "Without Cedar the retrained model is worse", VALUE, WITHOUT, at="Cedar", above=0.03
    ),
    "without Alder": says(
        "Without Alder the retrained model is better", VALUE, WITHOUT, at="Alder", below=0
    ),
    "rounds blame Alder": says(
        "In the average round Alder's silent Shapley value is negative",
        SCORE, "Shapley, silent", at="Alder", below=0,
    ),
    "rounds need Cedar": says(
        "In the average round Cedar's silent Shapley value is positive",
        SCORE, "Shapley, silent", at="Cedar", above=0.03,
    ),
    "left out pays Fir": says(
        "Where absent clients are left out, Fir's Shapley value is positive",
        SCORE, "Shapley", at="Fir", above=0.005,
    ),
    "silent, Fir": says(
        "Where absent clients are silent, Fir's value is nearly zero",
        SCORE, "Shapley, silent", at="Fir", above=-0.005, below=0.005,
    ),
    "CGSV, Cedar": says("CGSV gives Cedar a low weight", SCORE, "CGSV", at="Cedar", below=0.1),
    "CGSV, Birch": says(
        "CGSV gives Birch more weight than Cedar", SCORE, ("CGSV", "Birch"), ("CGSV", "Cedar"),
        above=0.05,
    ),
    "CGSV, Damson": says("CGSV gives Damson next to nothing", SCORE, "CGSV", at="Damson",
                         below=0.02),
    "CGSV, Fir": says("CGSV gives Fir next to nothing", SCORE, "CGSV", at="Fir", below=0.05),
    "CGSV, Alder": says("CGSV gives Alder more weight than Birch", SCORE, ("CGSV", "Alder"),
                        ("CGSV", "Birch"), above=0.1),
    "CGSV costs": says(
        "CGSV's model is less accurate than FedAvg's", "accuracy @ 48", "CGSV", "FedAvg", ALL,
        below=-0.03,
    ),
    "published, Cedar": says(
        "As published, CGSV gives Cedar more than its own step does",
        SCORE, "CGSV as published", "CGSV", "Cedar", above=0.03,
    ),
    "cosine, Cedar": says(
        "The mean cosine places Cedar above Birch",
        SCORE, ("mean cosine", "Cedar"), ("mean cosine", "Birch"), above=0,
    ),
    "class cosine, Damson": says(
        "The class cosine of Damson is negative", SCORE, "class cosine", at="Damson", below=0
    ),
    "F-RCCE, Cedar": says("F-RCCE selects Cedar most of the time", LONG, "F-RCCE", at="Cedar",
                          above=0.9),
    "F-RCCE, Damson": says("F-RCCE seldom selects Damson", LONG, "F-RCCE", at="Damson", below=0.4),
    "F-RCCE, Fir": says("F-RCCE selects Fir at least as often as not", LONG, "F-RCCE", at="Fir",
                        above=0.5),
    "F-RCCE, early": says(
        "After 48 rounds F-RCCE does not place Damson below Alder by .1",
        SCORE, ("F-RCCE", "Damson"), ("F-RCCE", "Alder"), above=-0.1,
    ),
    "F-RCCE as published": says(
        "As published, F-RCCE selects Cedar and Damson equally often",
        LONG, ("F-RCCE as published", "Cedar"), ("F-RCCE as published", "Damson"),
        above=-0.05, below=0.05,
    ),
    "FLDVE, Cedar": says("FLDVE weighs Cedar high", LONG, "FLDVE", at="Cedar", above=0.9),
    "FLDVE, Damson": says("FLDVE weighs Damson low", LONG, "FLDVE", at="Damson", below=0.3),
    "FLDVE gains": says(
        "FLDVE's model is more accurate than FedAvg's", "accuracy @ 48", "FLDVE", "FedAvg", ALL,
        above=0.03,
    ),
    "FedCCEA pays Fir": says("FedCCEA gives Fir a share", SCORE, "FedCCEA", at="Fir", above=0.01),
    "FedCCEA, Damson": says(
        "FedCCEA gives Damson less than Alder", LONG, ("FedCCEA", "Damson"), ("FedCCEA", "Alder"),
        below=-0.1,
    ),
    "FedCCEA, Cedar": says(
        "FedCCEA gives Cedar less than Alder", LONG, ("FedCCEA", "Cedar"), ("FedCCEA", "Alder"),
        below=-0.03,
    ),
    "FedCCEA, Fir late": says(
        "After 16 times as many simulations FedCCEA still gives Fir a share",
        LONG, "FedCCEA", at="Fir", above=0.01,
    ),
    "relevance, Cedar": says(
        "Cedar's relevance is above Damson's", SCORE, ("S-FedAvg's relevance", "Cedar"),
        ("S-FedAvg's relevance", "Damson"), above=0.01,
    ),
    "relevance, Alder": says(
        "Alder's relevance is below Damson's", SCORE, ("S-FedAvg's relevance", "Alder"),
        ("S-FedAvg's relevance", "Damson"), below=-0.02,
    ),
    "S-FedAvg gains": says(
        "S-FedAvg's model is more accurate than FedAvg's", "accuracy @ 48", "S-FedAvg", "FedAvg",
        ALL, above=0.03,
    ),
    "Taylor, Alder": says(
        "The Taylor score of Alder is negative", SCORE, "second order", at="Alder", below=0
    ),
    "Taylor, Cedar": says(
        "The Taylor score of Cedar is positive", SCORE, "second order", at="Cedar", above=0.03
    ),
}  # fmt: skip


def judged(kind: str, judge: str) -> str:
    """The stored name of a method whose samples are one hospital's, or all."""
    return f"{kind}, judged by {judge}"


def by(judge: str, one: str, other: str = "", **bounds: float) -> Claim:
    """How much more one hospital is worth than another, or than if all patients judge."""
    own, more = judged(ACCURACY, judge), "more" if "above" in bounds else "less"
    if not other:
        words = f"{one} is worth {more} if {judge}'s patients judge than if all do"
        return says(words, VALUE, own, judged(ACCURACY, "all"), one, **bounds)
    words = f"Judged by {judge}'s patients, {one} is worth {more} than {other}"
    return says(words, VALUE, (own, one), (own, other), "", **bounds)


OF_HOSPITALS = {
    "Switzerland at home": by("Switzerland", "Switzerland", above=0.05),
    "Budapest abroad": by("Switzerland", "Budapest", below=-0.04),
    "in Switzerland": by("Switzerland", "Budapest", "Switzerland", below=-0.1),
    "in Budapest": by("Budapest", "Budapest", "Switzerland", above=0.05),
    "in Cleveland": by("Cleveland", "Cleveland", "Switzerland", above=0.03),
    "rounds, Budapest": says(
        "Judged by Switzerland's patients, Budapest's silent Shapley value of rounds is negative",
        SCORE, judged("Shapley, silent", "Switzerland"), at="Budapest", below=0,
    ),
    "rounds, Switzerland": says(
        "Judged by its own patients, Switzerland's silent Shapley value of rounds is positive",
        SCORE, judged("Shapley, silent", "Switzerland"), at="Switzerland", above=0.03,
    ),
    "CGSV, Switzerland": says(
        "CGSV gives Switzerland next to no weight",
        SCORE, judged("CGSV", "all"), at="Switzerland", below=0.1,
    ),
}  # fmt: skip


# --- the scoreboard ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A row of the scoreboard.

    lesson           the first that shows it
    method, metric   whose stored values it draws
    claims           of the clinics, on which its verdict rests
    attacked         of `adversaries_claims`, on which it rests where it speaks of a replay
    """

    lesson: int
    method: str
    metric: str
    sees: str
    costs: str
    verdict: str
    claims: tuple[str, ...]
    attacked: tuple[str, ...] = ()


BOARD = {
    "retrained Shapley value": Line(
        3, ACCURACY, SHARE, "every coalition trained", "64 training runs",
        "the reference: what each adds over a whole training run",
        ("Cedar first", "Damson low", "Fir nothing", "Elm like Alder"),
    ),
    "size": Line(
        1, "size", SCORE, "sizes", "nothing", "pays idle Fir like Cedar, whom all need",
        ("Cedar first", "Fir nothing"),
    ),
    "Shapley value of rounds": Line(
        2, "Shapley, silent", SCORE, "updates, samples", "64 models a round",
        "sees Cedar; blames Alder, the largest, in every round; pays a replay little",
        ("rounds blame Alder", "rounds need Cedar", "silent, Fir"), ("busy, silent",),
    ),
    "alone, retrained": Line(
        3, ALONE, VALUE, "each clinic trained alone", "6 training runs",
        "finds Damson and Fir; the order of the reference",
        ("alone finds Damson", "alone, Fir"),
    ),
    "leave one out, retrained": Line(
        3, WITHOUT, VALUE, "all but one trained", "7 training runs",
        "only Cedar is missed; Alder and its copy stand in for each other",
        ("without Cedar", "without Alder"),
    ),
    "CGSV's weight": Line(
        4, "CGSV", SCORE, "updates", "6 cosines a round",
        "finds Damson and Fir; nearly silences Cedar; pays a replay",
        ("CGSV, Cedar", "CGSV, Damson", "CGSV, Fir", "CGSV, Birch"), ("busy, CGSV",),
    ),
    "F-RCCE, 768 rounds": Line(
        5, "F-RCCE", LONG, "updates, samples", "2 models a round, 768 rounds",
        "finds Cedar and Damson late; keeps Fir",
        ("F-RCCE, Cedar", "F-RCCE, Damson", "F-RCCE, Fir", "F-RCCE, early"),
    ),
    "FLDVE, 768 rounds": Line(
        6, "FLDVE", LONG, "updates, samples", "9 models a round, 768 rounds",
        "finds Cedar and Damson; keeps Fir",
        ("FLDVE, Cedar", "FLDVE, Damson", "FLDVE gains"),
    ),
    "FedCCEA's index": Line(
        7, "FedCCEA", LONG, "sizes, accuracies", "240 training runs",
        "places Damson below Alder; pays Fir for nothing",
        ("FedCCEA, Damson", "FedCCEA, Fir late"),
    ),
    "S-FedAvg's relevance": Line(
        8, "S-FedAvg's relevance", SCORE, "updates, samples", "64 models a round",
        "Cedar first; Alder, the largest, below Damson", ("relevance, Cedar", "relevance, Alder"),
    ),
    "Taylor score, capped": Line(
        10, "second order, capped", SCORE, "updates, samples", "2 gradients a round",
        "sees Cedar; blames Alder", ("Taylor, Alder", "Taylor, Cedar"),
    ),
    "class cosine": Line(
        10, "class cosine", SCORE, "updates", "6 cosines a round and class",
        "finds Damson, does not blame Cedar; gives a replay over .3 of the pay",
        ("class cosine, Damson",), ("busy, class",),
    ),
}  # fmt: skip


def failing(results: Results, *names: str) -> list[str]:
    """Those of the named claims about a case that do not hold.

    results  of the study `clinics`, or of `hospitals`
    """
    known = {"clinics": OF_CLINICS, "hospitals": OF_HOSPITALS}[results.study.name]
    found = {name: results.judge(known[name]) for name in names}
    return [f"{name}: {entry.measured}" for name, entry in found.items() if entry.verdict != HOLDS]


def board(results: Results, lesson: int) -> Scoreboard:
    """The scoreboard at the end of a lesson: the reference, and every score up to there.

    results  of the study `clinics`
    """
    rows = {}
    for name, line in BOARD.items():
        if line.lesson <= lesson or name == next(iter(BOARD)):
            each = [results.values(line.metric, line.method, clinic) for clinic in CLINICS]
            values = torch.stack(each, dim=1)
            rows[name] = Said(values, line.sees, line.costs, line.verdict)
    caption = (
        f"Six clinics, {results.whose}: a dot per seed, a bar for the mean, and the reference "
        "as a dashed outline. Every row has a scale of its own."
    )
    return scoreboard(CLINICS, rows, caption=caption)


# {name in the study `clinics-changed`: (who changes, what a reader is told)}
CHANGED = {
    "as they are": ("", "nothing changes"),
    "Alder 150": ("Alder", "Alder holds 150 samples, not 300"),
    "Alder 225": ("Alder", "Alder holds 225 samples, not 300"),
    "Alder 400": ("Alder", "Alder holds 400 samples, not 300"),
    "Damson 0% wrong": ("Damson", "no label of Damson is wrong"),
    "Damson 25% wrong": ("Damson", "a quarter of Damson's labels are wrong, not half"),
    "Damson 75% wrong": ("Damson", "three quarters of Damson's labels are wrong, not half"),
    "Damson 100% wrong": ("Damson", "all labels of Damson are wrong"),
    "Elm has its own": ("Elm", "Elm has samples of its own, not Alder's"),
    "Fir trains": ("Fir", "Fir trains on 150 samples of its own"),
}
PAID = {
    "retraining": (ACCURACY, SHARE),
    "size": ("size", SCORE),
    "CGSV's weight": ("CGSV", SCORE),
    "Taylor score": ("second order", SCORE),
    "class cosine": ("class cosine", SCORE),
}


def changes(results: Results) -> ChangesExplorer:
    """Lesson 10's explorer: shares of the pay before and after one thing about a clinic changes.

    results  of the study `clinics-changed`
    """

    def shares(method: str, metric: str, change: str) -> Tensor:
        of = f"{method}, {change}"
        values = torch.stack([results.values(metric, of, clinic) for clinic in CLINICS], dim=1)
        return torch.stack([fm.contribution_index(row) for row in values], dim=1)

    told = {
        words: {name: shares(*where, change) for name, where in PAID.items()}
        for change, (_, words) in CHANGED.items()
    }
    who = {words: clinic for clinic, words in CHANGED.values() if clinic}
    first = CHANGED["Alder 150"][1]
    return ChangesExplorer(CLINICS, told, who, change=first, score="CGSV's weight")
