"""F-RCCE at its paper's protocol, and over training length: when does each printed choice work?

[zhao2021efficient, Section 3]; chapter 5 reads these results.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor

from .. import plots
from ..corrupt import flip_labels
from ..data import load
from ..federation import Federation
from ..local import LocalSGD
from ..methods.reinforce import FRCCE
from ..metrics import detection_auc
from ..model import logistic
from ..rounds import History
from ..scenarios import spam
from ..training import train
from .study import FAILS, HOLDS, Claim, Results, Row, Study, beyond, higher

CLIENTS, ROUNDS = 50, 1000
LOCAL = LocalSGD(epochs=1, batch=64, lr=0.1)
LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # rounds at which the ranking is looked at
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
VARIANTS: dict[str, dict] = {
    "ours": {},
    "printed sign": {"sign": "printed"},
    "printed step size": {"lr": 1e-5},
    "printed baseline": {"baseline": "moving"},
    "printed input": {"scaling": "none"},
    "no clamp": {"clamp": 0.0},
    "no limit": {"limit": None},
    "all as printed": {"literal": True},
    "printed but for the sign": {"literal": True, "sign": "gain"},
}
FLIPS = {"all flipped": 1.0, "half flipped": 0.5}


def rounds_rows(seed: int, source: str = "sms-synthetic") -> Iterator[Row]:
    """Detection AUC after 1 to 1,000 rounds, for each variant and both degrees of flipping."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    net = logistic(WORDS[source], 2)
    for degree, share in FLIPS.items():
        fed = spam(data, clients=CLIENTS, corrupt=flip_labels(share), seed=seed)
        for name, options in VARIANTS.items():
            rule = FRCCE(**options)
            history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in ranked(fed, history):
                yield f"{name}, {degree}", metric, value


def rounds_sms(seed: int) -> Iterator[Row]:
    """The same on the real messages."""
    yield from rounds_rows(seed, "sms")


def ranked(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What a training leaves: AUC of the score at several rounds, spread of omega, accuracy."""
    omega = by_round(history)
    for t in LOOKS:
        yield f"AUC @ {t}", detection_auc(history.scores[t - 1], fed.corrupted)
    yield "AUC, last round alone", detection_auc(omega[-1], fed.corrupted)
    yield "spread of omega", float(omega[-1].std())
    yield "test accuracy", float(history.accuracy[-1])


def by_round(history: History) -> Tensor:
    """Omega of each round [T, K], from the scores, which are running means."""
    total = history.scores * torch.arange(1, len(history.scores) + 1)[:, None]
    return total.diff(dim=0, prepend=torch.zeros_like(total[:1]))


def rounds_figure(results: Results) -> Figure:
    """AUC against rounds of every variant, all and half of the labels flipped."""
    lines = {
        name: {degree: results.curve("AUC", f"{name}, {degree}")[1] for degree in FLIPS}
        for name in VARIANTS
    }
    return plots.panels(lines, x=LOOKS, ylabel="detection AUC", chance=0.5)


def grows(variant: str, early: int, late: int) -> Claim:
    """A variant's AUC is higher after more rounds."""

    def test(results: Results) -> tuple[str, str]:
        before, after = (results.values(f"AUC @ {t}", variant) for t in (early, late))
        found = plots.interval(after - before)
        return (HOLDS if found.above(0) else FAILS if found.below(0) else "not shown"), str(found)

    return Claim(f"{variant}: AUC rises from round {early} to round {late}", test, paper=False)


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
        figure=rounds_figure,
    ),
    Study(
        name="frcce-rounds-sms",
        item="F-RCCE, Section 3, on the real messages",
        says=SAYS,
        protocol=PROTOCOL | REAL,
        rows=rounds_sms,
        claims=ROUNDS_CLAIMS,
        figure=rounds_figure,
    ),
)
