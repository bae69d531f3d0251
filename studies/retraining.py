"""Retraining: does the truth have a ranking? Exact values of eight clients, trained five times.

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
from fedlab_mini.engine.model import mlp
from fedlab_mini.games.shapley import exact, leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import kendall, spearman
from fedlab_mini.show import plots
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import federation
from fedlab_mini.worlds.partition import dirichlet_labels, dirichlet_sizes, iid

from .claims import beyond, higher, sentences
from .protocols import study
from .study import Results, Row

CLIENTS, SAMPLES, ROUNDS, TRAININGS = 8, 400, 10, 5
LOCAL = LocalSGD(epochs=2, batch=20, lr=0.3)
SETTINGS: dict[str, dict] = {
    "alike": {"split": iid()},
    "sizes": {"split": dirichlet_sizes(1.0, floor=5)},
    "labels": {"split": dirichlet_labels(0.5, floor=5)},
    "noise": {"split": iid(), "corrupt": {k: flip_labels(k / 10) for k in range(1, CLIENTS)}},
}


def ranking_rows(seed: int) -> Iterator[Row]:
    """Rank agreement of values between trainings that differ in nothing but their seed."""
    data, net = load("digits", dtype=torch.float64), mlp(64, 32, 10)
    for setting_name, setting in SETTINGS.items():
        fed = federation(data, clients=CLIENTS, samples=SAMPLES, seed=seed, **setting)
        # Only training differs: split, samples and noise are those of the seed.
        games = [
            retraining_game(fed, net, ROUNDS, LOCAL, seed=TRAININGS * seed + s)
            for s in range(TRAININGS)
        ]
        shapley = torch.stack([exact(game).values for game in games])  # [trainings, K]
        missed = torch.stack([leave_one_out(game).values for game in games])
        yield setting_name, "exact", agreement(shapley)
        yield setting_name, "exact, tau", agreement(shapley, kendall)
        yield setting_name, "leave-one-out", agreement(missed)
        yield setting_name, "mean of four against the fifth", ceiling(shapley)


def agreement(values: Tensor, statistic: Callable = spearman) -> float:
    """Mean rank correlation over all pairs of rows [trainings, K]."""
    row_pairs = list(itertools.combinations(values, 2))
    return sum(statistic(a, b) for a, b in row_pairs) / len(row_pairs)


def ceiling(values: Tensor) -> float:
    """Mean rank correlation of each row with the mean of the others."""
    rest = (values.sum(0) - values) / (len(values) - 1)
    return sum(spearman(a, b) for a, b in zip(values, rest, strict=True)) / len(values)


def ranking_figure(results: Results) -> Figure:
    """A row a setting, a dot a split: agreement of two exact trainings."""
    return plots.dots(
        {setting_name: results.values("exact", setting_name) for setting_name in results.variants},
        xlabel="rank correlation of exact values between two trainings",
        title="The same data, trained again",
    )


DIFFER = "clients that differ in"
CLAIMS = sentences(
    {
        f"{DIFFER} size agree in rank better than clients that are alike": higher(
            "exact", "sizes", "alike"
        ),
        f"{DIFFER} their labels agree in rank better than alike ones": higher(
            "exact", "labels", "alike"
        ),
        f"{DIFFER} noise agree in rank better than alike ones": higher("exact", "noise", "alike"),
        "between alike clients two trainings still agree better than chance": beyond(
            "exact", "alike", 0.0
        ),
    }
)
STUDIES = (study("retraining-ranking", ranking_rows, CLAIMS, figure=ranking_figure),)
