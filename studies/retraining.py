"""Retraining: how much of the truth is not luck? Exact values of eight clients, by two trainings.

Chapter 3 reads these results. A seed of the study is another split of the digits; within it only
the seed of training changes: start values and minibatches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.networks import mlp
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.games.game import Game
from fedlab_mini.games.kernel import kernel
from fedlab_mini.games.sampling import guided, truncated
from fedlab_mini.games.shapley import exact, leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import kendall, spearman
from fedlab_mini.show import plots
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import federation
from fedlab_mini.worlds.partition import dirichlet_labels, dirichlet_sizes, iid

from .protocols import study
from .results import Results
from .study import Claim, Row

CLIENTS, SAMPLES, ROUNDS, TRAININGS = 8, 400, 10, 2
LOCAL = LocalSGD(epochs=2, batch=20, lr=0.3)
NOISY = [2, 5]
SCENARIOS: dict[str, dict] = {
    "alike": {"split": iid()},
    "two noisy": {"split": iid(), "corrupt": {k: flip_labels(0.8) for k in NOISY}},
    "sizes": {"split": dirichlet_sizes(1.0, floor=5)},
    "labels": {"split": dirichlet_labels(0.5, floor=5)},
    "noise": {"split": iid(), "corrupt": {k: flip_labels(k / 10) for k in range(1, CLIENTS)}},
}
# Beside two noisy clients only the sound ones are ranked: the noisy ones are easy to place.
RANKED = {"two noisy": [k for k in range(CLIENTS) if k not in NOISY]}
SCORES: dict[str, Callable[[Game, int], Estimate]] = {
    "exact": lambda game, seed: exact(game),
    "leave-one-out": lambda game, seed: leave_one_out(game),
    "20 truncated orders": lambda game, seed: truncated(game, 20, 0.02, seed),
    "24 guided orders": lambda game, seed: guided(game, 24, 0.0, seed),
    "64 coalitions": lambda game, seed: kernel(game, 64, seed),
}
SAME, OTHER = "rank correlation, same training", "rank correlation, another training"


def ranking_rows(seed: int, *, samples: int = SAMPLES, rounds: int = ROUNDS) -> Iterator[Row]:
    """How well scores of one training rank clients as the exact values of each training do.

    samples  of all clients
    rounds   of every training
    """
    data, net = load("digits", dtype=torch.float64), mlp(64, 32, 10)
    training_seeds = range(TRAININGS * seed, TRAININGS * (seed + 1))
    for scenario, setting in SCENARIOS.items():
        # Only training differs: split, samples and noise are those of the seed.
        fed = federation(data, clients=CLIENTS, samples=samples, seed=seed, **setting)
        games = [retraining_game(fed, net, rounds, LOCAL, seed=s) for s in training_seeds]
        ranked = RANKED.get(scenario, list(range(CLIENTS)))
        truth = torch.stack([exact(game).values[ranked] for game in games])  # [trainings, K]
        for method, score in SCORES.items():
            # Every training draws orders and coalitions of its own: else sampling luck is shared.
            pairs = zip(games, training_seeds, strict=True)
            estimates = [score(game, training_seed) for game, training_seed in pairs]
            values = torch.stack([estimate.values[ranked] for estimate in estimates])
            bills = [float(estimate.client_epochs) for estimate in estimates]
            yield scenario, method, "client epochs", sum(bills) / TRAININGS
            yield scenario, method, OTHER, to_another(values, truth)
            if method != "exact":
                yield scenario, method, SAME, to_its_own(values, truth)
        yield scenario, "exact", "Kendall's tau", to_another(truth, truth, kendall)
        yield scenario, "exact", "share that is not luck", not_luck(truth)


def to_another(values: Tensor, truth: Tensor, statistic: Callable = spearman) -> float:
    """Mean agreement of a training's values with another training's truth, [trainings, K] each."""
    pairs = list(itertools.permutations(range(len(truth)), 2))
    return sum(statistic(values[i], truth[j]) for i, j in pairs) / len(pairs)


def to_its_own(values: Tensor, truth: Tensor) -> float:
    """Mean rank correlation of a training's values with the truth of the same training."""
    return sum(spearman(a, b) for a, b in zip(values, truth, strict=True)) / len(truth)


def not_luck(values: Tensor) -> float:
    """Share of the variance between clients that every training repeats, values [trainings, K].

    A value is a client's worth plus luck: covariances between trainings hold the worth alone,
    variances within a training both.
    """
    covariances = torch.cov(values)
    between = (covariances.sum() - covariances.trace()) / (TRAININGS * (TRAININGS - 1))
    return float(between / (covariances.trace() / TRAININGS))


def ranking_figure(results: Results) -> Figure:
    """A row per scenario, a dot per split: agreement of two exact trainings."""
    return plots.dots(
        {scenario: results.values(OTHER, "exact", scenario) for scenario in SCENARIOS},
        xlabel="rank correlation of exact values between two trainings",
        title="The same data, trained again",
        low=-1,
        high=1,
    )


CLAIMS = tuple(
    Claim(
        f"clients that differ in {kind} agree in rank better than alike ones",
        OTHER,
        ("exact", kind),
        ("exact", "alike"),
        low=0,
        source="book",
    )
    for kind in ("sizes", "labels", "noise")
)
STUDIES = (
    study(
        "retraining-ranking",
        ranking_rows,
        CLAIMS,
        figure=ranking_figure,
        probe={"samples": 80, "rounds": 1},
    ),
)
