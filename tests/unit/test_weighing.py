"""The rules that FLDVE is compared with: what each one weighs by."""

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from studies import fldve

LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.25)
NET = fm.mlp(64, 8, 10)


@pytest.fixture(scope="module", params=fldve.SETS)
def fed(request):
    data = fm.load("digits", dtype=torch.float64)
    return fm.noisy_digits(data, request.param, seed=1)


def last(fed, rule):
    """Weights [5] of the fourth round, and all clients' losses in it, each alone [5]."""
    theta = fm.train(fed, NET, fm.FedAvg(), rounds=3, local=LOCAL, seed=1).theta
    rule.start(Server(5, 10, NET, fed.validation, 1))
    updates = fm.local_updates(fed, NET, theta, local=LOCAL, seed=1, t=4)
    round = Round(4, theta, torch.arange(5), fed.sizes, updates)
    rule.aggregate(round)
    losses = NET.evaluate(theta + updates, *fed.validation, "loss")
    mixed = NET.evaluate((theta + rule.applied @ updates)[None], *fed.validation, "loss")
    plain = NET.evaluate((theta + updates.mean(0))[None], *fed.validation, "loss")
    return rule.applied, losses, mixed < plain


def test_the_oracle_knows_who_is_noisy(fed):
    weights, _, _ = last(fed, fldve.Oracle(fed))
    clean = (fed.noise == 0).double() if (fed.noise > 0).sum() == 1 else 1 - fed.noise
    assert torch.allclose(weights / weights.max(), clean / clean.max(), atol=0.01)


def test_own_loss_weighs_by_the_loss_of_each_alone(fed):
    weights, losses, _ = last(fed, fldve.OwnLoss())
    assert weights.argsort().tolist() == losses.argsort(descending=True).tolist()
    assert torch.allclose((weights[0] / weights).log(), (losses - losses[0]) / losses.std())


def test_the_best_weights_of_a_round_lower_its_loss(fed):
    weights, _, better = last(fed, fldve.Best())
    assert better
    assert weights.min() >= 0
    assert abs(weights.sum() - 1) < 1e-9
    assert 1 <= fldve.effective(weights) <= 5
    assert fldve.effective(torch.full((2, 5), 0.2)).tolist() == pytest.approx([5, 5])


@pytest.mark.parametrize("rule", [fldve.Direct, fldve.ByAccuracy])
def test_the_learners_learn_who_is_noisy(fed, rule):
    history = fm.train(fed, NET, rule(), rounds=40, local=LOCAL, seed=1)
    weights = history.weights[-10:].mean(0)
    assert weights[fed.noise.argmax()] < weights[fed.noise.argmin()]
