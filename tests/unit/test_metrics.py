"""Metrics against SciPy, scikit-learn, hand and the cases where they are undefined."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.judge.removal import _present

RANDOM = [torch.randn(9, generator=torch.Generator().manual_seed(s)) for s in range(3)]


@pytest.mark.parametrize(
    ("v", "index"),
    [
        ([1.0, 3.0], [0.25, 0.75]),
        ([-5.0, 1.0, 1.0, 0.0], [0, 0.5, 0.5, 0]),
        ([2.0], [1.0]),
        ([-1.0, -2.0], [0.5, 0.5]),
        ([0.0, 0.0, 0.0, 0.0], [0.25] * 4),
    ],
)
def test_contribution_index(v, index):
    assert fm.contribution_index(v).tolist() == index
    assert fm.contribution_index(np.array(v)).sum() == 1


@pytest.mark.parametrize("a", RANDOM)
def test_rank_correlations_are_scipys(a):
    b = (a + RANDOM[0].roll(1)).round()  # ties
    assert fm.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert fm.kendall(a, b) == pytest.approx(stats.kendalltau(a, b).statistic)


def test_rank_correlation_by_hand():
    assert fm.spearman([1, 2, 3], [10, 200, 3000]) == pytest.approx(1)
    assert fm.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert fm.spearman([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(0.8)  # 1 - 6 x 2 / 60
    assert fm.spearman([1, 1, 1], [1, 2, 3]) == fm.kendall([1, 1, 1], [1, 2, 3]) == 0.0
    assert fm.kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)  # 5 pairs alike, 1 not


@pytest.mark.parametrize("scores", RANDOM)
def test_detection_auc_is_scikit_learns(scores):
    bad = {1, 4, 5}
    rounded = scores.round()  # ties
    wanted = roc_auc_score([k in bad for k in range(9)], -rounded)
    assert fm.detection_auc(rounded, bad) == pytest.approx(wanted)


def test_detection_auc_by_hand():
    assert fm.detection_auc([0.1, 0.5, 0.9], {0}) == 1.0
    assert fm.detection_auc([0.1, 0.5, 0.9], {2}) == 0.0
    assert fm.detection_auc([0.1, 0.5, 0.9], [1]) == 0.5
    assert fm.detection_auc([3.0, 3.0, 3.0], {0}) == 0.5
    assert fm.detection_auc([-9.0, -1.0, -1.0, 0.0], {0, 1}) == 0.875  # 3 wins and a tie, of 4


LOCAL = LocalSGD(batch=8, lr=0.3)
SCORES = [0.3, -1.0, 5.0, 0.2, 0.25]


def test_removal_curves_are_trainings_without_the_best_and_the_worst(make_fed):
    fed, net = make_fed((9, 4, 20, 13, 7)), fm.mlp(6, 8, 3)
    curves = fm.removal_curves(
        fed, net, SCORES, (0.0, 0.1, 0.2, 0.4, 0.8), rounds=2, local=LOCAL, seed=3
    )
    assert curves.removed.tolist() == [0, 0, 1, 2, 4]
    assert curves.highest.shape == curves.lowest.shape == (5,)
    whole = fm.train(fed, net, fm.FedAvg(), rounds=2, local=LOCAL, seed=3).accuracy[-1]
    assert curves.highest[:2].tolist() == curves.lowest[:2].tolist() == [float(whole)] * 2

    def without(*gone: int) -> float:
        """Test accuracy of a training of the others."""
        keep = torch.tensor([k not in gone for k in range(5)])
        return float(
            fm.simulate(fed, net, keep.expand(1, 2, -1), local=LOCAL, seed=3, on="test", last=True)
        )

    assert curves.highest[2:].tolist() == [without(2), without(2, 0), without(2, 0, 3, 4)]
    assert curves.lowest[2:].tolist() == [without(1), without(1, 3), without(1, 3, 4, 0)]


def test_removal_curves_are_means_over_the_orders_of_tied_clients(make_fed):
    """Who is removed among equals is nobody's merit: a constant score has two equal curves."""
    fed, net = make_fed((9, 4, 20, 13, 7)), fm.mlp(6, 8, 3)
    training = {"rounds": 1, "local": LOCAL}
    for seed in range(3):
        flat = fm.removal_curves(fed, net, [2.0] * 5, (0.0, 0.2, 0.4), seed=seed, **training)
        assert torch.equal(flat.highest, flat.lowest)
    ties, removed = torch.tensor([1.0, 0, 0, 0, 2]), torch.tensor([0, 1, 2, 3])
    present = _present(ties, removed, 0)  # [orders, 2, F, K]
    assert present.shape[1:] == (2, 4, 5)
    # Without the highest: 4, then 0, then one of 1, 2, 3; without the lowest, some of these.
    assert (present[:, 0, :3] == present[0, 0, :3]).all()
    assert present[0, 0, :3].tolist() == [[1] * 5, [1, 1, 1, 1, 0], [0, 1, 1, 1, 0]]
    gone = 1 - present.mean(0)
    assert gone[0, 3, [0, 4]].tolist() == [1, 1]
    assert gone[0, 3].sum() == 3
    assert gone[1, 1, [0, 4]].tolist() == [0, 0]
    assert gone[1, 1].sum() == 1
    assert (gone[1, 1, 1:4] > 0).all()
    # No tie is divided, so one order is enough.
    assert _present(ties, removed[:3] * torch.tensor([1, 0, 0]), 0).shape[0] == 1
    assert torch.equal(
        _present(ties, torch.tensor([3]), 0)[0, 1, 0], torch.tensor([1.0, 0, 0, 0, 1])
    )
