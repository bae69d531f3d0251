"""S-FedAvg on MNIST, with its paper's network, rate and split. Chapter 8 reads these results.

[nagalapatti2021game, Figs. 1 and 3]. Below: sfedavg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from fedlab_mini.engine.model import mlp
from fedlab_mini.engine.train import train
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .sfedavg import COLD, IRRELEVANT, LOCAL, PROTOCOL, RELEVANT, ROUNDS, M, left
from .study import Claim, Results, Row, Study, alike, beyond, higher, within


def mnist_rows(seed: int) -> Iterator[Row]:
    """Figs. 1 and 3 on MNIST with the paper's network, rate and split."""
    data = load("mnist")
    fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, validation=1_000, test=4_000, seed=seed)
    net, local = mlp(784, 200, 200, 5), replace(LOCAL, lr=0.01)
    rules: dict[str, SFedAvg] = {
        "FedAvg": SFedAvg(M, temperature=math.inf),
        "S-FedAvg, T = 1 (printed)": SFedAvg(M, temperature=1.0),
        COLD: SFedAvg(M, temperature=0.02),
    }
    for rule, strategy in rules.items():
        history = train(fed, net, strategy, rounds=ROUNDS, local=local, seed=seed)
        for metric, value in left(fed, history):
            yield rule, metric, value


def mnist_figure(results: Results) -> Figure:
    """Accuracy against rounds, rule by rule."""
    rounds = [*range(10, ROUNDS + 1, 10)]
    lines = {rule: results.curve("accuracy", rule)[1] for rule in results.variants}
    return plots.panels({"1 class a client": lines}, x=rounds, ylabel="test accuracy")


def mnist_claims() -> Iterator[Claim]:
    """The paper's sentences with its network and rate; ours on temperature."""
    plain, one = "FedAvg", "S-FedAvg, T = 1 (printed)"
    for sentence, test, paper in (
        ("S-FedAvg as printed is steadier than FedAvg", ("change per round", plain, one), True),
        ("and more accurate", ("accuracy", one, plain), True),
        ("at T = 0.02 it is more accurate than FedAvg", ("accuracy", COLD, plain), False),
        ("and steadier", ("change per round", plain, COLD), False),
    ):
        yield Claim(sentence, higher(*test), paper)
    gap = beyond("relevance gap", one, 0.0)
    yield Claim("relevant clients have more relevance, as printed", gap)
    yield Claim("one by one, too (AUC above .95)", beyond("AUC", one, 0.95))
    share = within("relevant share", 0.55, 0.65, one)
    yield Claim("as printed the share of relevant clients stays at .6", share, False)
    most = beyond("relevant share", COLD, 0.75)
    yield Claim("at T = 0.02 it is above .75", most, False)


def mnist_reads() -> Iterator[Claim]:
    """Chapter 8 on MNIST: the printed temperature, and a lower one."""
    one = "S-FedAvg, T = 1 (printed)"
    for sentence, key, test in (
        ("as printed a small gain", "mnist_warm", within("accuracy", 0, 0.03, one, "FedAvg")),
        ("but no steadier curve is shown", "", alike("change per round", "FedAvg", one)),
        ("at T = 0.02 more accurate", "mnist_gain", higher("accuracy", COLD, "FedAvg")),
        ("and steadier", "", higher("change per round", "FedAvg", COLD)),
        ("at T = 0.02 nearly all are relevant", "mnist_share", beyond("relevant share", COLD, 0.9)),
        (
            "as printed hardly more than by chance",
            "mnist_all",
            within("relevant share", 0.5, 0.7, one),
        ),
    ):
        yield Claim(sentence, test, key=key)


MNIST = {
    "data": (PROTOCOL["data"][0], "MNIST, all training images"),
    "split": (PROTOCOL["split"][0], "the same"),
    "server's samples": ("1,000 validation, 4,000 test", "the same"),
    "model": ("three-layered, widths not given", "perceptron 784-200-200-5"),
    "local work": ("5 epochs, batches of 32, rate 0.01", "the same"),
    "temperature": ("1: there is none", "1, 0.02"),
    "compared with": ("FedAvg", "the same"),
    "repetitions": ("5 runs of FedAvg, 1 of S-FedAvg", "3 seeds"),
}
STUDIES = (
    Study(
        name="sfedavg-mnist",
        item="S-FedAvg, Figs. 1 and 3: MNIST, the paper's network and split",
        says="S-FedAvg converges smoothly, above FedAvg, and relevant clients have the higher "
        "relevance throughout.",
        protocol=PROTOCOL | MNIST,
        rows=mnist_rows,
        claims=tuple(mnist_claims()),
        reads=tuple(mnist_reads()),
        figure=mnist_figure,
        seeds=3,
    ),
)
