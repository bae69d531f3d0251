"""The two games of federated learning: one round, and whole trainings."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.simulate import Simulation

SIZES = (9, 4, 20, 13)
LOCAL = LocalSGD(epochs=2, batch=8, lr=0.3)
NETS = {"mlp": fm.mlp(6, 8, 3), "cnn": fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5)}
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
@pytest.mark.parametrize(("weighted", "absent"), [(False, "left out"), (True, "silent")])
def test_round_game_is_averaging_loading_and_forwarding(a_round, plain, net, weighted, absent):
    fed, theta, updates = a_round(net)
    weights = fed.sizes.double() if weighted else torch.ones(4, dtype=torch.float64)
    options = {"weights": fed.sizes if weighted else None, "absent": absent}
    accuracy, loss = (
        fm.round_game(net, theta, updates, *fed.validation, metric=m, **options).all()
        for m in ("accuracy", "loss")
    )
    for code, members in enumerate(fm.all_coalitions(4)):
        share = members * weights
        total = share.sum().clamp(min=1e-9) if absent == "left out" else weights.sum()
        wanted = plain.judge(net, theta + (share / total) @ updates, fed.validation)
        assert float(accuracy[code]) == wanted[0]
        assert float(loss[code]) == pytest.approx(-wanted[1], abs=1e-9)  # more is better


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


class Bowl(nn.Module):
    """Two scores whose cross-entropy, for class 0, is 5 + g.theta + theta'H theta / 2."""

    def __init__(self, g, H):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(len(g), dtype=torch.float64))
        self.g, self.H = g, H

    def forward(self, x):
        q = 5 + self.p @ self.g + self.p @ self.H @ self.p / 2
        return torch.stack([torch.zeros_like(q), torch.log(torch.expm1(q))]).expand(len(x), 2)


def test_on_a_quadratic_loss_the_silent_round_game_is_the_closed_form():
    generator = torch.Generator().manual_seed(8)
    theta, g, root = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) / 3
        for shape in ((3,), (3,), (3, 3))
    )
    H = root @ root.T
    updates = torch.tensor([[1.0, 0, 2], [-1, 0.5, 0], [0, 1, 1], [0.5, -1, 0.3]]).double()
    weights = torch.tensor([3.0, 1, 2, 4]).double()
    sample = torch.zeros(2, 1).double(), torch.zeros(2).long()
    closed = fm.quadratic(updates, weights / weights.sum(), g + H @ theta, H)
    for absent, holds in (("silent", True), ("left out", False)):
        options = {"metric": "loss", "weights": weights, "absent": absent}
        game = fm.round_game(fm.Model(Bowl(g, H)), theta, updates, *sample, **options)
        worths = game.all() - game.all()[0]
        assert torch.allclose(worths, closed.all(), rtol=0, atol=1e-12) == holds
        assert torch.allclose(fm.exact(game).values, closed.shapley, rtol=0, atol=1e-12) == holds


def test_a_round_may_come_in_numpy_and_in_several_types(a_round):
    fed, theta, updates = a_round(NETS["mlp"])
    (x, y), updates = fed.validation, updates.float()
    wanted = fm.round_game(NETS["mlp"], theta, updates, x, y, metric="loss").all()
    given = theta.numpy(), updates.numpy(), x.numpy(), y.int().tolist()
    found = fm.round_game(NETS["mlp"], *given, metric="loss", weights=[2, 2, 2, 2]).all()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


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


@pytest.fixture
def trained(monkeypatch):
    """The coalitions that were trained, block by block; stops before block ``trained.stop``."""
    real = Simulation.run_block

    class Blocks(list):
        stop = -1

    done = Blocks()

    def counted(self, participation):
        if len(done) == done.stop:
            raise KeyboardInterrupt
        done.append(participation[:, 0])
        return real(self, participation)

    monkeypatch.setattr(Simulation, "run_block", counted)
    return done


def test_an_interrupted_game_goes_on_without_redoing_coalitions(make_fed, tmp_path, trained):
    fed, net = make_fed((3, 4, 2, 5, 3, 1, 2, 2, 4)), fm.mlp(6, 4, 3)
    wanted = fm.retraining_game(fed, net, 1, metric="loss").all().numpy().tobytes()
    trained.clear()
    trained.stop = 13
    with pytest.raises(KeyboardInterrupt):
        fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path / "c").all()
    trained.stop = -1
    for _ in range(2):
        again = fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path / "c")
        assert again.all().numpy().tobytes() == wanted
        assert again.evaluations == 512
        rows = torch.cat(trained)
        assert len(rows) == len(rows.unique(dim=0)) == 512


def test_another_game_in_the_same_folder_is_not_taken_for_this_one(make_fed, tmp_path, trained):
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    ours = {"fed": fed, "net": net, "rounds": 1, "cache": tmp_path}
    wanted = fm.retraining_game(**ours).all()
    for other in (
        {"rounds": 2},
        {"local": LOCAL},
        {"metric": "loss"},
        {"seed": 1},
        {"on": "test"},
        {"net": fm.mlp(6, 3)},
        {"fed": make_fed(SIZES, seed=1)},
    ):
        trained.clear()
        fm.retraining_game(**ours | other).all()
        assert len(trained) == 1
        assert torch.equal(fm.retraining_game(**ours).all(), wanted)
        assert len(trained) == 1
