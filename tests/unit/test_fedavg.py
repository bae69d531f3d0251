"""FedAvg against algebra by hand, its selection, its weights and its scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import Played, a_round

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
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


def test_one_round_by_hand():
    """Two clients, one linear layer, one whole-batch step: every number written out in NumPy."""
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(n, 3)), rng.integers(0, 2, n)) for n in (4, 2)]
    pairs = [(torch.tensor(x), torch.tensor(y)) for x, y in data]
    fed = fm.Federation.from_datasets(pairs, validation=pairs[0], test=pairs[1], classes=2)
    net = fm.logistic(3, 2)
    theta = net.init(0, dtype=torch.float64)
    history = fm.train(fed, net, fm.FedAvg(), rounds=1, local=LocalSGD(batch=10, lr=0.5))

    W, b = theta[:6].view(2, 3).numpy(), theta[6:].numpy()
    new_W, new_b = np.zeros((2, 3)), np.zeros(2)
    for (x, y), share in zip(data, (4 / 6, 2 / 6), strict=True):
        scores = x @ W.T + b
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        error = (p - np.eye(2)[y]) / len(y)  # gradient of the mean cross-entropy
        new_W += share * (W - 0.5 * error.T @ x)
        new_b += share * (b - 0.5 * error.sum(0))
    np.testing.assert_allclose(history.theta.numpy(), np.append(new_W, new_b), rtol=0, atol=1e-12)
    assert history.weights.tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3)]]


def test_selection_is_random_distinct_and_seeded():
    runs = [[started(6, per_round=3).select(t).tolist() for t in range(40)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert all(len(ids) == 3 and ids == sorted(set(ids)) for ids in runs[0])
    assert min(sum(k in ids for ids in runs[0]) for k in range(6)) > 8  # 20 expected
    with pytest.raises(ValueError, match="per_round: 3 of 2 clients"):
        started(2, per_round=3)
