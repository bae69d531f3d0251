"""S-FedAvg in rounds and trainings: who is asked, what is aggregated, who is missing, classes."""

from __future__ import annotations

import math

import helpers
import pytest
import torch
from helpers import Played, Sends, numbers, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.rounds import Round, Server

SIZES = (9, 4, 20, 13, 7, 6, 11)
LOCAL = LocalSGD(batch=4)
NET = fm.mlp(3, 4, 2)  # P = 26


def started(strategy: fm.SFedAvg, clients: int, seed: int = 0) -> Played:
    """The strategy before round 1: 3 inputs, 2 classes, 30 validation samples."""
    x = numbers(30, 3, seed=5)
    return Played(strategy, Server(clients, 2, NET, (x, (x[:, 0] > 0).long()), seed))


def a_round(ids, t: int = 1, missing=(), updates: Tensor | None = None) -> Round:
    """A round with random updates, sizes 10 + 3 k."""
    updates = numbers(len(ids), 26, seed=t) if updates is None else updates
    given = {"t": t, "missing": missing, "theta": numbers(26, seed=50 + t)}
    return helpers.a_round(updates, [10 + 3 * k for k in ids], ids, **given)


# --- before and in a round -----------------------------------------------------------------------


def test_defaults_are_those_of_the_paper_but_for_the_temperature():
    strategy = fm.SFedAvg()
    given = [strategy.m, strategy.alpha, strategy.beta, strategy.permutations]
    assert given == [5, 0.75, 0.25, 10]
    assert (strategy.temperature, strategy.metric, strategy.empty) == (0.02, "accuracy", "theta")
    assert strategy.weighting == "uniform"
    assert fm.SFedAvg(literal=True).temperature == 1


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_the_new_model_is_the_mean_of_all_updates(weighting):
    """Equation 3 with everybody, whatever the values, which are those of the last round only."""
    strategy, this = (
        started(fm.SFedAvg(None, weighting=weighting, metric="loss"), 7),
        a_round([6, 0]),
    )
    share = torch.tensor([28 / 38, 10 / 38] if weighting == "size" else [0.5, 0.5]).double()
    done = strategy.step(this)
    torch.testing.assert_close(done.theta, this.theta + share @ this.updates, rtol=0, atol=1e-7)
    torch.testing.assert_close(done.weights, share, rtol=0, atol=1e-7)
    assert strategy["values"].nonzero().flatten().tolist() == [0, 6]
    strategy.step(a_round([4, 6], 2))
    assert strategy["values"].nonzero().flatten().tolist() == [4, 6]


def test_a_model_that_overflows_is_as_bad_as_can_be():
    strategy, this = started(fm.SFedAvg(2, metric="loss"), 4), a_round([0, 1, 3])
    this.updates[1] = 1e300
    strategy.step(this)
    assert torch.isfinite(strategy.scores).all()
    assert float(strategy["values"][1]) < -1e30
    assert strategy.scores.argmin() == 1
    assert all(1 not in strategy.select(t).tolist() for t in range(30))
    assert torch.isfinite(strategy.strategy.probabilities(strategy.state)).all()


# --- who is missing, who sends zeros -------------------------------------------------------------


def test_who_sent_nothing_usable_earns_the_lowest_value_at_most_zero():
    """In every class, too."""
    strategy, signs = started(fm.SFedAvg(None, metric="loss", by_class=True), 6), set()
    for t in range(1, 20):
        before, of_class = strategy.scores.clone(), strategy["class_scores"].clone()
        strategy.step(a_round([0, 2, 3], t, missing=[5, 1]))
        lowest = min(float(strategy["values"][[0, 2, 3]].min()), 0.0)
        wanted = 0.75 * before[[1, 5]] + 0.25 * lowest
        torch.testing.assert_close(strategy.scores[[1, 5]], wanted, rtol=0, atol=1e-12)
        earned = (strategy["class_scores"] - 0.75 * of_class) / 0.25
        lowest_of_class = earned[[0, 2, 3]].amin(0).clamp(max=0).expand(2, 2)
        torch.testing.assert_close(earned[[1, 5]], lowest_of_class, rtol=0, atol=1e-12)
        assert float(strategy.scores[4]) == 1 / 6
        assert not strategy["values"][[1, 4, 5]].any()
        signs.add(lowest == 0)
    assert signs == {True, False}


def test_a_client_that_sends_nan_is_asked_less(make_fed):
    fed = with_attacks(make_fed(SIZES), {3: Sends(torch.nan)})
    with pytest.warns(UserWarning, match="client 3"):
        history = fm.train(
            fed, fm.mlp(6, 4, 3), fm.SFedAvg(3, temperature=0.005), rounds=30, local=LOCAL
        )
    asked = history.selected.double().mean(0)
    assert 0 < float(asked[3]) < float(asked.mean())
    assert float(history.scores[-1, 3]) < float(history.scores[-1].mean())
    assert torch.isfinite(history.theta).all()


# --- whole trainings -----------------------------------------------------------------------------


def test_class_relevance_is_a_copy_of_what_the_strategy_learned(make_fed):
    strategy = fm.SFedAvg(3, temperature=math.inf, by_class=True)
    history = fm.train(make_fed(SIZES), fm.mlp(6, 4, 3), strategy, rounds=4, local=LOCAL, seed=5)
    found = fm.class_relevance(history)
    assert found.shape == (7, 3)
    assert torch.equal(found, history.state["class_scores"])
    found.zero_()
    assert history.state["class_scores"].any()
