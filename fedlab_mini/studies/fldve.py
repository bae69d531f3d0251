"""FLDVE over 300 rounds, what kind of fault pays, and what single rounds ask for.

Chapter 6 reads these results. Beside: fldve_paper, at the paper's own sets. Below: weighing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor

from .. import plots
from ..corrupt import flip_labels, relabel_as
from ..data import load
from ..evidence import Interval, interval
from ..federation import Federation, federation
from ..game import all_coalitions
from ..games import round_game
from ..methods.fedavg import FedAvg
from ..methods.reinforce import FLDVE, others
from ..model import Model, mlp
from ..scenarios import noisy_digits
from ..training import local_updates, train
from .study import Claim, Measure, Results, Row, Study, beyond, bounded, higher, within
from .weighing import LEARNERS, LOCAL, ROUNDS, RULES, SETS, best, effective, ends, found

LONG = 300
LOOKS = (10, 30, 60, 120, 300)  # rounds of the long run at which accuracy and weights are looked at
PLACES = (1, 10, 30, 100, 300)  # rounds of which the best selection and weights are sought
EARLY = (0, 10, 20, 30)  # rounds after which the noise of one and of eight probes is measured
KINDS = {
    "half at random": flip_labels(0.5),
    "nine in ten at random": flip_labels(0.9),
    "half called nine": relabel_as(9, 0.5),
    "nine in ten called nine": relabel_as(9, 0.9),
}


def long(seed: int) -> Iterator[Row]:
    """300 rounds on the small digits: where do the weights end, and what does it do?"""
    data, net = load("digits", dtype=torch.float64), mlp(64, 32, 10)
    for n in SETS:
        fed = noisy_digits(data, n, seed=seed)
        for name, rule in (RULES | LEARNERS).items():
            case, own = f"{name}, set {n}", rule(fed)
            history = train(fed, net, own, rounds=LONG, local=LOCAL, seed=seed)
            for t in LOOKS:
                yield case, f"accuracy @ {t}", ends(history, t)
                w = history.weights[t - 10 : t]
                yield case, f"effective clients @ {t}", float(effective(w).mean())
                if name != "FedAvg":
                    yield from ((case, *row) for row in found(fed, history, t))
            yield case, "largest weight", float(w.max(1).values.mean())
            yield case, "test loss", float(history.loss[-5:].mean())


def kinds(seed: int) -> Iterator[Row]:
    """Amount against kind of noise; what is systematic in it; the best of a round; probes."""
    data, net = load("digits", dtype=torch.float64), mlp(64, 32, 10)
    who = int(torch.randint(5, (1,), generator=torch.Generator().manual_seed(seed)))
    for kind, wrong in KINDS.items():
        fed = federation(data, clients=5, corrupt={who: wrong}, seed=seed)
        for name in ("FedAvg", "FLDVE"):
            history = train(fed, net, RULES[name](fed), rounds=ROUNDS, local=LOCAL, seed=seed)
            yield f"{name}, {kind}", "accuracy", ends(history, ROUNDS)
        yield kind, "systematic share", systematic(data.classes, fed, net, wrong, seed)
    for n in SETS:
        fed = noisy_digits(data, n, seed=seed)
        yield from ((f"set {n}", *row) for row in one_round(fed, net, seed))
        for t in EARLY:
            yield f"set {n}", f"variance ratio @ {t}", probes(fed, net, seed, t)
    for name, rule in {"one probe": FLDVE(probes=1), "eight probes": FLDVE()}.items():
        fed = noisy_digits(data, 2, seed=seed)
        history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
        yield from ((name, *row) for row in found(fed, history, ROUNDS))


def after(fed: Federation, net: Model, seed: int, t: int) -> tuple[Tensor, Tensor]:
    """FedAvg's model after t rounds, and the clients' next updates."""
    theta = net.init(seed, dtype=fed.x.dtype)
    if t:
        theta = train(fed, net, FedAvg(), rounds=t, local=LOCAL, seed=seed).theta
    return theta, local_updates(fed, net, theta, local=LOCAL, seed=seed, t=t + 1)


def systematic(classes: int, fed: Federation, net: Model, wrong: Callable, seed: int) -> float:
    """Share of a fault's squared effect on an update that is the same in every draw of the fault.

    One client's labels are drawn anew 20 times; images, minibatches and start stay as they are.
    """
    (x, y), draws = fed.client(next(k for k in range(5) if k not in fed.corrupted)), 20
    theta, _ = after(fed, net, seed, 10)

    def update(labels: Tensor) -> Tensor:
        alone = Federation.from_datasets(
            [(x, labels)], validation=fed.validation, test=fed.test, classes=classes
        )
        return local_updates(alone, net, theta, local=LOCAL, seed=seed)[0]

    chance = torch.Generator().manual_seed(seed)
    off = torch.stack([update(wrong(x, y, classes, chance)[1]) for _ in range(draws)]) - update(y)
    total, middle = off.square().sum(1).mean(), off.mean(0).square().sum()
    return float((draws * middle - total) / (draws - 1) / total)  # the noise of the mean taken out


def one_round(fed: Federation, net: Model, seed: int) -> Iterator[tuple[str, float]]:
    """Best selection and best weights of single rounds on FedAvg's way; what they do."""
    everyone = all_coalitions(5)
    for t in PLACES:
        theta, updates = after(fed, net, seed, t - 1)
        worth = round_game(net, theta, updates, *fed.validation, metric="loss")(everyone)
        top = everyone[worth.argmax()].double()
        ways = {"all": torch.ones(5).double() / 5, "best selection": top / top.sum()}
        ways["best weights"] = best(net, theta, updates, *fed.validation, 100)
        for way, w in ways.items():
            yield f"clients, {way} @ {t}", float(effective(w))
            for metric in ("loss", "accuracy"):
                value = net.evaluate((theta + w @ updates)[None], *fed.test, metric)
                yield f"test {metric}, {way} @ {t}", float(value)


