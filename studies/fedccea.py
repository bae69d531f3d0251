"""FedCCEA's own tests: skewness of the index, exclusion, removal, partial participation, noise.

[shyn2021fedccea, Section 4 and appendix C]. Above: fedccea_claims. Beside: fedccea_fit (Fig. 7,
starts, exact values, time).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import mlp
from fedlab_mini.engine.simulate import simulate
from fedlab_mini.games.sampling import truncated
from fedlab_mini.games.shapley import leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import detection_auc, spearman
from fedlab_mini.methods.aam_fit import fit_aam, settle
from fedlab_mini.methods.fedccea import contribution_index, simulator
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import backdoor, flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import by_class, iid

from .study import Row

CLIENTS, ROUNDS, SIMULATIONS, SAMPLES = 20, 50, 100, 600
NOISY, HIDDEN = 4, 16  # clients, a fifth of all; hidden units
REMOVED = (2, 4, 8, 12)
SKEWS = ("alike", "weak", "strong")
METHODS = ("FedCCEA", "FedCCEA, 3,000 steps", "TMC", "LOO")


@dataclass(frozen=True)
class Source:
    """A data set with what the paper does on it: classes a client (weak, strong), local work."""

    weak: int
    strong: int
    local: LocalSGD


SOURCES = {
    "mnist": Source(5, 2, LocalSGD(epochs=3, batch=32, lr=0.1)),
    "digits": Source(5, 2, LocalSGD(epochs=3, batch=32, lr=0.1)),
    "emnist-letters": Source(13, 5, LocalSGD(epochs=1, batch=16, lr=0.3)),
}


def wrongs(data: Dataset) -> dict[str, object]:
    """What can be wrong with a fifth of the clients: nothing, labels, a square, both."""
    levels = {f"{p} % noise": flip_labels(p / 100) for p in (10, 20, 40, 80)}
    shape = data.shape or (1, 8, 8)
    side = 3 if shape[1] > 8 else 2
    return {
        "no noise": None,
        **levels,
        "square": backdoor(None, 0.2, shape, size=side),
        "square and label": backdoor(0, 0.2, shape, size=side),
    }


def dealt(data: Dataset, skew: str, wrong: object, seed: int) -> Federation:
    """Twenty clients, 600 images; the same four are corrupted whatever is wrong."""
    given = SOURCES[data.name]
    split = {"alike": iid(), "weak": by_class(given.weak), "strong": by_class(given.strong)}
    bad = torch.randperm(CLIENTS, generator=stream(seed, "noisy clients"))[:NOISY].tolist()
    return federation(
        data,
        clients=CLIENTS,
        split=split[skew],
        corrupt={} if wrong is None else dict.fromkeys(sorted(bad), wrong),
        samples=SAMPLES,
        validation=500,
        test=600 if data.name == "digits" else 1000,
        seed=seed,
    )


def gini(shares: Tensor) -> float:
    """How unequal: 0 if all have the same, near 1 if one has all. shares [n] >= 0, sum 1."""
    n, ordered = len(shares), shares.sort().values
    return float((2 * torch.arange(1, n + 1) - n - 1).double() @ ordered / n)


def without(order: Tensor, dropped: slice) -> Tensor:
    """Who stays [..., K] when the named places of a ranking [..., K], lowest first, go."""
    keep = torch.ones(order.shape, dtype=torch.float64)
    return keep.scatter_(-1, order[..., dropped], 0.0)


def settings(
    seed: int, source: str, skews: tuple[str, ...], what: tuple[str, ...]
) -> Iterator[Row]:
    """All tests of all settings on one data set."""
    data = load(source)
    for skew in skews:
        for wrong in what:
            fed = dealt(data, skew, wrongs(data)[wrong], seed)
            yield from evaluation(fed, f"{skew}, {wrong}", SOURCES[source].local, seed)


def evaluation(fed: Federation, name: str, local: LocalSGD, seed: int) -> Iterator[Row]:
    """One federation: the values, how settled they are, and what leaving clients out does."""
    net = mlp(fed.x[0].numel(), HIDDEN, fed.classes)
    runs = simulator(fed, net, SIMULATIONS, ROUNDS, local, seed)
    fit = settle(runs.sizes, runs.accuracy, seed=seed)
    omega = fit.model.omega[0]
    halves = [settle(runs.sizes[i::2], runs.accuracy[i::2], 1).omega[0] for i in (0, 1)]
    steps = fit_aam(runs.sizes, runs.accuracy, every=100, seed=seed).omega[:, 0]
    game = retraining_game(fed, net, ROUNDS, local, seed=seed)
    values = {
        "FedCCEA": runs.full * omega,
        "FedCCEA, 3,000 steps": runs.full * steps[-1],
        "TMC": truncated(game, 2, 0.01, seed=seed).values,
        "LOO": leave_one_out(game).values,
    }
    index = [contribution_index(runs.full * w) for w in fit.omega]
    yield name, "agreement of starts", fit.agreement
    yield name, "spread between starts", float(torch.stack(index).std(0).mean())
    yield name, "split half", spearman(*halves)
    yield name, "steps and end", spearman(steps[-1], omega)
    yield name, "gini of sizes", gini(runs.full / CLIENTS)
    yield name, "gini, 100 steps", gini(contribution_index(runs.full * steps[0]))
    yield name, "accuracy of simulations", float(runs.accuracy[:, -1].mean())
    for method, v in values.items():
        share, variant = contribution_index(v), f"{name}; {method}"
        yield variant, "gini", gini(share)
        yield variant, "zeros", int((share == 0).sum())
        yield variant, "smallest share", float(share.min())
        yield variant, "largest share", float(share.max())
        if fed.corrupted:
            yield variant, "AUC", detection_auc(v, fed.corrupted)
        if method != "FedCCEA":
            yield variant, "agrees with FedCCEA", spearman(v, values["FedCCEA"])
    shares = exclusions(values, seed) | partial(values["FedCCEA"], fed, seed)
    tables = torch.stack([keep.expand(ROUNDS, CLIENTS) for keep in shares.values()])
    final = simulate(fed, net, tables, local=local, seed=seed, on="test", last=True)[:, 0]
    for key, value in zip(shares, final.tolist(), strict=True):
        method, metric = key
        yield f"{name}; {method}" if method else name, metric, value


def exclusions(values: dict[str, Tensor], seed: int) -> dict[tuple[str, str], Tensor]:
    """Who trains when zeros, the lowest or the highest are left out; ties break at random."""
    keep = {("", "accuracy"): torch.ones(CLIENTS, dtype=torch.float64)}
    chance = torch.randperm(CLIENTS, generator=stream(seed, "ties"))
    for method, v in values.items():
        order = chance[v[chance].argsort(stable=True)]
        keep[method, "without zeros"] = (contribution_index(v) > 0).double()
        for r in REMOVED:
            keep[method, f"lowest gone @ {r}"] = without(order, slice(0, r))
            keep[method, f"highest gone @ {r}"] = without(order, slice(CLIENTS - r, None))
    return keep


def partial(values: Tensor, fed: Federation, seed: int) -> dict[tuple[str, str], Tensor]:
    """Random amounts every round; gone are the lowest or highest of the round, by x omega or x."""
    chance, size = stream(seed, "amounts"), (ROUNDS, CLIENTS)
    amount = torch.rand(size, generator=chance, dtype=torch.float64).clamp(min=1e-9)
    keep = {("", "accuracy, partial"): amount}
    for label, rank in {"x omega": amount * values, "x alone": amount * fed.sizes}.items():
        order = rank.argsort(stable=True)
        for r in (4, 8):
            keep[label, f"lowest gone @ {r}"] = amount * without(order, slice(0, r))
            top = slice(CLIENTS - r, None)
            keep[label, f"highest gone @ {r}"] = amount * without(order, top)
    return keep


def mnist_rows(seed: int) -> Iterator[Row]:
    """The main paper on MNIST: three skews, without noise and with 40 %."""
    yield from settings(seed, "mnist", SKEWS, ("no noise", "40 % noise"))


def letters_rows(seed: int) -> Iterator[Row]:
    """The same on letters."""
    yield from settings(seed, "emnist-letters", SKEWS, ("no noise", "40 % noise"))


def noise_rows(seed: int) -> Iterator[Row]:
    """The appendix: little noise and the square, on digits; ours: 80 %, a square that lies."""
    what = ("10 % noise", "20 % noise", "square", "80 % noise", "square and label")
    yield from settings(seed, "digits", ("alike",), what)
