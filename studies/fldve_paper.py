"""FLDVE at its paper's sets and rounds: Table 1, Figs. 3 to 6, on MNIST and CIFAR-10.

[fldve2022data, Section 4]; chapter 6 reads these results. Beside: fldve. Below: weighing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.model import Model, cnn
from fedlab_mini.engine.train import train
from fedlab_mini.judge.evidence import interval
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.reinforce import FLDVE
from fedlab_mini.show import plots
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import federation
from fedlab_mini.worlds.scenarios import noisy_digits

from .study import FAILS, HOLDS, Claim, Results, Row, Study, Test, alike, beyond, bounded, higher
from .weighing import LOCAL, ROUNDS, RULES, SETS, OwnLoss, ends, found

CURVE = (5, 10, 15, 20, 25, 30)  # rounds at which accuracy is looked at


def images(
    source: str, net: Model, sizes: dict, names: tuple[str, ...], seed: int
) -> Iterator[Row]:
    """The paper's sets: curves, final accuracy, recall by class, what is called nine."""
    data = load(source)
    clean = federation(data, clients=5, **sizes, seed=seed)
    cases = {"no noise": (clean, FedAvg())}
    for n in SETS:
        fed = noisy_digits(data, n, **sizes, seed=seed)
        cases |= {f"{name}, set {n}": (fed, RULES[name](fed)) for name in names}
    for case, (fed, rule) in cases.items():
        history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
        for t in CURVE:
            yield case, f"accuracy @ {t}", float(history.accuracy[t])
        yield case, "accuracy", ends(history, ROUNDS)
        x, y = fed.test
        with torch.no_grad():
            said = torch.cat([net.forward(history.theta, p).argmax(1) for p in x.split(250)])
        for c in range(10):
            yield case, f"recall @ {c}", float((said[y == c] == c).double().mean())
        yield case, "others called nine", float((said[y != 9] == 9).double().mean())
        if isinstance(rule, FLDVE | OwnLoss):
            yield from ((case, metric, value) for metric, value in found(fed, history, ROUNDS))


def mnist(seed: int) -> Iterator[Row]:
    """Table 1, Figs 3 and 5: 250 images a client, 250 validate, 1,000 test."""
    sizes = {"samples": 1250, "validation": 250, "test": 1000}
    yield from images("mnist", cnn(channels=(4, 8)), sizes, tuple(RULES), seed)


def cifar(seed: int) -> Iterator[Row]:
    """Table 1, Figs 4 and 6: the paper's 500 images a client; 250 validate, 500 test."""
    sizes = {"samples": 2500, "validation": 250, "test": 500}
    net = cnn((3, 32, 32), kernel=3, hidden=64)
    yield from images("cifar10", net, sizes, ("FedAvg", "FLDVE", "own loss"), seed)


def gain(results: Results, n: int, rule: str = "FLDVE", metric: str = "accuracy") -> Tensor:
    """Accuracy of a rule minus FedAvg's in a set, [seeds]."""
    return results.values(metric, f"{rule}, set {n}") - results.values(metric, f"FedAvg, set {n}")


def images_figure(results: Results) -> Figure:
    """Accuracy against rounds in each set from round 10 on, beside the training without noise."""
    names = [name for name in RULES if f"{name}, set 1" in results.variants]
    lines: dict[str, dict[str, Tensor]] = {}
    for n in SETS:
        cases = {name: f"{name}, set {n}" for name in names} | {"without noise": "no noise"}
        lines[f"set {n}"] = {
            name: results.curve("accuracy", case)[1][:, 1:] for name, case in cases.items()
        }
    return plots.panels(lines, x=CURVE[1:], ylabel="test accuracy")


def image_claims() -> Iterator[Claim]:
    """The paper's sentences on noise, FedAvg and FLDVE, set by set."""
    for n in SETS:
        fedavg, fldve = (f"{name}, set {n}" for name in ("FedAvg", "FLDVE"))
        yield Claim(
            f"noise lowers the accuracy of FedAvg, set {n}", higher("accuracy", "no noise", fedavg)
        )
        yield Claim(
            f"FLDVE is more accurate than FedAvg, set {n}", higher("accuracy", fldve, fedavg)
        )
    yield Claim(
        "the gain of FLDVE is larger in set 3 than in set 1",
        bounded(lambda results: interval(gain(results, 3) - gain(results, 1)), 0),
    )
    yield Claim(
        "weights follow cleanness, set 2", beyond("ranks cleanness @ 30", "FLDVE, set 2", 0)
    )
    yield Claim(
        "fewer other images are called nine than under FedAvg, set 3",
        higher("others called nine", "FedAvg, set 3", "FLDVE, set 3"),
    )


