"""F-RCCE over training length: protocol, figure, and what chapter 5 says of it.

[zhao2021efficient, Section 3]. Below: frcce which makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from fedlab_mini.judge.evidence import Interval, interval, paired
from fedlab_mini.show import plots

from .frcce import FLIPS, LOOKS, VARIANTS, rounds_rows, rounds_sms
from .study import (
    Claim,
    Measure,
    Results,
    Study,
    alike,
    beyond,
    bounded,
    covers,
    higher,
    lower,
    within,
)


def rounds_figure(results: Results) -> Figure:
    """AUC against rounds of every variant, all and half of the labels flipped."""
    lines = {
        name: {degree: results.curve("AUC", f"{name}, {degree}")[1] for degree in FLIPS}
        for name in VARIANTS
    }
    return plots.panels(lines, x=LOOKS, ylabel="detection AUC", chance=0.5)


def apart(a: str, b: str, variant: str, other: str | None = None) -> Measure:
    """Metric a of a variant minus metric b of the same or another one, seed by seed."""
    return lambda found: paired(found.values(a, variant), found.values(b, other or variant))


def grows(variant: str, early: int, late: int) -> Claim:
    """A variant's AUC is higher after more rounds."""
    test = bounded(apart(f"AUC @ {late}", f"AUC @ {early}", variant), 0)
    return Claim(f"{variant}: AUC rises from round {early} to round {late}", test, paper=False)


def moved_more(results: Results) -> Interval:
    """How much farther the printed step moves omega alone than with all printed but the sign.

    In powers of ten: the ratio itself is far from normal.
    """
    step, fixed = (
        results.values("spread of omega", f"printed {name}, all flipped")
        for name in ("step size", "but for the sign")
    )
    return interval((step / fixed).log10())


def rounds_reads() -> Iterator[Claim]:
    """What chapter 5 says of 1,000 rounds."""
    ours, sign, literal = (
        f"{name}, all flipped" for name in ("ours", "printed sign", "all as printed")
    )
    better = higher("test accuracy", ours, sign, by=0.5)
    yield Claim("the printed sign costs more than half of the accuracy", better, key="lost")
    early = bounded(apart("AUC, last round alone", "AUC @ 1", literal), high=0)
    yield Claim("all as printed: the last round ranks worse than the first", early, key="fallen")
    still = within("spread of omega", -0.01, 0.01, literal)
    yield Claim("all as printed: the probabilities hardly move", still)
    for degree in FLIPS:
        down = within("AUC @ 50", -1, 0.1, f"printed sign, {degree}")
        yield Claim(f"printed sign, {degree}: upside down at round 50", down)
        down = within("AUC @ 1000", -1, 0.1, f"printed sign, {degree}")
        yield Claim(f"printed sign, {degree}: upside down at round 1,000", down)
        for variant in ("no clamp", "no limit"):
            for t in (50, 1000):
                same = within(f"AUC @ {t}", -0.01, 0.01, f"{variant}, {degree}", f"ours, {degree}")
                yield Claim(f"{variant}, {degree}, round {t}: AUC within .01 of ours", same)
    half = {n: f"{n}, half flipped" for n in ("ours", *VARIANTS)}
    step, moving = half["printed step size"], half["printed baseline"]
    for key, variant in {"step": step, "moving": moving}.items():
        behind = lower("AUC @ 50", variant, half["ours"])
        yield Claim(f"{variant}: behind ours at round 50", behind, key=f"{key}_50")
    end = beyond("AUC @ 1000", step, 0.95)
    yield Claim(f"{step}: AUC above .95 at round 1,000", end, key="step_end")
    end = covers("AUC @ 1000", moving, 0.5)
    yield Claim(f"{moving}: better than chance at round 1,000 is not shown", end, key="moving_end")
    end = beyond("AUC, last round alone", moving, 0.95)
    yield Claim(f"{moving}: AUC of the last round above .95", end, key="moving_last")
    raw = higher("AUC @ 10", half["printed input"], half["ours"])
    yield Claim("printed input, half flipped: ahead of ours at round 10", raw, key="raw_10")
    anything = covers("AUC @ 1000", "printed but for the sign, all flipped", 0.5)
    yield Claim("printed but for the sign: no better than chance", anything, key="fixed_end")
    yield Claim(
        "the printed step moves more than 10 times as far by itself", bounded(moved_more, 1)
    )


