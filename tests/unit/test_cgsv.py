"""CGSV against arithmetic by hand and a plain loop: weights, cosines, newcomers, the absent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import a_round, numbers, with_attacks
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.rounds import Round, Server, Step
from fedlab_mini.methods import cgsv
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (9, 4, 20, 13, 7)
Seen = tuple[list[int], list[int], np.ndarray, list[int]]  # ids, sizes, updates, missing ids


def random_updates(rows: int, entries: int = 7, seed: int = 0) -> Tensor:
    """Updates that share a direction, of unequal lengths."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, entries, generator=generator, dtype=torch.float64)
    length = 1 + 4 * torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    return length * (noise + 1)


def follow(
    rounds: list[Seen], gamma0: float = 0.5, floor: float | None = 1e-3, original: bool = False
) -> tuple[list[dict[int, float]], list[dict[int, float]], list[np.ndarray]]:
    """The method client by client: weights used in, r after, and U of, every round."""
    r: dict[int, float] = {}
    held: dict[int, int] = {}
    turns: dict[int, int] = {}
    used, after, steps = [], [], []
    for ids, sizes, updates, missing in rounds:
        known = set(held)
        held |= dict(zip(ids, sizes, strict=True))
        if set(ids) - known:
            heard = sum(held.values())
            left = 1 - sum(held[k] for k in ids if k not in known) / heard
            r = {k: left * v for k, v in r.items()}
            r |= {k: held[k] / heard for k in ids if k not in known}
        here = sum(r[k] for k in ids)
        weight = {k: r[k] / here for k in ids}
        unit = {k: row / np.linalg.norm(row) for k, row in zip(ids, updates, strict=True)}
        step = sum(weight[k] * unit[k] for k in ids)
        psi = {k: float(unit[k] @ step / np.linalg.norm(step)) for k in ids}
        psi |= {k: 0.0 for k in missing if k in known}
        mass, new = sum(r[k] for k in psi), {}
        mixed = len({turns.get(k, 0) for k in psi}) > 1
        for k, cosine in psi.items():
            turns[k] = turns.get(k, 0) + 1
            old = r[k] / mass
            if original:
                reputation = 0.0 if turns[k] == 1 else old
                new[k] = max(0.95 * reputation + 0.05 * cosine, 1e-3)
            else:
                gamma = 1 - (1 - gamma0) / turns[k]
                new[k] = gamma * old + (1 - gamma) * cosine
                if mixed:  # what all would sum to with this gamma
                    new[k] /= gamma + (1 - gamma) * max(0, sum(psi.values()))
                if floor is not None and new[k] < floor:
                    new[k] = max(new[k], min(old, floor))
        r |= {k: mass * v / sum(new.values()) for k, v in new.items()}
        used.append(weight)
        after.append(dict(r))
        steps.append(step)
    return used, after, steps


def as_row(values: dict[int, float], clients: int) -> Tensor:
    """{id: value} as a row [K] with zeros elsewhere."""
    return torch.tensor([values.get(k, 0.0) for k in range(clients)], dtype=torch.float64)


class Played:
    """CGSV that is shown rounds by hand: the last weights [m], the state after them."""

    def __init__(self, strategy: fm.CGSV, clients: int, seed: int = 0):
        sample = torch.zeros(1, 2), torch.tensor([0])
        self.strategy = strategy
        self.server = Server(clients, 2, fm.mlp(2, 2), sample, seed)
        self.state = strategy.init(self.server)

    def step(self, round: Round) -> Tensor:
        """The next model [P]."""
        theta, self.weights, self.state, _ = self.strategy.step(self.server, self.state, round)
        return theta

    @property
    def scores(self) -> Tensor:
        return self.strategy.scores(self.server, self.state)

    @property
    def psi(self) -> Tensor:
        return self.state["psi"]


