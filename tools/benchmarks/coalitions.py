"""All coalitions of one round: the accuracy of every average of the members' updates.

``fm.round_game`` against averaging, loading and forwarding models one by one; and one table for
twelve methods, with their cost relative to the exact value alone.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_bench.compared import METHODS
from fedlab_bench.entering import watched
from fedlab_bench.recording import recorded
from fedlab_bench.worlds import WORLDS
from fedlab_mini.games import round_tables as tables
from fedlab_mini.games.game import all_coalitions

from .timing import Result, cpu, interleave, ratios

NAME = "coalitions"
PLAYERS, SAMPLES, TARGET = 10, 1000, 15.0
WIDTHS = (784, 200, 5)
TWELVE = (  # on the same table, with the loss as worth and renormalised weights
    *("size", "alone", "leave one out", "Shapley", "lambda-MR", "Banzhaf", "beta-Shapley"),
    *("ShapleyFL", "first order", "CGSV", "class cosine", "trust cosine"),
)
PROGRAM = ("least core",)  # a linear program with 256 constraints comes on top
ROUNDS, SHARED = 10, 1.5


def real_round() -> tuple[fm.Federation, fm.Model, Tensor, Tensor]:
    """Ten clients with 100 images of the digits 0 to 4 each, and their second round's updates."""
    data = fm.load("mnist5k")
    kept = data.y < 5
    data = dataclasses.replace(
        data, x=data.x[kept], y=data.y[kept], classes=5, labels=data.labels[:5]
    )
    fed = fm.federation(
        data, clients=PLAYERS, samples=100 * PLAYERS, validation=SAMPLES, test=1, seed=0
    )
    net, local = fm.mlp(*WIDTHS), fm.LocalSGD(epochs=1, batch=20, lr=0.05)
    theta = fm.train(fed, net, fm.FedAvg(), rounds=1, local=local, seed=0).theta
    return fed, net, theta, fm.local_updates(fed, net, theta, local=local, seed=0, t=2)


@torch.no_grad()
def one_by_one(theta: Tensor, updates: Tensor, x: Tensor, y: Tensor, sets: Tensor) -> Tensor:
    """Accuracy [C] of every coalition: average its models, load the average, forward, count."""
    inputs, hidden, outputs = WIDTHS
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    weights = sets.to(updates) / sets.sum(1, keepdim=True)
    accuracies = []
    for row in weights:
        nn.utils.vector_to_parameters(theta + row @ updates, model.parameters())
        accuracies.append((model(x).argmax(1) == y).double().mean())
    return torch.stack(accuracies)


def shared(repetitions: int, data: str) -> list[Result]:
    """Time of ten rounds watched by twelve methods, over that with the exact value alone."""
    seen = recorded(dataclasses.replace(WORLDS["wrong labels"], source=data, rounds=ROUNDS), 0)

    def shown(names: tuple[str, ...]) -> None:
        for round in seen.rounds:
            tables.forget(round)
        watched(seen, {name: METHODS[name] for name in names})

    several = {"twelve methods": TWELVE, "and the least core": (*TWELVE, *PROGRAM)}
    names = several | {"one": ("Shapley",)}
    sides = {what: cpu(lambda some=some: shown(some)) for what, some in names.items()}
    seconds = interleave(sides, 3 * repetitions)
    return [
        Result(NAME, f"{data}, 8 clients: {what} / exact value alone",
               ratios(seconds[what], seconds["one"]), target, at_most=True)
        for what, target in zip(several, (SHARED, None), strict=True)
    ]  # fmt: skip


def run(repetitions: int) -> list[Result]:
    """1,023 coalitions of ten clients on 1,000 samples, 784-200-5."""
    fed, net, theta, updates = real_round()
    x, y = fed.validation
    sets = all_coalitions(PLAYERS)[1:]
    answers: dict[str, Tensor] = {}

    def stacked() -> None:
        answers["game"] = fm.round_game(net, theta, updates, x, y)(sets)

    def loop() -> None:
        answers["loop"] = one_by_one(theta, updates, x, y, sets)

    seconds = interleave({"game": cpu(stacked), "loop": cpu(loop)}, repetitions)
    differ = int((answers["game"] != answers["loop"]).sum())
    print(f"accuracies {answers['game'].min():.3f} to {answers['game'].max():.3f}, {differ} differ")
    assert differ == 0, f"{differ} of {len(sets)} accuracies differ"
    what = f"{len(sets):,} coalitions x {SAMPLES:,} samples, 784-200-5: loop / round_game"
    one = Result(NAME, what, ratios(seconds["loop"], seconds["game"]), TARGET)
    return [one, *shared(repetitions, "digits"), *shared(repetitions, "mnist5k")]
