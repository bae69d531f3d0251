"""The two games of federated learning, and the arguments of all games."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.simulate import Simulation

SIZES = (9, 4, 20, 13)
LOCAL = LocalSGD(epochs=2, batch=8, lr=0.3)
NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "mlp": lambda: fm.mlp(6, 8, 3),
    "three layers": lambda: fm.mlp(6, 8, 5, 3),
    "cnn": lambda: fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5),
}
nets = pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())


@pytest.fixture
def a_round(make_fed):
    """``a_round(net)``: (fed, theta, updates) of a first round."""

    def make(net, sizes=SIZES):
        fed = make_fed(sizes)
        theta = net.init(0, dtype=torch.float64)
        return fed, theta, fm.local_updates(fed, net, theta, local=LOCAL)

    return make


# --- the game of one round -----------------------------------------------------------------------


@nets
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("absent", ["left out", "silent"])
def test_round_game_is_averaging_loading_and_forwarding(a_round, plain, make_net, weighted, absent):
    net = make_net()
    fed, theta, updates = a_round(net)
    weights = fed.sizes.double() if weighted else torch.ones(4, dtype=torch.float64)
    given = fed.sizes if weighted else None
    accuracy, loss = (
        fm.round_game(
            net, theta, updates, *fed.validation, metric=m, weights=given, absent=absent
        ).all()
        for m in ("accuracy", "loss")
    )
    for code, members in enumerate(fm.all_coalitions(4)):
        share = members * weights
        total = share.sum().clamp(min=1e-9) if absent == "left out" else weights.sum()
        model = theta + (share / total) @ updates
        wanted = plain.judge(net, model, fed.validation)
        assert float(accuracy[code]) == wanted[0]
        assert float(loss[code]) == pytest.approx(-wanted[1], abs=1e-9)  # more is better


@nets
def test_round_values_sum_to_the_rounds_gain(a_round, make_net):
    net = make_net()
    fed, theta, updates = a_round(net)
    history = fm.train(fed, net, fm.FedAvg(), rounds=1, local=LOCAL)
    for metric, sign, absent in (
        ("accuracy", 1, "left out"),
        ("loss", -1, "left out"),
        ("loss", -1, "silent"),
    ):
        game = fm.round_game(
            net, theta, updates, *fed.test, metric=metric, weights=fed.sizes, absent=absent
        )
        gain = sign * (getattr(history, metric)[1] - getattr(history, metric)[0])
        assert float(fm.exact(game).values.sum()) == pytest.approx(float(gain), abs=1e-9)
        assert game.evaluations == 16


def test_a_zero_update_alone_changes_nothing_and_equal_updates_earn_the_same(a_round):
    net = fm.mlp(6, 8, 3)
    fed, theta, updates = a_round(net)
    twins = updates[[0, 1, 1, 2]].clone()
    game = fm.round_game(net, theta, twins, *fed.validation, metric="loss")
    values = fm.exact(game).values
    assert float(values[1]) == pytest.approx(float(values[2]), abs=1e-12)
    idle = fm.round_game(net, theta, torch.zeros_like(updates), *fed.validation)
    assert fm.exact(idle).values.abs().max() < 1e-12


@nets
def test_a_zero_update_earns_nothing_if_the_absent_are_silent(a_round, make_net):
    net = make_net()
    fed, theta, updates = a_round(net)
    updates[2] = 0
    given = [part.float() for part in (theta, updates, fed.test[0])]
    build = functools.partial(fm.round_game, net, *given, fed.test[1], metric="loss")
    for estimate in (
        fm.exact,
        fm.leave_one_out,
        fm.alone,
        lambda game: fm.truncated(game, 4, 1e-9),  # asks for coalitions at different times
    ):
        silent = build(weights=fed.sizes, absent="silent")
        assert float(estimate(silent).values[2]) == 0
    assert abs(float(fm.exact(build(weights=fed.sizes)).values[2])) > 1e-3
    nobody = fm.round_game(net, theta, 0 * updates, *fed.test, metric="loss", absent="silent")
    assert fm.exact(nobody).values.tolist() == [0.0] * 4


class Bowl(nn.Module):
    """Two scores whose cross-entropy, for class 0, is 5 + g.theta + theta'H theta / 2."""

    def __init__(self, g, H):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(len(g), dtype=torch.float64))
        self.g, self.H = g, H

    def forward(self, x):
        q = 5 + self.p @ self.g + self.p @ self.H @ self.p / 2
        return torch.stack([torch.zeros_like(q), torch.log(torch.expm1(q))]).expand(len(x), 2)


