"""Retraining: how well exact values of eight clients agree between two training runs.

Chapter 3 reads these results. Each seed of the study is a split of the digits; within it, only
the seed of training changes: start values and minibatches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.show import plots

from .protocols import study
from .results import Results
from .study import Claim, Row

CLIENTS, SAMPLES, ROUNDS, TRAININGS = 8, 400, 10, 2
LOCAL = fm.LocalSGD(epochs=2, batch=20, lr=0.3)
NOISY = [2, 5]
SCENARIOS: dict[str, dict] = {
    "alike": {"split": fm.IID()},
    "two noisy": {"split": fm.IID(), "corrupt": {k: fm.FlipLabels(0.8) for k in NOISY}},
    "sizes": {"split": fm.DirichletSizes(1.0, floor=5)},
    "labels": {"split": fm.DirichletLabels(0.5, floor=5)},
    "noise": {"split": fm.IID(), "corrupt": {k: fm.FlipLabels(k / 10) for k in range(1, CLIENTS)}},
}
# With two corrupted clients, only the clean ones are ranked; corrupted ones are easy to place.
RANKED = {"two noisy": [k for k in range(CLIENTS) if k not in NOISY]}
SCORES: dict[str, Callable[[fm.Game, int], Estimate]] = {
    "exact": lambda game, seed: fm.exact(game),
    "leave-one-out": lambda game, seed: fm.leave_one_out(game),
    "20 truncated orders": lambda game, seed: fm.truncated(game, 20, 0.02, seed),
    "24 guided orders": lambda game, seed: fm.guided(game, 24, 0.0, seed),
    "64 coalitions": lambda game, seed: fm.kernel(game, 64, seed),
}
SAME, OTHER = "rank correlation, same training", "rank correlation, another training"


def ranking_rows(seed: int, *, samples: int = SAMPLES, rounds: int = ROUNDS) -> Iterator[Row]:
    """Rank correlation of one run's scores with the exact values of each training run.

    samples  of all clients
    rounds   of every training run
    """
    data, net = fm.load("digits", dtype=torch.float64), fm.mlp(64, 32, 10)
    training_seeds = range(TRAININGS * seed, TRAININGS * (seed + 1))
    for scenario, setting in SCENARIOS.items():
        # Only training differs; split, samples and noise depend on the seed alone.
        fed = fm.federation(data, clients=CLIENTS, samples=samples, seed=seed, **setting)
        games = [fm.retraining_game(fed, net, rounds, LOCAL, seed=s) for s in training_seeds]
        ranked = RANKED.get(scenario, list(range(CLIENTS)))
        truth = torch.stack([fm.exact(game).values[ranked] for game in games])  # [runs, K]
        for method, score in SCORES.items():
            # Every training run has its own samples, so that sampling errors are independent.
            pairs = zip(games, training_seeds, strict=True)
            estimates = [score(game, training_seed) for game, training_seed in pairs]
            values = torch.stack([estimate.values[ranked] for estimate in estimates])
            bills = [float(estimate.client_epochs) for estimate in estimates]
            yield scenario, method, "client epochs", sum(bills) / TRAININGS
            yield scenario, method, OTHER, to_another(values, truth)
            if method != "exact":
                yield scenario, method, SAME, to_its_own(values, truth)
        yield scenario, "exact", "Kendall's tau", to_another(truth, truth, fm.kendall)
        yield scenario, "exact", "share that is not luck", not_luck(truth)


def to_another(values: Tensor, truth: Tensor, statistic: Callable = fm.spearman) -> float:
    """Mean agreement of values with the reference values of another run, [runs, K] each."""
    pairs = list(itertools.permutations(range(len(truth)), 2))
    return sum(statistic(values[i], truth[j]) for i, j in pairs) / len(pairs)


def to_its_own(values: Tensor, truth: Tensor) -> float:
    """Mean rank correlation of a run's values with the reference values of the same run."""
    return sum(fm.spearman(a, b) for a, b in zip(values, truth, strict=True)) / len(truth)


def not_luck(values: Tensor) -> float:
    """The share of the variance between clients that all training runs have in common.

    values  [runs, K]. A value is a client's worth plus chance: covariances between runs contain
    only the worth, variances within a run both.
    """
    covariances = torch.cov(values)
    between = (covariances.sum() - covariances.trace()) / (TRAININGS * (TRAININGS - 1))
    return float(between / (covariances.trace() / TRAININGS))


def ranking_figure(results: Results) -> Figure:
    """One row per scenario, one dot per split: agreement of exact values of two runs."""
    return plots.dots(
        {scenario: results.values(OTHER, "exact", scenario) for scenario in SCENARIOS},
        xlabel="rank correlation of exact values between two training runs",
        ylabel="clients",
        title="The same data, trained again",
        low=-1,
        high=1,
    )


CLAIMS = tuple(
    Claim(
        f"clients that differ in {kind} agree in rank better than IID clients",
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
