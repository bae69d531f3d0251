"""Neighbours against loops, closed forms and finite differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers import Played, numbers

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.compared import METHODS, Retrained, watcher
from fedlab_bench.measures import fair, left_over, relative_error, removal
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.games import round_tables as tables
from fedlab_mini.judge.watch import Watch

NET = fm.mlp(3, 4, 3)
K = 5
X, Y = numbers(30, 3, seed=7), torch.arange(30) % 3
SERVER = Server(K, 3, NET, (X, Y), 0)
THETA = NET.init(0, dtype=torch.float64)


def a_round(t: int = 1, clients: tuple[int, ...] = tuple(range(K)), scale: float = 0.3) -> Round:
    ids = torch.tensor(clients)
    return Round(t, THETA, ids, 2 + 2 * (ids % 3), scale * numbers(len(ids), NET.P, seed=t))


def after(strategy: fm.FedAvg, *rounds: Round) -> torch.Tensor:
    """What it says of some rounds."""
    shown = Played(strategy, SERVER)
    for this in rounds:
        shown.step(this)
    return shown.scores


def loss_at(theta: torch.Tensor) -> float:
    return float(NET.evaluate(theta[None], X, Y, "loss"))


def shares(this: Round) -> torch.Tensor:
    return this.sizes.double() / this.sizes.sum()


def test_gradient_and_hessian_product_are_finite_differences() -> None:
    this, v = a_round(), numbers(NET.P, seed=3)
    g, Hv = tables.gradient(this, SERVER), tables.hessian_product(this, SERVER, v)
    for i, e in enumerate(1e-5 * torch.eye(NET.P).double()):
        slope = (loss_at(THETA + e) - loss_at(THETA - e)) / 2e-5
        assert abs(slope - float(g[i])) < 1e-7
    ends = (replace(this, theta=THETA + s * v) for s in (1e-5, -1e-5))
    up, down = (tables.gradient(end, SERVER) for end in ends)
    torch.testing.assert_close((up - down) / 2e-5, Hv, atol=1e-6, rtol=1e-5)


def quadratic(this: Round, order: int) -> fm.Game:
    """The loss's Taylor polynomial of a round as a game, its matrix row by row."""
    g = tables.gradient(this, SERVER)
    H = torch.stack([tables.hessian_product(this, SERVER, e) for e in torch.eye(NET.P).double()])
    H = (H + H.T) / 2 if order == 2 else torch.zeros_like(H)
    return fm.quadratic(this.updates, shares(this), g, H)


@pytest.mark.parametrize("order", [1, 2])
def test_taylor_is_the_closed_form_of_the_quadratic_game(order: int) -> None:
    game = quadratic(a_round(), order)
    torch.testing.assert_close(after(fm.methods.Taylor(order), a_round()), game.shapley)
    torch.testing.assert_close(fm.exact(game).values, game.shapley)


def test_a_table_of_another_kind_is_refused() -> None:
    this = a_round()
    for metric, absent, named in (("loss", "gone", "absent"), ("auc", "silent", "metric")):
        with pytest.raises(ValueError, match=f"{named}: expected"):
            fm.RoundScore(metric=metric).table(SERVER, this, absent)