def probes(fed: Federation, net: Model, seed: int, t: int) -> float:
    """Variance of eight probes, each against the others, over that of one against the past."""
    theta, updates = after(fed, net, seed, t)
    game = round_game(net, theta, updates, *fed.validation, metric="loss")
    omega = torch.tensor([0.5, -0.3, 0.1, 0.8, -0.6]).double().sigmoid()
    chance = torch.Generator().manual_seed(seed)
    s = torch.rand(2000, 8, 5, generator=chance, dtype=torch.float64) < omega
    loss = -game(s.flatten(0, 1)).view(2000, 8)
    score = s.double() - omega
    mates = torch.stack([others(row, torch.ones(8).bool()) for row in loss])
    eight = ((mates - loss)[:, :, None] * score).mean(1)
    one = (-game(torch.zeros(1, 5).bool()) - loss[:, :1]) * score[:, 0]
    return float(eight.var(0).sum() / one.var(0).sum())


def long_figure(results: Results) -> Figure:
    """Effective number of clients against rounds in each set."""
    return plots.panels(lines(results, "effective clients"), x=LOOKS, ylabel="effective clients")


def gain_figure(results: Results) -> Figure:
    """Accuracy against rounds minus FedAvg's, in each set."""
    found = lines(results, "accuracy")
    for n, part in found.items():
        for name in part:
            part[name] = part[name] - results.curve("accuracy", f"FedAvg, {n}")[1]
    return plots.panels(found, x=LOOKS, ylabel="accuracy minus FedAvg's")


def lines(results: Results, metric: str) -> dict[str, dict[str, Tensor]]:
    """A metric against rounds, set by set and rule by rule, [seeds, LOOKS] each."""
    names = ("FLDVE", "direct gradient", "own loss", "rewarded by accuracy")
    return {
        f"set {n}": {name: results.curve(metric, f"{name}, set {n}")[1] for name in names}
        for n in SETS
    }


def kinds_figure(results: Results) -> Figure:
    """What FLDVE gains over FedAvg for each fault of one client."""
    found = {kind: gained(results, kind) for kind in KINDS}
    return plots.dots(found, xlabel="accuracy, FLDVE minus FedAvg", reference={"equal": 0.0})