def weighed(n: int, rule: str, paper: bool) -> Claim:
    """FLDVE is more accurate than a rule, in a set."""
    test = higher("accuracy", f"FLDVE, set {n}", f"{rule}, set {n}")
    return Claim(f"FLDVE is more accurate than {rule}, set {n}", test, paper)


def gains(source: str, than: Mapping[str, tuple[Callable[..., Test], ...]]) -> Iterator[Claim]:
    """FLDVE beside other rules, a comparison for each set; and what noise costs FedAvg."""
    for rule, orders in than.items():
        for n, order in zip(SETS, orders, strict=True):
            test = order("accuracy", f"FLDVE, set {n}", f"{rule}, set {n}")
            key = f"{source}_{rule.replace(' ', '_')}_{n}"
            yield Claim(f"FLDVE is {order.__name__} to {rule}, set {n}", test, key=key)
    lost = higher("accuracy", "no noise", "FedAvg, set 3")
    yield Claim("noise costs FedAvg accuracy in set 3", lost, key=f"{source}_lost")


BESIDE = {"FedAvg": (alike, alike, higher), "own loss": (alike, alike, alike)}


def mnist_reads() -> Iterator[Claim]:
    """Chapter 6 on MNIST: where FLDVE gains, and where no difference is shown."""
    yield from gains("mnist", BESIDE | {"removal": (alike, higher, alike)})
    for metric, sentence in (
        ("others called nine", "FedAvg calls more other digits nine than FLDVE, in each seed"),
        ("recall @ 9", "FedAvg recognises more nines than FLDVE, in each seed"),
    ):
        yield Claim(sentence, each(metric, "FedAvg, set 3", "FLDVE, set 3"))


def each(metric: str, a: str, b: str) -> Test:
    """Variant a is above variant b in every single seed."""

    def test(results: Results) -> tuple[str, str]:
        above = results.values(metric, a) > results.values(metric, b)
        return (HOLDS if above.all() else FAILS), f"in {int(above.sum())} of {len(above)} seeds"

    return test


PROTOCOL = {
    "clients, data": ("5, 2,000 images each, IID", "5, 250 images each, for two cores"),
    "validation, test": ("2,000 and 2,000 images", "250 and 1,000"),
    "model": ("two 5 x 5 convolutions, channels not given; 256", "4 and 8 channels; 256"),
    "rounds, rate": ("30, SGD .25", "the same"),
    "local work": ("epochs and batch lost in the source at hand", "1 epoch, batches of 32"),
    "noise": ("sets 1, 2 and 3", "the same; who holds it is drawn"),
    "evaluator": ("a deep network, not given", "64-32-16-1 on the last layer, Adam 1e-3, 8 probes"),
    "removal": ("who is removed is not said", "omega below 1/2"),
    "accuracy": ("a number a set, seeds not given", "mean of rounds 26 to 30, seeds, interval"),
}
SAYS = "Weights by value lose less accuracy to label noise than FedAvg and than removal."
CIFAR = PROTOCOL | {
    "clients, data": ("5, 500 images each, IID", "the same"),
    "validation, test": ("500 and 500 images", "250 and 500"),
    "model": ("two 3 x 3 convolutions, 16 and 32, normalised; 64", "the same, not normalised"),
    "removal": ("who is removed is not said", "not run; see MNIST"),
}
LOST = "The numbers of Table 1 are lost in the text at hand, so its sentences are tested."
STUDIES = (
    Study(
        name="fldve-mnist",
        item="FLDVE, Table 1, Figs. 3 and 5: MNIST",
        says=SAYS,
        protocol=PROTOCOL,
        rows=mnist,
        claims=(
            *image_claims(),
            *(weighed(n, "removal", True) for n in SETS),
            *(weighed(n, "own loss", False) for n in SETS),
        ),
        reads=tuple(mnist_reads()),
        figure=images_figure,
        cannot=LOST,
    ),
    Study(
        name="fldve-cifar",
        item="FLDVE, Table 1, Figs. 4 and 6: CIFAR-10",
        says=SAYS,
        protocol=CIFAR,
        rows=cifar,
        claims=(*image_claims(), *(weighed(n, "own loss", False) for n in SETS)),
        reads=tuple(gains("cifar", BESIDE)),
        figure=images_figure,
        cannot=LOST,
    ),
)