@pytest.mark.parametrize("order", [1, 2])
def test_capped_is_the_closed_form_of_updates_no_longer_than_the_median(order: int) -> None:
    times = torch.tensor([[1.0], [3], [0.5], [2], [1]]).double()
    this = replace(a_round(), updates=times * a_round().updates)
    rows = [float(row.norm()) for row in this.updates]
    longest = sorted(rows)[(len(rows) - 1) // 2]
    factors = torch.tensor([min(1.0, longest / length) for length in rows]).double()
    game = quadratic(replace(this, updates=factors[:, None] * this.updates), order)
    found = after(fb.CappedTaylor(order), this)
    torch.testing.assert_close(found, game.shapley)
    uncut = after(fm.methods.Taylor(order), this)
    assert (found - uncut).abs().max() > 0.02 * uncut.abs().max()


@pytest.mark.parametrize("absent", ["left out", "silent"])
@pytest.mark.parametrize(
    ("value", "metric"), [(fm.exact, "loss"), (fm.banzhaf, "accuracy"), (fm.alone, "loss")]
)
def test_round_values_are_those_of_each_round_summed(value, metric: str, absent: str) -> None:
    rounds = [a_round(1), a_round(2, (0, 2, 3)), a_round(3)]
    wanted = torch.zeros(K, dtype=torch.float64)
    for this in rounds:
        game = fm.round_game(
            NET, THETA, this.updates, X, Y, metric=metric, weights=this.sizes, absent=absent
        )
        wanted[this.clients] += value(game).values * 0.5 ** (this.t - 1)
    rule = fm.methods.RoundValue(value, metric=metric, absent=absent, discount=0.5)
    torch.testing.assert_close(after(rule, *rounds), wanted / 3)


def test_memory_is_a_moving_average_that_begins_with_the_first_score() -> None:
    rounds = [a_round(1), a_round(2, (0, 2, 3)), a_round(3)]
    each = [after(fm.methods.RoundValue(), this) for this in rounds]
    kept = after(fm.methods.RoundValue(memory=0.7), *rounds)
    wanted = each[0].clone()
    for this, phi in zip(rounds[1:], each[1:], strict=True):
        ids = this.clients
        wanted[ids] = 0.7 * wanted[ids] + (1 - 0.7) * phi[ids]
    torch.testing.assert_close(kept, wanted, rtol=1e-14, atol=0)  # in double precision


def test_shapleyfl_scales_each_round_and_smooths() -> None:
    rounds = [a_round(1), a_round(2)]
    scaled = []
    for this in rounds:
        phi = after(fm.methods.RoundValue(), this)
        scaled.append((phi - phi.min()) / (phi.max() - phi.min()))
    found = after(fb.ShapleyFL(memory=0.6), *rounds)
    torch.testing.assert_close(found, 0.6 * scaled[0] + 0.4 * scaled[1])
    for size in (0.0, 1e-16, 1e-9):  # a round that changes nothing, or nothing but rounding
        scores = after(fb.ShapleyFL(), a_round(scale=size))
        assert (scores.tolist() == [0.5] * K) == (size < 1e-9)


def test_trust_is_the_cosine_with_the_descent_direction_and_never_negative() -> None:
    this = a_round()
    g = tables.gradient(this, SERVER)
    wanted = -torch.cosine_similarity(this.updates, g[None]).clamp(max=0)
    assert 0 < int((wanted > 0).sum()) < K
    torch.testing.assert_close(after(fb.TrustCosine(), this), wanted)


def test_mean_cosine_is_the_mean_over_rounds_and_not_cgsv_s_weight() -> None:
    first, second = a_round(), replace(a_round(1), t=2)
    totals = [shares(this) @ this.updates for this in (first, second)]
    cosines = torch.stack([torch.cosine_similarity(first.updates, total[None]) for total in totals])
    found, weights = (after(rule, first, second) for rule in (fb.MeanCosine(), fm.CGSV()))
    torch.testing.assert_close(found, cosines.mean(0))
    assert not found.allclose(weights)


@pytest.mark.parametrize("bias", [True, False])
def test_class_cosine_is_a_mean_over_rows_of_the_last_layer(bias: bool) -> None:
    first, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3, bias=bias)
    net = fm.Model(torch.nn.Sequential(first, torch.nn.ReLU(), last))
    rows = numbers(2, net.P, seed=4)
    this = Round(1, net.init(0).double(), torch.arange(2), torch.tensor([1, 3]), rows)
    rule, server = fb.ClassCosine(), Server(2, 3, net, (X, Y), 0)
    state = rule.step(server, rule.init(server), this).state
    last = rows[:, 16:28].view(2, 3, 4)
    whole = last[0] / 4 + 3 / 4 * last[1]
    wanted = torch.cosine_similarity(last, whole[None], dim=2).mean(1)
    torch.testing.assert_close(rule.scores(server, state), wanted)


def test_all_methods_share_one_table_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    class Counted(tables.RoundGame):
        def __call__(self, coalitions: torch.Tensor) -> torch.Tensor:
            asked.append((self.metric, self.absent, len(coalitions)))
            return super().__call__(coalitions)

    monkeypatch.setattr(tables, "RoundGame", Counted)
    watching = {name: m for name, m in METHODS.items() if not isinstance(m, Retrained)}
    assert len(watching) > 12
    watch = Watch({n: watcher(m) for n, m in watching.items()}, SERVER)
    plain, this = fm.FedAvg(), a_round()
    watch(this, plain.step(SERVER, plain.init(SERVER), this))
    for pair in {(metric, absent) for metric, absent, _ in asked}:
        assert sum(n for metric, absent, n in asked if (metric, absent) == pair) <= 2**K
    alone = watch.evaluated
    found = [alone[name] for name in ("Shapley", "Banzhaf", "leave one out", "CGSV")]
    assert found == [2**K, 2**K, K + 1, 0]


def test_fairness_of_the_two_round_games() -> None:
    this = a_round(scale=0.1)
    out = fair(lambda: fm.methods.RoundValue(), this, SERVER)
    silent = fair(lambda: fm.methods.RoundValue(absent="silent"), this, SERVER)
    assert silent["null"] == 0
    assert out["null"] > 0.01
    for found in (out, silent):
        assert found["copy"] < 1e-12
        assert found["efficiency"] < 1e-9
    assert abs(silent["split"]) < 0.02 < abs(out["split"])
    assert fair(lambda: fm.methods.RoundValue(fm.leave_one_out), this, SERVER)["efficiency"] > 0.01


def test_removal_is_judged_among_random_orders() -> None:
    w = torch.tensor([5.0, 4, 3, 2, 1, 0, -1, -2]).double()
    worth = fm.additive(w).all()
    right, wrong = dict(removal(w, worth, 0)), dict(removal(-w, worth, 0))
    assert right["removal, best first"] == right["removal, worst first"] == 1
    assert wrong["removal, best first"] == wrong["removal, worst first"] == 0
    flat = dict(removal(torch.ones(8), worth, 0))  # the ids are in the order of the worths
    assert flat["removal, best first"] == pytest.approx(0.5, abs=0.06)
    assert flat["removal, worst first"] == pytest.approx(0.5, abs=0.06)
    order = torch.tensor([[2, 0, 1]])
    table = fm.additive([1.0, 10.0, 100.0]).all()
    assert left_over(order, table).tolist() == [[11.0, 10.0]]


def test_relative_error_takes_the_best_unit() -> None:
    truth = torch.tensor([1.0, 2.0, -1.0]).double()
    assert relative_error(7 * truth, truth) == pytest.approx(0, abs=1e-12)
    assert relative_error(-truth, truth) == pytest.approx(1)
    assert relative_error(torch.zeros(3).double(), truth) == 1
    other = torch.tensor([1.0, 1.0, 0.0]).double()  # 1.5 times it is the nearest
    assert relative_error(other, truth) == pytest.approx((0.25 + 0.25 + 1) ** 0.5 / 6**0.5)
