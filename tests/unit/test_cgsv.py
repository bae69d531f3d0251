"""CGSV against arithmetic by hand and a plain loop: weights, cosines, newcomers, the absent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import Played, a_round, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, Step
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


def started(clients: int, *given, **options) -> Played:
    """CGSV that is shown rounds by hand."""
    sample = torch.zeros(1, 2), torch.tensor([0])
    return Played(fm.CGSV(*given, **options), Server(clients, 2, fm.mlp(2, 2), sample, 0))


# --- rounds by hand ------------------------------------------------------------------------------


def test_a_round_by_hand():
    """30 and 10 samples; updates (3, 4) and (2, 0): u = (.6, .8) and (1, 0)."""
    played = started(2)
    done = played.step(a_round([[3.0, 4.0], [2.0, 0.0]], [30, 10]))
    # U = .75 (.6, .8) + .25 (1, 0) = (.7, .6); |U| = sqrt(.85); median length, by weight: 5
    assert done.theta.tolist() == pytest.approx([1 + 5 * 0.7, 1 + 5 * 0.6], abs=1e-12)
    # psi = (.6 * .7 + .8 * .6, .7) / sqrt(.85)
    psi = [0.9 / 0.9219544457292888, 0.7 / 0.9219544457292888]
    assert played["psi"].tolist() == pytest.approx(psi, abs=1e-12)
    # gamma_1 = 1 - .5 / 1 = .5; then the sum is made 1
    raw = [0.5 * 0.75 + 0.5 * psi[0], 0.5 * 0.25 + 0.5 * psi[1]]
    assert played.scores.tolist() == pytest.approx([raw[0] / sum(raw), raw[1] / sum(raw)])
    assert done.weights.tolist() == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize(
    ("options", "directions", "sizes", "raw"),
    [
        ({"gamma0": 0.0}, [1, 1, 1, -1], 10, [1, 1, 1, 0.001]),
        ({"gamma0": 0.0, "floor": None}, [1, 1, 1, -1], 10, [1, 1, 1, -1]),
        ({"gamma0": 0.0, "floor": 0.25}, [1, 1, -1], 10, [1, 1, 0.25]),
        ({"gamma0": 0.0}, [1, -1], [9_999, 1], [1, 0.0001]),  # keeps what it had
        ({"original": True}, [1, 1, -1], 10, [0.05, 0.05, 0.001]),
    ],
    ids=str,
)
def test_the_floor_is_met_before_the_sum_is_made_one(options, directions, sizes, raw):
    """Updates (1, 0) or (-1, 0): psi is 1 or -1, and all of the new weight where gamma is 0."""
    played = started(len(directions), **options)
    played.step(a_round([[float(d), 0.0] for d in directions], sizes))
    assert played["psi"].tolist() == directions
    assert played.scores.tolist() == pytest.approx([value / sum(raw) for value in raw])


@pytest.mark.parametrize(
    ("options", "of_the_loop"),
    [
        ({"gamma0": 0.0}, {"gamma0": 0.0}),
        ({"gamma0": 0.3, "floor": 0.1}, {"gamma0": 0.3, "floor": 0.1}),
        ({"gamma0": 0.2, "literal": True, "floor": 0.3}, {"gamma0": 0.2, "floor": None}),
        ({"original": True}, {"original": True}),
    ],
    ids=str,
)
def test_weights_follow_the_plain_loop(options, of_the_loop):
    played, rounds = started(4, **options), []
    for t in range(1, 9):
        updates = random_updates(4, seed=t)
        updates[3] -= 3 * updates[0]
        rounds.append(([0, 1, 2, 3], [5, 1, 3, 2], updates.numpy(), []))
        done = played.step(a_round(updates, [5, 1, 3, 2], t=t))
        used, after, steps = follow(rounds, **of_the_loop)
        torch.testing.assert_close(done.weights, as_row(used[-1], 4))
        torch.testing.assert_close(played.scores, as_row(after[-1], 4))
        step = torch.from_numpy(steps[-1])
        assert float(done.weights @ played["psi"]) == pytest.approx(float(step.norm()))
        moved = done.theta - 1
        if "literal" not in options:  # the text as printed takes steps of length 1
            moved = moved * (step.norm() / moved.norm())
        torch.testing.assert_close(moved, step)


# --- the step ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ({"server_lr": 0.3}, [0.3 * 0.3, 0.3 * 0.7]),
        ({"server_lr": "median"}, [4 * 0.3, 4 * 0.7]),
        ({"server_lr": "mean"}, [4.3 * 0.3, 4.3 * 0.7]),
        ({"normalise": False}, [0.3, 4.0]),
        ({"literal": True}, [0.3, 0.7]),
    ],
    ids=str,
)
def test_the_server_steps_along_u(options, moved):
    """Lengths 4, 1, 10 with weights .5, .3, .2: half of the weight lies at or below 4."""
    updates = [[0.0, 4.0], [1.0, 0.0], [0.0, 10.0]]
    theta = started(3, **options).step(a_round(updates, [5, 3, 2])).theta
    assert theta.tolist() == pytest.approx([1 + moved[0], 1 + moved[1]])


# --- cosines -------------------------------------------------------------------------------------


def test_cosines_by_hand():
    updates = torch.tensor([[2.0, 0], [0, 3], [-1, 0], [1, 1], [0, 0]], dtype=torch.float64)
    wanted = torch.tensor([1, 0, -1, 0.5**0.5, 0], dtype=torch.float64)
    torch.testing.assert_close(fm.cosines(updates, updates[0]), wanted)
    assert not fm.cosines(updates, torch.zeros(2, dtype=torch.float64)).any()


# --- strange updates -----------------------------------------------------------------------------


def test_zeros_have_no_length_to_step_by():
    updates = [[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert started(3).step(a_round(updates)).theta.tolist() == pytest.approx([1 + 2 / 3, 1])


@pytest.mark.parametrize("options", [{}, {"literal": True}, {"original": True}])
def test_a_round_of_nobody_with_weight_keeps_the_sum(options):
    """Nobody moves; then, with gamma0 = 0, whose zeros left it no weight comes alone."""
    played, updates = started(3, 0.0, **options), random_updates(3)
    updates[2] = 0
    rounds = [(torch.zeros(3, 7), None), (updates, None), (random_updates(1), [2])]
    for t, (sent, ids) in enumerate(rounds, 1):
        theta = played.step(a_round(sent, clients=ids, t=t)).theta
        assert torch.isfinite(theta).all()
        assert float(played.scores.sum()) == pytest.approx(1)
        assert theta.tolist() == [1] * 7 or t > 1


def test_a_huge_update_counts_as_a_direction():
    """Only the direction of the longest of five updates matters, however long it is."""
    updates = random_updates(5).float()
    updates /= updates.norm(dim=1, keepdim=True)
    found = []
    for length in (2.0, 1e37):
        sent, played = updates.clone(), started(5)
        sent[3] *= length
        done = played.step(a_round(sent, dtype=torch.float32))
        found.append(torch.cat([done.theta, played.scores]))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


# --- the absent, the late, the silent ------------------------------------------------------------


class FailsOnce(UpdateAttack):
    """Honest, but for the call of that number."""

    def __init__(self, call: int):
        self.call, self.calls = call, 0

    def sends(self, known):
        self.calls += 1
        return known.update * torch.nan if self.calls == self.call else known.update


@pytest.mark.parametrize("options", [{"gamma0": 0.3}, {"original": True}, {"floor": None}])
def test_the_absent_the_late_and_the_silent_in_a_training(make_fed, options):
    """1 comes once, 3 late; 4 sends nothing usable in its first round, 2 in its second."""

    class Asking(fm.CGSV):
        def select(self, server, state, t):
            return torch.tensor([4, 1] if t == 2 else [0, 2, 4] if t < 4 else [0, 2, 3, 4])

    seen: list[Seen] = []

    def watch(round: Round, step: Step) -> None:
        ids, sizes = round.clients.tolist(), round.sizes.tolist()
        seen.append((ids, sizes, round.updates.clone().numpy(), round.missing.tolist()))

    fed = with_attacks(make_fed(SIZES), {2: FailsOnce(2), 4: FailsOnce(1)})
    with pytest.warns(UserWarning, match="round [13]: client [24] sent"):
        history = fm.train(fed, fm.mlp(6, 4, 3), Asking(**options), rounds=7, seed=4, watch=watch)
    assert float(history.scores[2, 2]) < float(history.scores[1, 2])
    used, after, _ = follow(seen, **options)
    for t, (weight, r) in enumerate(zip(used, after, strict=True)):
        torch.testing.assert_close(history.weights[t].double(), as_row(weight, 5))
        torch.testing.assert_close(history.scores[t], as_row(r, 5))


def test_rewards_keep_the_largest_entries():
    step = torch.tensor([0.1, -9.0, 3.0, -2.0, 8.0, 0.0, 5.0, 4.0, -7.0, 6.0])
    state = {"r": torch.tensor([0.5, 0.3, 0.2, 0.0, -0.1], dtype=torch.float64)}
    sent = fm.CGSV().rewards(state, step, beta=2.0)
    # tanh(1), tanh(.6), tanh(.4) = .7616, .5370, .3799: shares 1, .705, .499 of 10 entries
    assert torch.equal(sent[0], step)
    assert sent[1].tolist() == [0, -9, 3, 0, 8, 0, 5, 4, -7, 6]
    assert sent[2].tolist() == [0, -9, 0, 0, 8, 0, 0, 0, -7, 6]
    assert not sent[3:].any()
    assert not fm.CGSV().rewards(started(3).state, torch.ones(4)).any()  # before round 1