@pytest.fixture
def bowl():
    """``bowl(updates, weights, absent)``: (the round game on a quadratic loss, fm.quadratic)."""
    generator = torch.Generator().manual_seed(8)
    theta, g, root = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) / 3
        for shape in ((3,), (3,), (3, 3))
    )
    H = root @ root.T
    net, x, y = fm.Model(Bowl(g, H)), torch.zeros(2, 1).double(), torch.zeros(2).long()

    def make(updates, weights, absent):
        game = fm.round_game(
            net, theta, updates, x, y, metric="loss", weights=weights, absent=absent
        )
        return game, fm.quadratic(updates, weights / weights.sum(), g + H @ theta, H)

    return make


UPDATES = torch.tensor([[1.0, 0, 2], [-1, 0.5, 0], [0, 1, 1], [0.5, -1, 0.3]]).double()
WEIGHTS = torch.tensor([3.0, 1, 2, 4]).double()


def test_on_a_quadratic_loss_the_silent_round_game_is_the_closed_form(bowl):
    for absent, holds in (("silent", True), ("left out", False)):
        game, closed = bowl(UPDATES, WEIGHTS, absent)
        worths = game.all() - game.all()[0]
        assert torch.allclose(worths, closed.all(), rtol=0, atol=1e-12) == holds
        assert torch.allclose(fm.exact(game).values, closed.shapley, rtol=0, atol=1e-12) == holds
        assert float(fm.exact(game).values.sum()) == pytest.approx(float(closed.shapley.sum()))


def test_on_a_quadratic_loss_splitting_changes_nothing_if_the_absent_are_silent(bowl):
    rows, part = torch.tensor([0, 0, 1, 2, 3]), torch.tensor([0.3, 0.7, 1, 1, 1]).double()
    for absent, holds in (("silent", True), ("left out", False)):
        whole = fm.exact(bowl(UPDATES, WEIGHTS, absent)[0]).values
        split = fm.exact(bowl(UPDATES[rows], WEIGHTS[rows] * part, absent)[0]).values
        merged = torch.zeros(4, dtype=torch.float64).index_add(0, rows, split)
        assert torch.allclose(merged, whole, rtol=0, atol=1e-12) == holds


def test_a_round_may_come_in_numpy_and_in_several_types(a_round):
    net = fm.mlp(6, 8, 3)
    fed, theta, updates = a_round(net)
    x, y = fed.validation
    wanted = fm.exact(fm.round_game(net, theta, updates.float(), x, y, metric="loss")).values
    found = fm.exact(
        fm.round_game(
            net,
            theta.numpy(),
            updates.float().numpy(),
            x.numpy(),
            y.numpy().astype(np.int32),
            metric="loss",
            weights=np.full(4, 2, dtype=np.float32),
        )
    ).values
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    other = fm.round_game(net, theta.float(), updates, x.float(), y.tolist(), weights=[1, 1, 1, 1])
    assert other.all().isfinite().all()


def test_players_are_rows_and_permute_with_them(a_round):
    net = fm.mlp(6, 8, 3)
    fed, theta, updates = a_round(net)
    order = [2, 0, 3, 1]
    one = fm.exact(fm.round_game(net, theta, updates, *fed.test, metric="loss", weights=fed.sizes))
    other = fm.exact(
        fm.round_game(
            net, theta, updates[order], *fed.test, metric="loss", weights=fed.sizes[order]
        )
    )
    torch.testing.assert_close(other.values, one.values[order], rtol=0, atol=1e-12)


def test_round_game_of_a_round_with_a_single_client(a_round):
    net = fm.mlp(6, 8, 3)
    fed, theta, updates = a_round(net, (9,))
    game = fm.round_game(net, theta, updates, *fed.validation, metric="loss")
    assert float(fm.exact(game).values) == pytest.approx(
        float(game.all()[1] - game.all()[0]), abs=1e-15
    )


