"""Rounding and ids are no order: ties are one rule, and an index is respected or refused."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch
from helpers import numbers
from torch import Tensor

import fedlab_mini as fm
from fedlab_bench.judging import outranked
from fedlab_bench.measures import removal
from fedlab_mini.judge.metrics import ranks
from fedlab_mini.judge.removal import _present

SEEDS = range(4)


def levels(seed: int, clients: int = 9) -> Tensor:
    """Scores with real ties, of any size."""
    chance = torch.Generator().manual_seed(seed)
    some = torch.randint(-2, 3, (clients,), generator=chance).double()
    return some * 10.0 ** int(torch.randint(-12, 12, (), generator=chance))


def jittered(scores: Tensor, seed: int) -> Tensor:
    """The same but for rounding, in float32 and of sums."""
    noise = 2 * torch.rand(len(scores), generator=torch.Generator().manual_seed(seed)) - 1
    return scores * (1 + 3e-7 * noise) + 3e-13 * scores.abs().max() * noise


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_changes_no_measure(seed):
    scores, truth = levels(seed), numbers(9, seed=seed)
    rough = jittered(scores, seed + 100)
    assert torch.equal(ranks(rough), ranks(scores))
    bad = [1, 4, 7]
    assert fm.detection_auc(rough, bad) == fm.detection_auc(scores, bad)
    for measure in (fm.kendall, fm.spearman):
        assert measure(rough, truth) == measure(scores, truth)
    assert outranked(rough, 2) == outranked(scores, 2)
    removed = torch.tensor([0, 2, 5])
    assert torch.equal(_present(rough, removed, seed), _present(scores, removed, seed))
    worth = numbers(2**9, seed=seed)
    assert dict(removal(rough, worth, seed)) == dict(removal(scores, worth, seed))


def test_ties_by_hand():
    assert ranks(torch.tensor([1.0, 1 + 5e-7, 1 + 1.4e-6, 1 + 3e-6])).tolist() == [0, 0, 1, 2]
    assert ranks(torch.tensor([0.0, 1e-13, -5e-13, 1.0])).tolist() == [0, 0, 0, 1]
    apart = torch.tensor([3.0, 1, 2, 5]) * 1e-5 + 1  # told apart whatever their unit
    for factor in (1e-30, 1.0, 1e30):
        assert ranks(factor * apart.double()).tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize(("clients", "spread"), [(1_000, 1e-5), (10_000, 1e-4)])
def test_ties_form_no_chains(clients, spread):
    """Among many close scores neighbours tie, and the lowest and the highest do not."""
    from scipy.stats import kendalltau
    from sklearn.metrics import roc_auc_score

    chance = np.random.default_rng(0)
    scores, bad = 1 + spread * chance.normal(size=clients), np.arange(clients) < clients // 10
    scores[bad] -= spread
    again = scores + 0.1 * spread * chance.normal(size=clients)
    auc = roc_auc_score(bad, -scores)
    assert fm.detection_auc(scores, np.flatnonzero(bad)) == pytest.approx(auc, abs=0.01)
    assert fm.kendall(scores, again) == pytest.approx(kendalltau(scores, again)[0], abs=0.02)


@pytest.mark.parametrize("method", ["first order", "second order", "second order, capped"])
def test_equal_updates_have_equal_scores(method):
    """Six clients send one update: no score reads an order out of the last digit."""
    for seed in range(8):
        torch.manual_seed(seed)
        x, y, net = torch.randn(40, 6), torch.randint(0, 3, (40,)), fm.mlp(6, 5, 3)
        record = {"theta": net.init(seed), "updates": 0.1 * torch.randn(1, net.P).repeat(6, 1)}
        table = fm.score([record], net=net, validation=(x, y), methods=[method])
        assert fm.kendall(table[method].to_numpy(), torch.arange(6)) == 0, seed


def test_ids_break_no_tie():
    """Over seeds each of the tied leaves first as often as the others; one seed says one thing."""
    scores, removed = torch.tensor([2.0, 1, 1, 1, 1, 0]), torch.tensor([2])
    gone = torch.stack([1 - _present(scores, removed, seed)[0, :, 0] for seed in range(400)])
    assert gone[:, 0, 0].all()
    assert gone[:, 1, 5].all()
    share = gone[:, :, 1:5].mean(0)
    assert float((share - 0.25).abs().max()) < 0.08, share


def test_an_index_is_respected():
    ids = [7, 2, 0, 30]
    column, other = (
        pandas.Series([0.1, 0.5, 0.2, 0.9], ids),
        pandas.Series([0.3, 0.1, 0.2, 0.4], ids),
    )
    for one in (column, column.iloc[[2, 0, 3, 1]]):
        assert fm.detection_auc(one, {ids[0]}) == 1
        assert fm.detection_auc(one, np.array(ids)[[1, 3]]) == 0
        for measure in (fm.kendall, fm.spearman, fm.evidence.paired):
            wanted = measure(column.to_numpy(), other.to_numpy())
            assert measure(one, other) == pytest.approx(wanted)


def test_an_index_of_others_is_refused():
    column = pandas.Series([0.1, 0.5, 0.2], index=[1, 2, 3])
    shuffled = pandas.Series([0.5, 0.1, 0.2], index=[1, 0, 2])
    for measure in (fm.kendall, fm.spearman, fm.evidence.paired):
        with pytest.raises(ValueError, match=r"^b: expected an index of the ids"):
            measure(shuffled, column)
    assert fm.kendall(shuffled, [1.0, 5.0, 2.0]) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^bad: expected ids of an index of distinct ones"):
        fm.detection_auc(column, {0})
    assert fm.additive(shuffled).shapley.tolist() == [0.1, 0.5, 0.2]
    with pytest.raises(ValueError, match=r"expected an index of the ids \[0, 1, 2\]"):
        fm.additive(column)