def gained(results: Results, kind: str) -> Tensor:
    """Accuracy of FLDVE minus FedAvg's, [seeds]."""
    return results.values("accuracy", f"FLDVE, {kind}") - results.values(
        "accuracy", f"FedAvg, {kind}"
    )


def more(kind: str, than: str, key: str, paper: bool = False) -> Claim:
    """FLDVE gains more with one fault than with another."""
    return Claim(
        f"FLDVE gains more over FedAvg with {kind} than with {than}",
        bounded(lambda r: interval(gained(r, kind) - gained(r, than)), low=0),
        paper,
        key,
    )


def in_round(metric: str, way: str, t: int, n: int) -> Measure:
    """A metric of one round's best selection or weights, minus that of everybody's mean."""

    def measure(results: Results) -> Interval:
        mine, all_of_us = (
            results.values(f"test {metric}, {name} @ {t}", f"set {n}") for name in (way, "all")
        )
        return interval(mine - all_of_us)

    return measure


def kinds_reads() -> Iterator[Claim]:
    """Chapter 6 on probes, on systematic faults, and on single rounds."""
    for n in (1, 2):
        early = within("variance ratio @ 0", 0, 1 / 50, f"set {n}")
        yield Claim(
            f"at the start eight probes have below a fiftieth of the variance, set {n}", early
        )
    early = beyond("variance ratio @ 0", "set 3", 1 / 8)
    yield Claim("in set 3 eight probes only average, from the start", early)
    late = within("variance ratio @ 20", 1 / 8, 1 / 6, "set 1")
    yield Claim("after 20 rounds eight probes only average", late, key="ratio_late")
    rank = higher("ranks cleanness @ 30", "eight probes", "one probe")
    yield Claim("eight probes rank cleanness better than one", rank, key="more_rank")
    for kind, key in zip(KINDS, ("random_half", "random", "nine_half", "nine"), strict=True):
        most = beyond("systematic share", kind, 0.5)
        yield Claim(f"most of what {kind} does is systematic", most, key=f"systematic_{key}")
    for t in PLACES[1:4]:
        loss = bounded(in_round("loss", "best selection", t, 2), high=0)
        yield Claim(
            f"round {t}, set 2: the best selection has less test loss", loss, key=f"loss_{t}"
        )
        same = bounded(in_round("accuracy", "best selection", t, 2), high=0.01)
        yield Claim(f"round {t}, set 2: not more accuracy", same, key=f"accuracy_{t}")
        few = within(f"clients, best weights @ {t}", 1, 2.5, "set 2")
        yield Claim(f"round {t}, set 2: the best weights rest on few", few, key=f"few_{t}")


OURS = {
    "data, model": ("MNIST, CNN", "8 x 8 digits, perceptron 64-32-10"),
    "clients, data": ("5, 2,000 images each, IID", "5, about 215 each"),
    "rounds, rate": ("30, SGD .25", "300, SGD .25"),
}
STUDIES = (
    Study(
        name="fldve-long",
        item="FLDVE over 300 rounds: where do the weights end?",
        says="Nothing: the paper stops after 30 rounds.",
        protocol=OURS,
        rows=long,
        claims=(),
        reads=(),
        figure=long_figure,
        seeds=10,
    ),
    Study(
        name="fldve-kinds",
        item="FLDVE: amount against kind of noise, single rounds, probes",
        says="The larger the gap in quality, the larger the gain.",
        protocol=OURS | {"rounds, rate": ("30, SGD .25", "the same")},
        rows=kinds,
        claims=(
            more("nine in ten at random", "half at random", "amount", True),
            more("nine in ten called nine", "half called nine", "amount_nine", True),
            more("nine in ten called nine", "nine in ten at random", "kind"),
            more("half called nine", "half at random", "kind_half"),
        ),
        reads=tuple(kinds_reads()),
        figure=kinds_figure,
        seeds=10,
    ),
)
