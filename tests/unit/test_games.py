"""The two games of federated learning: one round, and whole trainings."""

from __future__ import annotations

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.simulate import Simulation
from fedlab_mini.gate.networks import cnn

SIZES = (9, 4, 20, 13)
LOCAL = LocalSGD(epochs=2, batch=8, lr=0.3)
NETS = {"mlp": fm.mlp(6, 8, 3), "cnn": cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5)}
nets = pytest.mark.parametrize("net", NETS.values(), ids=NETS.keys())


@pytest.fixture
def a_round(make_fed):
    """``a_round(net)``: (fed, theta, updates) of a first round."""

    def make(net):
        fed = make_fed(SIZES)
        theta = net.init(0, dtype=torch.float64)
        return fed, theta, fm.local_updates(fed, net, theta, local=LOCAL)

    return make


# --- the game of one round -----------------------------------------------------------------------


@nets
def test_a_zero_update_earns_nothing_if_the_absent_are_silent(a_round, net):
    """To the last bit, also of an estimator that asks for coalitions at different times."""
    fed, theta, updates = a_round(net)
    updates[2] = 0
    given = [net, *(part.float() for part in (theta, updates, fed.test[0])), fed.test[1]]
    options = {"metric": "loss", "weights": fed.sizes}
    for estimate in (fm.exact, fm.leave_one_out, lambda game: fm.truncated(game, 4, 1e-9)):
        silent = fm.round_game(*given, **options, absent="silent")
        assert float(estimate(silent).values[2]) == 0
    assert silent.all().unique().numel() == 8
    assert abs(float(fm.exact(fm.round_game(*given, **options)).values[2])) > 1e-3


# --- the game of whole trainings -----------------------------------------------------------------


@nets
def test_retraining_game_is_a_loop_over_trainings(make_fed, plain, net):
    fed = make_fed(SIZES)
    accuracy, loss = (
        fm.retraining_game(fed, net, 2, LOCAL, metric, 5).all() for metric in ("accuracy", "loss")
    )
    for code, members in enumerate(fm.all_coalitions(4)):
        theta = plain.train(fed, net, 2, LOCAL, 5, shares=members.double().expand(2, -1))
        wanted = plain.judge(net, theta, fed.validation)
        assert float(accuracy[code]) == wanted[0]
        assert float(loss[code]) == pytest.approx(-wanted[1], abs=1e-9)


def test_values_sum_to_the_gain_of_training(make_fed, a_round):
    """Those of whole trainings, and those of one round's game."""
    net = NETS["mlp"]
    fed, theta, updates = a_round(net)
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LOCAL)
    retrained = fm.exact(fm.retraining_game(fed, net, 3, LOCAL, "loss", on="test"))
    for absent in ("left out", "silent"):
        options = {"metric": "loss", "weights": fed.sizes, "absent": absent}
        one_round = fm.exact(fm.round_game(net, theta, updates, *fed.test, **options))
        for estimate, t in ((retrained, 3), (one_round, 1)):
            gain = float(history.loss[0] - history.loss[t])
            assert float(estimate.values.sum()) == pytest.approx(gain, abs=1e-9)
            assert estimate.evaluations == 16
    assert retrained.client_epochs == 3 * 2 * 4 * 8  # rounds x epochs x members of all coalitions


def test_a_finished_game_is_not_trained_again(make_fed, tmp_path, monkeypatch):
    """Interrupted ones, and others in the same folder: tests of simulations."""
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    first = fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path).all()
    monkeypatch.delattr(Simulation, "run_block")
    again = fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path)
    assert torch.equal(again.all(), first)
    assert again.evaluations == 16
