"""Label standardisation: protocol, figure, and what chapter 9 says of it.

[nagalapatti2021game, Fig. 5]. Below: label_standardisation which makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from fedlab_mini.show import plots

from .label_standardisation import (
    ALL,
    LEFT_OUT,
    OURS,
    PRINTED,
    RULES,
    SERVER,
    SHARES,
    rates,
    scarce,
)
from .sfedavg import PROTOCOL
from .study import Claim, Results, Study, beyond, higher, within


def scarce_figure(results: Results) -> Figure:
    """Accuracy where the client with exchanged names holds nearly all twos and fours, and all."""
    rows = {
        f"{name}, {100 * share:.0f} %": results.values("accuracy", f"{name}; {share:.2g}")
        for share in SHARES
        for name in ("S-FedAvg", OURS, ALL, "nothing exchanged")
    }
    told = "rule, share of twos and fours at one client"
    return plots.dots(rows, xlabel="test accuracy, last 20 rounds", ylabel=told)


def rates_claims() -> Iterator[Claim]:
    """Fig. 5's order of accuracies; who is repaired and harmed; what each change is worth."""
    own = {rule: f"{rule}; 1 class" for rule in ("FedAvg", "S-FedAvg", *RULES, SERVER)}
    for sentence, a, b in (
        ("S-FedAvg is more accurate than FedAvg", "S-FedAvg", "FedAvg"),
        ("our rule is more accurate than S-FedAvg", OURS, "S-FedAvg"),
        ("as printed it is more accurate than S-FedAvg", PRINTED, "S-FedAvg"),
        ("as printed it is more accurate than FedAvg", PRINTED, "FedAvg"),
    ):
        yield Claim(f"1 class: {sentence}", higher("accuracy", own[a], own[b]))
    most = beyond("repaired", own[PRINTED], 0.5)
    yield Claim("1 class: as printed the client is repaired (above .5)", most)
    for split, left_out in LEFT_OUT.items():
        name = {rule: f"{rule}; {split}" for rule in (*RULES, SERVER) if rule not in left_out}
        ours = name.pop(OURS)
        most = beyond("repaired", ours, 0.75)
        yield Claim(f"{split}: our rule repairs the client (above .75)", most, False)
        none = within("healthy harmed", -0.5, 0.5, ours)
        yield Claim(f"{split}: our rule harms nobody healthy (within half a client)", none, False)
        below = beyond("below healthy, at the end", ours, 0.0)
        yield Claim(f"{split}: repaired, it still ends below the healthy clients", below, False)
        for other, variant in name.items():
            test = higher("repaired", ours, variant)
            yield Claim(f"{split}: our rule repairs more than: {other}", test, False)
        for metric in ("healthy harmed", "irrelevant renamed"):
            test = higher(metric, name["P is the precision"], ours)
            yield Claim(f"{split}: {metric}: more with precision", test, False)


def scarce_claims() -> Iterator[Claim]:
    """Repair pays where the others hold few twos and fours, but some."""
    for share in (f"{s:.2g}" for s in SHARES):
        ours, plain, every = (f"{name}; {share}" for name in (OURS, "S-FedAvg", ALL))
        pays = higher("accuracy", ours, plain)
        yield Claim(f"share {share}: our rule is more accurate than S-FedAvg", pays, False)
        harm = higher("accuracy", ours, every)
        yield Claim(f"share {share}: and more accurate than asking everybody", harm, False)


CHANGES = {
    "clients": ("6 relevant, 1 with 2 and 4 in exchange; 4 irrelevant", "the same"),
    "stable": ("5 rounds within 2 %, not said of what", "5 validation accuracies within 5 %"),
    "asked": ("possibly corrupted clients, not said which or when", "by variant"),
    "rounds, asked a round": ("100, 5", "70, 5; accuracy over the last 20"),
    "temperature": ("1: there is none", "0.02; as printed: 1"),
    "compared with": ("FedAvg, S-FedAvg", "the same, and names guessed by the server"),
}
STUDIES = (
    Study(
        name="label-rates",
        item="Label standardisation, Fig. 5: repairs, harm, accuracy",
        says="At round 17 the client exchanges its labels; FedAvg, S-FedAvg and label "
        "standardisation are more accurate in this order.",
        protocol=PROTOCOL | CHANGES | {"repetitions": ("1 run", "10 seeds")},
        rows=rates,
        claims=tuple(rates_claims()),
        seeds=10,
    ),
    Study(
        name="label-scarce",
        item="Label standardisation: where the others hold few twos and fours",
        says="The updates of corrupted clients would be useful.",
        protocol=PROTOCOL
        | CHANGES
        | {
            "split": ("sorted by label, 1 or 2 classes a client", "IID but for twos and fours"),
            "repetitions": ("none", "5 seeds"),
        },
        rows=scarce,
        claims=tuple(scarce_claims()),
        figure=scarce_figure,
    ),
)