# --- the game of whole trainings -----------------------------------------------------------------


@nets
def test_retraining_game_is_a_loop_over_trainings(make_fed, plain, make_net):
    fed, net = make_fed(SIZES), make_net()
    accuracy, loss = (
        fm.retraining_game(fed, net, 2, LOCAL, metric, 5).all() for metric in ("accuracy", "loss")
    )
    for code, members in enumerate(fm.all_coalitions(4)):
        shares = members.double().expand(2, -1)
        theta = plain.train(fed, net, 2, LOCAL, 5, shares=shares)
        wanted = plain.judge(net, theta, fed.validation)
        assert float(accuracy[code]) == wanted[0]
        assert float(loss[code]) == pytest.approx(-wanted[1], abs=1e-9)


def test_retraining_values_sum_to_the_gain_of_training(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    game = fm.retraining_game(fed, net, 3, LOCAL, "loss", 2, on="test")
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LOCAL, seed=2)
    estimate = fm.exact(game)
    gain = float(history.loss[0] - history.loss[-1])
    assert float(estimate.values.sum()) == pytest.approx(gain, abs=1e-9)
    assert estimate.evaluations == 16
    assert estimate.client_epochs == 3 * 2 * 4 * 8  # rounds x epochs x members of all coalitions
    assert fm.leave_one_out(game).client_epochs == 3 * 2 * (4 + 4 * 3)


def test_harmful_clients_have_negative_values(make_fed):
    fed = make_fed((40,) * 5, server=300)
    y = fed.y.clone()
    y[fed.offsets[3] : fed.offsets[4]] = (y[fed.offsets[3] : fed.offsets[4]] + 1) % 3
    bad = fm.Federation(**{**vars(fed), "y": y, "truth": {3: "every label shifted"}})
    game = fm.retraining_game(bad, fm.logistic(6, 3), 5, LocalSGD(batch=20, lr=0.5), "loss")
    values = fm.exact(game).values
    assert int(values.argmin()) == 3
    assert float(values[3]) < 0
    assert fm.detection_auc(values, bad.corrupted) == 1.0


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


@pytest.mark.parametrize("finished", [0, 1, 13])
def test_an_interrupted_game_goes_on_without_redoing_coalitions(
    make_fed, tmp_path, trained, finished
):
    fed, net = make_fed((3, 4, 2, 5, 3, 1, 2, 2, 4)), fm.mlp(6, 4, 3)
    wanted = fm.retraining_game(fed, net, 1, metric="loss").all().numpy().tobytes()

    def again() -> fm.Game:
        return fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path / "c")

    trained.clear()
    trained.stop = finished
    with pytest.raises(KeyboardInterrupt):
        again().all()
    trained.stop = -1
    assert again().all().numpy().tobytes() == wanted
    rows = torch.cat(trained)
    assert len(rows) == len(rows.unique(dim=0)) == 512
    trained.clear()
    known = again()
    assert known.all().numpy().tobytes() == wanted
    assert known.evaluations == 512
    assert trained == []


def test_another_game_in_the_same_folder_is_not_taken_for_this_one(make_fed, tmp_path, trained):
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    wanted = fm.retraining_game(fed, net, 1, cache=tmp_path).all()
    for build in (
        lambda: fm.retraining_game(fed, net, 2, cache=tmp_path),
        lambda: fm.retraining_game(fed, net, 1, LOCAL, cache=tmp_path),
        lambda: fm.retraining_game(fed, net, 1, metric="loss", cache=tmp_path),
        lambda: fm.retraining_game(fed, net, 1, seed=1, cache=tmp_path),
        lambda: fm.retraining_game(fed, net, 1, on="test", cache=tmp_path),
        lambda: fm.retraining_game(fed, fm.mlp(6, 3), 1, cache=tmp_path),
        lambda: fm.retraining_game(make_fed(SIZES, seed=1), net, 1, cache=tmp_path),
    ):
        trained.clear()
        build().all()
        assert len(trained) == 1
        assert torch.equal(fm.retraining_game(fed, net, 1, cache=tmp_path).all(), wanted)
        assert len(trained) == 1