def watched(fed, net, timetable, *, rounds: int, seed: int = 0, **options):
    """A training whose clients come by a timetable, and all that CGSV was shown in it."""

    class Asking(fm.CGSV):
        def select(self, server, state, t):
            return torch.tensor(timetable(t))

    seen: list[Seen] = []

    def watch(round: Round, step: Step) -> None:
        ids, sizes = round.clients.tolist(), round.sizes.tolist()
        seen.append((ids, sizes, round.updates.clone().numpy(), round.missing.tolist()))

    given = {"rounds": rounds, "seed": seed, "watch": watch}
    return fm.train(fed, net, Asking(**options), **given), seen


class FailsOnce(UpdateAttack):
    """Honest, but for the call of that number."""

    def __init__(self, call: int):
        self.call, self.calls = call, 0

    def __call__(self, updates, previous, generator):
        self.calls += 1
        return updates * torch.nan if self.calls == self.call else updates


def check_history(history: fm.History, seen: list[Seen], clients: int, **options) -> None:
    """The weights and the scores of a training are those of the plain loop."""
    used, after, _ = follow(seen, **options)
    for t, (weight, r) in enumerate(zip(used, after, strict=True)):
        torch.testing.assert_close(history.weights[t].double(), as_row(weight, clients))
        torch.testing.assert_close(history.scores[t], as_row(r, clients))


# --- rounds by hand ------------------------------------------------------------------------------


def test_the_first_round_by_hand():
    """30 and 10 samples; updates (3, 4) and (2, 0): u = (.6, .8) and (1, 0)."""
    played = Played(fm.CGSV(), 2)
    theta = played.step(a_round([[3.0, 4.0], [2.0, 0.0]], [30, 10]))
    # U = .75 (.6, .8) + .25 (1, 0) = (.7, .6); |U| = sqrt(.85); median length, by weight: 5
    assert theta.tolist() == pytest.approx([1 + 5 * 0.7, 1 + 5 * 0.6], abs=1e-12)
    # psi = (.6 * .7 + .8 * .6, .7) / sqrt(.85)
    psi = [0.9 / 0.9219544457292888, 0.7 / 0.9219544457292888]
    assert played.psi.tolist() == pytest.approx(psi, abs=1e-12)
    # gamma_1 = 1 - .5 / 1 = .5; then the sum is made 1
    raw = [0.5 * 0.75 + 0.5 * psi[0], 0.5 * 0.25 + 0.5 * psi[1]]
    assert played.scores.tolist() == pytest.approx([0.6310446, 0.3689554], abs=1e-6)
    assert played.scores.tolist() == pytest.approx([raw[0] / sum(raw), raw[1] / sum(raw)])
    assert played.weights.tolist() == pytest.approx([0.75, 0.25])


def test_the_second_round_by_hand():
    """The same updates again: weights (.6310, .3690), and gamma_2 = 1 - .5 / 2 = .75."""
    played = Played(fm.CGSV(server_lr=2.0), 2)
    played.step(a_round([[3.0, 4.0], [2.0, 0.0]], [30, 10]))
    theta = played.step(a_round([[3.0, 4.0], [2.0, 0.0]], [30, 10], t=2))
    # U = .6310446 (.6, .8) + .3689554 (1, 0)
    U = (0.7475822, 0.5048357)
    assert theta.tolist() == pytest.approx([1 + 2 * U[0], 1 + 2 * U[1]], abs=1e-6)
    length = 0.9020744  # sqrt(.5588791 + .2548591)
    psi = [(0.6 * U[0] + 0.8 * U[1]) / length, U[0] / length]
    assert played.psi.tolist() == pytest.approx(psi, abs=1e-6)
    raw = [0.75 * 0.6310446 + 0.25 * psi[0], 0.75 * 0.3689554 + 0.25 * psi[1]]
    assert played.scores.tolist() == pytest.approx([raw[0] / sum(raw), raw[1] / sum(raw)])
    assert played.weights.tolist() == pytest.approx([0.6310446, 0.3689554], abs=1e-6)


