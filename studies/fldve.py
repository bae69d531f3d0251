"""FLDVE over 300 rounds, what kind of fault pays, and what single rounds ask for.

Chapter 6 reads these results. Beside: fldve_paper, at the paper's own sets. Below: weighing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.train import local_updates, train
from fedlab_mini.games.game import all_coalitions
from fedlab_mini.games.training_games import round_game
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.reinforce import FLDVE, others
from fedlab_mini.worlds.corrupt import flip_labels, relabel_as
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.scenarios import noisy_digits

from .study import Row
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