def sms_reads() -> Iterator[Claim]:
    """What chapter 5 says of the real messages."""
    for degree in FLIPS:
        found = beyond("AUC @ 1000", f"ours, {degree}", 0.95)
        yield Claim(f"ours, {degree}: AUC above .95", found, key=f"real_{degree.split()[0]}")
        for name in ("printed step size", "printed baseline"):
            if degree == "half flipped":
                same = alike("AUC @ 50", f"{name}, {degree}", f"ours, {degree}")
                yield Claim(f"{name}: a lag at round 50 is not shown", same)
    left = within("AUC @ 1000", -1, 0.75, "all as printed, all flipped")
    yield Claim("all as printed: AUC below .75", left, key="real_literal")


ROUNDS_CLAIMS = (
    Claim(
        "as printed, the evaluator tells corrupted clients from sound ones (AUC above .75)",
        beyond("AUC @ 1000", "all as printed, all flipped", 0.75),
    ),
    Claim(
        "our defaults find clients with all labels flipped (AUC above .95)",
        beyond("AUC @ 1000", "ours, all flipped", 0.95),
        paper=False,
    ),
    Claim(
        "our defaults find clients with half of their labels flipped (AUC above .95)",
        beyond("AUC @ 1000", "ours, half flipped", 0.95),
        paper=False,
    ),
    Claim(
        "after 50 rounds our baseline ranks better than the moving average, half flipped",
        higher("AUC @ 50", "ours, half flipped", "printed baseline, half flipped"),
        paper=False,
    ),
    Claim(
        "after 50 rounds our step size ranks better than the printed one, half flipped",
        higher("AUC @ 50", "ours, half flipped", "printed step size, half flipped"),
        paper=False,
    ),
    grows("printed baseline, half flipped", 50, 1000),
    grows("printed step size, half flipped", 50, 1000),
    Claim(
        "the printed sign ranks the other way round: ours is higher, all flipped",
        higher("AUC @ 1000", "ours, all flipped", "printed sign, all flipped"),
        paper=False,
    ),
)
PROTOCOL = {
    "data": ("SMS Spam, 5,572 messages", "synthetic messages, 5,574"),
    "clients, sizes": ("50, Dirichlet, concentration not given", "50, Dirichlet(0.5), at least 5"),
    "corrupted": ("20 % of the messages lose 20 % of their words", "10 clients, labels flipped"),
    "input": ("token numbers, 150 columns", "bag of 200 words"),
    "model, rate": ("logistic regression, 0.1", "the same"),
    "local work": ("not given", "1 epoch, batches of 64"),
    "rounds": ("1,000", "1,000"),
    "evaluator": ("4 layers, widths not given, Adam 1e-5", "64-32-16-1; Adam by variant"),
    "baseline window, start": ("T, not given", "20, the loss before round 1"),
    "repetitions": ("5, mean shown", "5 seeds, interval"),
}
REAL = {
    "data": ("SMS Spam, 5,572 messages", "SMS Spam, 5,574 messages"),
    "input": ("token numbers, 150 columns", "bag of 500 words"),
}
SAYS = "The learned selection probability measures contribution and finds corrupted data."


STUDIES = (
    Study(
        name="frcce-rounds",
        item="F-RCCE, Section 3: which choices make it learn, and when",
        says=SAYS,
        protocol=PROTOCOL,
        rows=rounds_rows,
        claims=ROUNDS_CLAIMS,
        reads=tuple(rounds_reads()),
        figure=rounds_figure,
    ),
    Study(
        name="frcce-rounds-sms",
        item="F-RCCE, Section 3, on the real messages",
        says=SAYS,
        protocol=PROTOCOL | REAL,
        rows=rounds_sms,
        claims=ROUNDS_CLAIMS,
        reads=tuple(sms_reads()),
        figure=rounds_figure,
    ),
)
