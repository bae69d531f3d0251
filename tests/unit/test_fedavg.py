"""FedAvg: its weights, its scores and its selection; its trainings are those of chapter 1."""

from __future__ import annotations

import pytest
import torch
from helpers import Played, a_round

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Server


def started(clients: int, **options) -> Played:
    """FedAvg before round 1."""
    sample = torch.zeros(1, 2), torch.tensor([0])
    return Played(fm.FedAvg(**options), Server(clients, 2, fm.mlp(2, 2), sample, 0))


def test_weights_are_shares_of_the_data_or_ignore_sizes():
    """Weights belong to rows, scores to ids."""
    updates, played = [[4.0, 0.0], [0.0, 8.0], [0.0, 0.0]], started(9)
    one = played.step(a_round(updates, [1, 2, 1], [7, 2, 5]))
    assert one.weights.tolist() == [0.25, 0.5, 0.25]
    assert one.theta.tolist() == [1 + 0.25 * 4, 1 + 0.5 * 8]
    two = played.step(a_round(updates[:2], [3, 1], [5, 0], t=2))
    assert two.weights.tolist() == [0.75, 0.25]
    assert played.scores.tolist() == [0.125, 0, 0.25, 0, 0, 0.5, 0, 0.125, 0]
    uniform = started(9, weighting="uniform").step(a_round(updates[:2], [30, 10]))
    assert uniform.theta.tolist() == [3.0, 5.0]


def test_selection_is_random_distinct_and_seeded():
    runs = [[started(6, per_round=3).select(t).tolist() for t in range(40)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert all(len(ids) == 3 and ids == sorted(set(ids)) for ids in runs[0])
    assert min(sum(k in ids for ids in runs[0]) for k in range(6)) > 8  # 20 expected
    with pytest.raises(ValueError, match="per_round: 3 of 2 clients"):
        started(2, per_round=3)