def test_an_opposed_client_by_hand():
    """Three times (1, 0) against (-1, 0), equal sizes: U = (.5, 0), psi = 1, 1, 1, -1."""
    updates = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    played = Played(fm.CGSV(0.0), 4)
    played.step(a_round(updates))
    assert played.psi.tolist() == [1, 1, 1, -1]
    # gamma_1 = 0: new = 1, 1, 1, -1; the floor makes that 1, 1, 1, .001
    assert played.scores.tolist() == pytest.approx([1 / 3.001] * 3 + [0.001 / 3.001])
    free = Played(fm.CGSV(0.0, floor=None), 4)
    free.step(a_round(updates))
    assert free.scores.tolist() == pytest.approx([0.5, 0.5, 0.5, -0.5])
    theta = free.step(a_round(updates, t=2))  # now the opposed one helps: U = (2, 0)
    assert theta.tolist() == pytest.approx([3.0, 1.0])


def test_the_floor_is_met_before_the_sum_is_made_one():
    updates = [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    played = Played(fm.CGSV(0.0, floor=0.25), 3)
    played.step(a_round(updates))
    assert played.scores.tolist() == pytest.approx([1 / 2.25, 1 / 2.25, 0.25 / 2.25])


def test_who_had_less_than_the_floor_keeps_what_it_had():
    played = Played(fm.CGSV(0.0), 2)
    played.step(a_round([[1.0, 0.0], [-1.0, 0.0]], [9_999, 1]))
    assert played.scores.tolist() == pytest.approx([1 / 1.0001, 0.0001 / 1.0001])


def test_who_had_less_than_the_floor_may_rise():
    played = Played(fm.CGSV(0.0), 2)
    played.step(a_round([[1.0, 0.0], [1.0, 0.0]], [9_999, 1]))
    assert played.scores.tolist() == pytest.approx([0.5, 0.5])


def test_without_a_floor_an_opposed_client_ends_below_zero():
    played, updates = Played(fm.CGSV(0.0, floor=None), 5), random_updates(5)
    updates[2] *= -1
    for t in range(1, 6):
        played.step(a_round(updates, t=t))
        assert float(played.scores.sum()) == pytest.approx(1)
        if t == 1:
            assert float(played.scores[2]) < 0


# --- gamma ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma0", [0.0, 0.3, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("floor", [1e-3, 0.1, None])
def test_weights_follow_the_plain_loop(gamma0, floor):
    played, rounds = Played(fm.CGSV(gamma0, floor=floor), 4), []
    for t in range(1, 9):
        updates = random_updates(4, seed=t)
        updates[3] -= 2 * updates[0]
        rounds.append(([0, 1, 2, 3], [5, 1, 3, 2], updates.numpy(), []))
        theta = played.step(a_round(updates, [5, 1, 3, 2], t=t))
        used, after, steps = follow(rounds, gamma0, floor)
        torch.testing.assert_close(played.weights, as_row(used[-1], 4))
        torch.testing.assert_close(played.scores, as_row(after[-1], 4))
        moved = theta - 1
        assert float(moved @ torch.from_numpy(steps[-1])) == pytest.approx(
            float(moved.norm()) * np.linalg.norm(steps[-1])
        )


def test_gamma_keeps_a_share_of_the_prior_that_grows_with_gamma0():
    """The product of gamma_1 .. gamma_100 is what is left of the prior; a table of the book."""
    left = [math.prod(1 - (1 - g) / t for t in range(1, 101)) for g in (0, 0.5, 0.9, 0.95, 1)]
    assert left == pytest.approx([0, 0.06, 0.59, 0.77, 1], abs=0.006)
    kept = []
    for gamma0 in (0.0, 0.5, 0.9, 0.95, 1.0):
        played = Played(fm.CGSV(gamma0), 2)  # alike directions, unequal sizes
        for t in range(1, 101):
            played.step(a_round([[1.0, 0.0], [1.0, 0.0]], [90, 10], t=t))
        kept.append(float(played.scores[0]))
    assert kept == sorted(kept)
    assert kept[0] == pytest.approx(0.5)
    assert kept[-1] == pytest.approx(0.9)


# --- FedAvg as a special case --------------------------------------------------------------------


@pytest.mark.parametrize("gamma0", [1.0, 1 - 1e-14], ids=["one", "almost one"])
@pytest.mark.parametrize("per_round", [None, 1, 2, 4])
def test_gamma0_of_one_and_no_scaling_is_fedavg(make_fed, per_round, gamma0):
    fed, net, local = make_fed(SIZES), fm.mlp(6, 5, 3), LocalSGD(batch=4)
    plain = fm.train(fed, net, fm.FedAvg(per_round), rounds=6, local=local, seed=2)
    cgsv = fm.CGSV(gamma0, normalise=False, per_round=per_round)
    other = fm.train(fed, net, cgsv, rounds=6, local=local, seed=2)
    assert torch.equal(plain.selected, other.selected)
    torch.testing.assert_close(plain.theta, other.theta, rtol=0, atol=1e-10)
    torch.testing.assert_close(plain.weights, other.weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("per_round", [None, 2])
def test_with_gamma0_of_one_the_scores_are_shares_of_the_samples(make_fed, per_round):
    fed = make_fed(SIZES)
    cgsv = fm.CGSV(1.0, per_round=per_round)
    history = fm.train(fed, fm.logistic(6, 3), cgsv, rounds=4, seed=2)
    held = (fed.sizes * history.selected.any(0)).double()
    torch.testing.assert_close(history.scores[-1], held / held.sum(), rtol=0, atol=1e-10)


def test_normalised_steps_are_not_fedavg(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 5, 3)
    plain = fm.train(fed, net, fm.FedAvg(), rounds=2)
    other = fm.train(fed, net, fm.CGSV(1.0), rounds=2)
    torch.testing.assert_close(plain.weights, other.weights)
    assert float((plain.theta - other.theta).norm()) > 1e-3


# --- literal and original ------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [1e-3, 0.3])
def test_literal_takes_unit_steps_and_has_no_floor(floor):
    played, rounds = Played(fm.CGSV(0.2, literal=True, floor=floor), 3), []
    for t in range(1, 7):
        updates = random_updates(3, seed=10 + t)
        updates[1] *= -1 if t in (1, 4) else 1
        rounds.append(([0, 1, 2], [2, 1, 1], updates.numpy(), []))
        theta = played.step(a_round(updates, [2, 1, 1], t=t))
        _, after, steps = follow(rounds, 0.2, None)
        torch.testing.assert_close(theta - 1, torch.from_numpy(steps[-1]))
        torch.testing.assert_close(played.scores, as_row(after[-1], 3))
    assert after[0][1] < 0


def test_literal_with_a_step_of_its_own():
    updates = random_updates(3)
    one, half = (Played(fm.CGSV(literal=True, **lr), 3) for lr in ({}, {"server_lr": 0.5}))
    moved = [played.step(a_round(updates)) - 1 for played in (one, half)]
    torch.testing.assert_close(moved[1], moved[0] / 2)


def test_original_is_the_recursion_of_the_first_paper():
    played, rounds = Played(fm.CGSV(original=True), 4), []
    for t in range(1, 31):
        updates = random_updates(4, seed=t)
        updates[3] -= 3 * updates[0]
        rounds.append(([0, 1, 2, 3], [5, 1, 3, 2], updates.numpy(), []))
        played.step(a_round(updates, [5, 1, 3, 2], t=t))
    used, after, _ = follow(rounds, original=True)
    assert list(used[0].values()) == pytest.approx([5 / 11, 1 / 11, 3 / 11, 2 / 11])
    torch.testing.assert_close(played.scores, as_row(after[-1], 4))
    assert float(played.scores[3]) < 0.05


def test_original_by_hand():
    """(3, 4) and (2, 0) again: psi = .976, .759; reputations start at 0, sizes are forgotten."""
    played = Played(fm.CGSV(original=True), 2)
    played.step(a_round([[3.0, 4.0], [2.0, 0.0]], [30, 10]))
    assert played.weights.tolist() == pytest.approx([0.75, 0.25])
    # .05 psi = .0488, .0380, so r = psi / (psi_1 + psi_2) = .9 / 1.6, .7 / 1.6
    assert played.scores.tolist() == pytest.approx([0.5625, 0.4375], abs=1e-12)
    opposed = Played(fm.CGSV(original=True), 3)
    opposed.step(a_round([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    assert opposed.scores.tolist() == pytest.approx([0.05 / 0.101, 0.05 / 0.101, 0.001 / 0.101])


# --- the identity --------------------------------------------------------------------------------


@st.composite
def rows_and_weights(draw) -> tuple[Tensor, Tensor]:
    """Some updates, and weights with sum 1."""
    m, p = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    numbers = st.integers(-1000, 1000).map(lambda i: i / 100)
    updates = draw(arrays(np.float64, (m, p), elements=numbers))
    weights = draw(arrays(np.float64, m, elements=st.integers(0, 100).map(float)))
    assume(weights.sum() > 0)
    return torch.from_numpy(updates), torch.from_numpy(weights / weights.sum())


@given(rows_and_weights())
def test_the_weighted_cosines_add_up_to_the_length_of_the_step(given_rows):
    updates, weights = given_rows
    lengths = updates.norm(dim=1, keepdim=True)
    units = torch.where(lengths > 0, updates / lengths, 0.0)
    step = weights @ units
    psi = fm.cosines(updates, step)
    assert float(weights @ psi) == pytest.approx(float(step.norm()), abs=1e-9)
    assert ((psi >= -1) & (psi <= 1)).all()


@given(rows_and_weights())
def test_a_round_has_the_identity_too(given_rows):
    updates, weights = given_rows
    sizes = (weights * 10_000).round().long().clamp(min=1).tolist()
    played = Played(fm.CGSV(literal=True), len(updates))
    theta = played.step(a_round(updates, sizes))
    length = float((theta - 1).norm())
    assert float(played.weights @ played.psi) == pytest.approx(length, abs=1e-7)


# --- cosines -------------------------------------------------------------------------------------


def test_cosines_by_hand():
    updates = torch.tensor([[2.0, 0], [0, 3], [-1, 0], [1, 1], [0, 0]], dtype=torch.float64)
    wanted = torch.tensor([1, 0, -1, 0.5**0.5, 0], dtype=torch.float64)
    torch.testing.assert_close(fm.cosines(updates, updates[0]), wanted)
    assert not fm.cosines(updates, torch.zeros(2, dtype=torch.float64)).any()


@pytest.mark.parametrize("size", [1e-30, 1e-22, 1e-3, 1e15, 1e30, 1e38])
def test_cosines_do_not_depend_on_lengths(size):
    updates = torch.tensor([[3.0, 4, 0], [1, 1, 1], [-2, 1, 2]], dtype=torch.float32)
    step = torch.tensor([1.0, 2, 2], dtype=torch.float32)
    wanted = torch.tensor([11 / 15, 5 / 27**0.5, 4 / 9])
    torch.testing.assert_close(fm.cosines(updates / 4 * size, step), wanted)
    torch.testing.assert_close(fm.cosines(updates, step / 4 * size), wanted)


def test_a_length_that_no_float32_holds_has_a_direction():
    updates = torch.full((2, 4), 3e38)
    updates[1, :2] *= -1
    assert fm.cosines(updates, torch.ones(4)).tolist() == pytest.approx([1, 0])


# --- the step's length ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "length"),
    [(0.3, 0.3), (7, 7.0), ("median", 4.0), ("mean", 0.5 * 4 + 0.3 * 1 + 0.2 * 10)],
)
def test_the_server_steps_along_u(rate, length):
    """Lengths 4, 1, 10 with weights .5, .3, .2: half of the weight lies at or below 4."""
    updates = [[0.0, 4.0], [1.0, 0.0], [0.0, 10.0]]
    played = Played(fm.CGSV(server_lr=rate), 3)
    theta = played.step(a_round(updates, [5, 3, 2]))
    assert theta.tolist() == pytest.approx([1 + length * 0.3, 1 + length * 0.7])


def test_without_scaling_the_step_is_the_mean_update():
    updates = [[0.0, 4.0], [1.0, 0.0], [0.0, 10.0]]
    played = Played(fm.CGSV(normalise=False), 3)
    assert played.step(a_round(updates, [5, 3, 2])).tolist() == pytest.approx([1.3, 5.0])
    half = Played(fm.CGSV(normalise=False, server_lr=0.5), 3)
    assert half.step(a_round(updates, [5, 3, 2])).tolist() == pytest.approx([1.15, 3.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_model_keeps_its_type(dtype):
    played = Played(fm.CGSV(), 3)
    assert played.step(a_round(random_updates(3), dtype=dtype)).dtype == dtype
    assert played.weights.dtype == dtype


# --- strange updates -----------------------------------------------------------------------------


def test_a_zero_update_scores_zero_and_adds_nothing():
    updates = random_updates(4)
    updates[1] = 0
    played = Played(fm.CGSV(server_lr=1.0), 4)
    theta = played.step(a_round(updates))
    assert float(played.psi[1]) == 0
    units = torch.nn.functional.normalize(updates[[0, 2, 3]], dim=1)
    torch.testing.assert_close(theta, 1 + units.sum(0) / 4)
    for t in range(2, 30):
        played.step(a_round(updates, t=t))
    assert torch.isfinite(played.scores).all()
    assert played.scores.argmin() == 1


@pytest.mark.parametrize("options", [{}, {"literal": True}, {"original": True}, {"floor": None}])
def test_when_nobody_moves_nothing_moves(options):
    played = Played(fm.CGSV(**options), 3)
    for t in (1, 2, 3):
        theta = played.step(a_round(torch.zeros(3, 2), [1, 2, 1], t=t))
        assert theta.tolist() == [1, 1]
        assert float(played.scores.sum()) == pytest.approx(1)
        assert not played.psi.any()


@pytest.mark.parametrize("factor", [1e20, 1e30, 1e37])
@pytest.mark.parametrize("options", [{}, {"original": True}, {"server_lr": 0.5}])
def test_a_huge_update_counts_as_a_direction(factor, options):
    """Only the direction of the longest of five updates matters: here it is 2 or 1e30 times."""
    updates = random_updates(5).float()
    updates /= updates.norm(dim=1, keepdim=True)
    thetas, scores = [], []
    for length in (2.0, factor):
        sent = updates.clone()
        sent[3] *= length
        played = Played(fm.CGSV(**options), 5)
        thetas.append(played.step(a_round(sent, dtype=torch.float32)))
        scores.append(played.scores)
    torch.testing.assert_close(*thetas)
    torch.testing.assert_close(*scores, rtol=1e-5, atol=1e-6)
    assert float((thetas[1] - 1).norm()) <= 1.0001


def test_the_mean_length_of_huge_updates_is_a_length():
    """The squares of 1e30 overflow in float32; the mean, a third of 1e30, does not."""
    updates = torch.tensor([[1.0, 0], [1, 0], [1e30, 0]])
    theta = Played(fm.CGSV(server_lr="mean"), 3).step(a_round(updates, dtype=torch.float32))
    assert float(theta[0]) == pytest.approx(1e30 / 3)


@pytest.mark.parametrize("options", [{"literal": True}, {"floor": 0.0}, {"floor": None}, {}])
def test_a_client_without_weight_may_come_alone(options):
    """With gamma0 = 0 a zero update leaves weight 0; then the others stay away for a round."""
    played, updates = Played(fm.CGSV(0.0, **options), 3), random_updates(3)
    updates[2] = 0
    played.step(a_round(updates))
    theta = played.step(a_round(random_updates(1), [10], clients=[2], t=2))
    assert torch.isfinite(theta).all()
    assert torch.isfinite(played.scores).all()
    assert float(played.scores.sum()) == pytest.approx(1)


# --- the absent, the late, the silent ------------------------------------------------------------


def test_absent_clients_keep_their_weight_and_the_sum_stays_one(make_fed):
    fed, net = make_fed(SIZES), fm.logistic(6, 3)
    history = fm.train(fed, net, fm.CGSV(per_round=2), rounds=12, seed=1)
    torch.testing.assert_close(history.scores.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(history.weights.sum(1), torch.ones(12, dtype=torch.float64))
    heard = history.selected.cumsum(0) > 0
    assert not history.scores[~heard].any()
    settled = heard.all(1).nonzero()[0].item()
    for t in range(settled + 1, 12):
        absent = ~history.selected[t]
        assert torch.equal(history.scores[t, absent], history.scores[t - 1, absent])


def test_a_newcomer_enters_with_its_share_of_the_samples():
    played = Played(fm.CGSV(), 6)
    rounds = [([4, 1], [30, 10], random_updates(2, seed=t).numpy(), []) for t in range(3)]
    rounds.append(([2, 4, 1], [40, 30, 10], random_updates(3, seed=9).numpy(), []))
    for t, (ids, sizes, updates, _) in enumerate(rounds, 1):
        before = played.scores.clone()
        played.step(a_round(updates, sizes, ids, t=t))
    assert float(played.weights[0]) == pytest.approx(40 / 80)
    assert played.weights[1:].tolist() == pytest.approx((before[[4, 1]] / 2).tolist())
    _, after, _ = follow(rounds)
    torch.testing.assert_close(played.scores, as_row(after[-1], 6))


def test_who_joins_late_is_judged_on_one_scale_with_the_others():
    """Updates that differ by noise only: joining in round 9 earns what the others have, at once."""
    ratios = []
    for seed in range(8):
        played = Played(fm.CGSV(), 6)
        for t in range(1, 11):
            ids = range(6 if t > 8 else 5)
            updates = 1 + numbers(len(ids), 50, seed=100 * seed + t)
            played.step(a_round(updates, clients=ids, t=t))
        ratios.append(float(played.scores[5] / played.scores[:5].mean()))
    assert 0.9 < min(ratios) < max(ratios) < 1.1  # 3.0 to 3.4 if mixed before they are scaled


def test_the_round_a_client_was_first_drawn_in_does_not_show_in_its_score():
    """Three of twelve a round, alike: over seeds the rank correlation is around 0, and was .6."""
    found = []
    for seed in range(40):
        played, first = Played(fm.CGSV(per_round=3), 12, seed=seed), torch.zeros(12)
        for t in range(1, 16):
            ids = played.strategy.select(played.server, played.state, t).tolist()
            first[[k for k in ids if not first[k]]] = t
            played.step(a_round(1 + numbers(3, 50, seed=99 * seed + t), clients=ids, t=t))
        found.append(fm.spearman(played.scores[first > 0], first[first > 0]))
    mean, error = np.mean(found), np.std(found, ddof=1) / 40**0.5
    assert abs(mean) < 2.5 * error < 0.2


def test_late_joiners_and_absent_clients_in_a_training(make_fed):
    def timetable(t):
        return [4, 1] if t == 2 else [0, 2, 4] if t < 4 else [0, 2, 4, 3]

    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history, seen = watched(fed, net, timetable, rounds=7, seed=4, gamma0=0.3)
    assert not history.scores[:3, 3].any()
    assert float(history.scores[0, 1]) == 0
    assert (history.scores[3:, 3] > 0).all()
    # all five are heard of in round 4, and 0, 2, 3, 4 take part
    heard = fed.sizes.sum().item()
    kept = history.scores[2].clone() * (1 - SIZES[3] / heard)
    kept[3] = SIZES[3] / heard
    here = kept[[0, 2, 3, 4]]
    torch.testing.assert_close(history.weights[3, [0, 2, 3, 4]], here / here.sum())
    check_history(history, seen, 5, gamma0=0.3)


@pytest.mark.parametrize("options", [{}, {"original": True}, {"floor": None}])
def test_a_client_that_sends_nothing_usable_is_judged_with_zero(make_fed, options):
    fed = with_attacks(make_fed(SIZES), {2: FailsOnce(3)})
    net, everybody = fm.mlp(6, 4, 3), lambda t: range(5)
    with pytest.warns(UserWarning, match="round 3: client 2 sent"):
        history, seen = watched(fed, net, everybody, rounds=5, **options)
    assert [missing for *_, missing in seen] == [[], [], [2], [], []]
    assert float(history.weights[2, 2]) == 0
    assert float(history.scores[2, 2]) < float(history.scores[1, 2])
    assert float(history.scores[2].sum()) == pytest.approx(1)
    check_history(history, seen, 5, **options)


def test_psi_of_a_silent_client_is_zero():
    played = Played(fm.CGSV(), 3)
    played.step(a_round(random_updates(3)))
    assert (played.psi > 0).all()
    played.step(a_round(random_updates(2), clients=[2, 0], t=2, missing=[1]))
    assert float(played.psi[1]) == 0


def test_who_never_sent_anything_has_no_weight():
    played = Played(fm.CGSV(), 3)
    for t in (1, 2):
        played.step(a_round(random_updates(2), clients=[0, 1], t=t, missing=[2]))
    assert float(played.scores[2]) == 0
    assert float(played.scores.sum()) == pytest.approx(1)
    played.step(a_round(random_updates(3), [10, 10, 20], t=3))
    assert float(played.weights[2]) == pytest.approx(0.5)


# --- rewards -------------------------------------------------------------------------------------


def rewards(r: list[float], step: Tensor, beta: float = 1.0) -> Tensor:
    """What clients with the weights r would be sent."""
    state = {"r": torch.tensor(r, dtype=torch.float64)}
    return fm.CGSV().rewards(state, step, beta)


def test_rewards_keep_the_largest_entries():
    step = torch.tensor([0.1, -9.0, 3.0, -2.0, 8.0, 0.0, 5.0, 4.0, -7.0, 6.0])
    sent = rewards([0.5, 0.3, 0.2, 0.0, -0.1], step, beta=2.0)
    # tanh(1), tanh(.6), tanh(.4) = .7616, .5370, .3799: shares 1, .705, .499 of 10 entries
    assert torch.equal(sent[0], step)
    assert sent[1].tolist() == [0, -9, 3, 0, 8, 0, 5, 4, -7, 6]
    assert sent[2].tolist() == [0, -9, 0, 0, 8, 0, 0, 0, -7, 6]
    assert not sent[3:].any()


def test_the_larger_beta_the_more_alike_the_rewards():
    step = torch.arange(1.0, 201)
    kept = [(rewards([0.6, 0.3, 0.1], step, b) != 0).sum(1).tolist() for b in (0.01, 1.0, 100.0)]
    assert kept[0][0] == kept[1][0] == kept[2][0] == 200
    assert kept[0][1:] == pytest.approx([100, 33], abs=1)
    assert kept[2] == [200, 200, 199] or kept[2] == [200, 200, 200]
    assert kept[0][2] < kept[1][2] < kept[2][2]


def test_before_the_first_round_nobody_is_rewarded():
    state = Played(fm.CGSV(), 3).state
    assert not fm.CGSV().rewards(state, torch.ones(4)).any()


# --- arguments and threads -----------------------------------------------------------------------


def test_cosines_and_their_game_name_what_they_refuse():
    rows, step = random_updates(3), torch.ones(7, dtype=torch.float64)
    for change, error in ((lambda a: a * math.nan, ValueError), (lambda a: None, TypeError)):
        with pytest.raises(error, match=r"^updates: "):
            fm.cosines(change(rows), step)
        with pytest.raises(error, match=r"^step: "):
            fm.cosines(rows, change(step))
        with pytest.raises(error, match=r"^updates: "):
            fm.cosine_game(change(rows))
    with pytest.raises(ValueError, match=r"^step: "):
        fm.cosines(rows, step[:-1])
    with pytest.raises(ValueError, match=r"^weights: "):
        fm.cosine_game(rows, torch.tensor([1.0, -0.5, 1.0]))
    wanted = fm.cosines(rows, step)
    torch.testing.assert_close(fm.cosines(rows.numpy(), step.float().numpy()), wanted)


def test_sums_over_parameters_run_on_one_thread(monkeypatch):
    """Bytes are promised, and products give other ones with other numbers of threads."""
    threads, alignment = [], cgsv._alignment

    def noting(*given):
        threads.append(torch.get_num_threads())
        return alignment(*given)

    monkeypatch.setattr(cgsv, "_alignment", noting)
    before, rows = torch.get_num_threads(), random_updates(4)
    try:
        torch.set_num_threads(2)
        fm.cosines(rows, rows.sum(0))
        fed = fm.federation(fm.load("digits"), clients=3, seed=0)
        fm.train(fed, fm.logistic(64, 10), fm.CGSV(), rounds=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 1]
