"""Attacks that know more than their own update, and federations with attackers in them."""

from __future__ import annotations

import pytest
import torch
from conftest import random_federation
from helpers import numbers
from torch import Tensor
from torch.nn.functional import cosine_similarity

import fedlab_mini as fm
from fedlab_mini.worlds.attacks import Known, UpdateAttack

SIZES = (7, 4, 9, 6, 5)
ROWS = numbers(5, 12, seed=3)


def known(client: int = 2, t: int = 3, clients=range(5), state=None, last=None) -> Known:
    """What client 2 of five knows; without a last step, one that is drawn."""
    ids = list(clients)
    step = numbers(12, seed=9) if last is None else last
    own = numbers(6, 3, seed=6), torch.zeros(6, dtype=torch.long)
    generator = torch.Generator().manual_seed(t)
    state = {} if state is None else state
    theta = numbers(12, seed=8)
    return Known(t, client, theta, step, torch.tensor(ids), ROWS[ids], *own, state, generator)


def test_a_row_at_the_median_length_keeps_its_direction():
    sent = fm.attacks.AtMedianLength(fm.attacks.Scale(-7.0)).sends(known())
    assert torch.isclose(sent.norm(), ROWS[[0, 1, 3, 4]].norm(dim=1).median())
    assert torch.isclose(cosine_similarity(sent, -ROWS[2], 0), torch.tensor(1.0).double())
    nothing = fm.attacks.AtMedianLength(fm.attacks.FreeRide(0.0)).sends(known())
    assert not nothing.any()


def test_a_disguise_has_the_others_median_length_and_cosine():
    this = known()
    sent, others = fm.attacks.Disguise().sends(this), ROWS[[0, 1, 3, 4]]
    assert torch.isclose(sent.norm(), others.norm(dim=1).median())
    usual = cosine_similarity(others, this.last_step[None]).median()
    assert torch.isclose(cosine_similarity(sent, this.last_step, 0), usual)
    first = fm.attacks.Disguise().sends(known(last=torch.zeros(12).double()))
    assert torch.isclose(first.norm(), others.norm(dim=1).median())


def test_a_copy_is_the_victims_row_or_zeros_without_the_victim():
    assert torch.equal(fm.attacks.CopyOf(4).sends(known()), ROWS[4])
    assert not fm.attacks.CopyOf(4).sends(known(clients=range(4))).any()


def test_a_push_keeps_its_length_and_lowers_the_victims_cosine():
    sent = [fm.attacks.Against(0, strength).sends(known()) for strength in (0.0, 0.5, 2.0)]
    assert torch.allclose(sent[0], ROWS[2])
    for row in sent:
        assert torch.isclose(row.norm(), ROWS[2].norm())
    cosines = [float(cosine_similarity(ROWS[0], row, 0)) for row in sent]
    assert cosines[0] > cosines[1] > cosines[2]
    assert torch.allclose(fm.attacks.Against(0).sends(known(clients=[1, 2])), ROWS[2])


def test_withheld_work_comes_from_its_round_on():
    attack = fm.attacks.Withhold(3)
    assert not attack.sends(known(t=2)).any()
    assert torch.equal(attack.sends(known(t=3)), ROWS[2])


def test_attacks_of_ones_own_update_or_the_last_step():
    step = numbers(12, seed=9)
    for attack, wanted in (
        (fm.attacks.SignFlip(), -ROWS[2]),
        (fm.attacks.SignFlip(2.0), -2 * ROWS[2]),
        (fm.attacks.Scale(10.0), 10 * ROWS[2]),
        (fm.attacks.Scale(0.0), 0 * step),
        (fm.attacks.Replay(), step),
        (fm.attacks.NoisyReplay(0.0), step),
        (fm.attacks.FreeRide(0.0), 0 * step),
    ):
        assert attack.sends(known()).equal(wanted)
        assert not attack.looks_around


def test_noise_is_as_large_as_it_says_whatever_the_update():
    step = numbers(4000, seed=1)

    def sent(attack: UpdateAttack, row: Tensor) -> Tensor:
        chance = torch.Generator().manual_seed(0)
        return attack.sends(
            Known(1, 0, row, step, torch.tensor([0]), row[None], *ROWS[:2], {}, chance)
        )

    noise = sent(fm.attacks.NoisyReplay(0.5), step) - step
    assert torch.isclose(noise.norm() / step.norm(), torch.tensor(0.5).double(), rtol=0.05)
    idle = fm.attacks.FreeRide(0.01)
    assert sent(idle, step).std().item() == pytest.approx(0.01, rel=0.05)
    assert sent(idle, step).mean().abs() < 6e-4
    assert sent(idle, step).equal(sent(idle, 9 * step))


def steps_of_descent(count: int, P: int = 6) -> tuple[list[Tensor], Tensor]:
    """Steps of gradient descent on a convex quadratic, and the one that comes next."""
    root = numbers(P, P, seed=2)
    hessian = root @ root.T / P + 0.1 * torch.eye(P)
    theta, steps = numbers(P, seed=4), []
    for _ in range(count + 1):
        steps.append(-0.1 * hessian @ theta)
        theta = theta + steps[-1]
    return steps[:-1], steps[-1]


@pytest.mark.parametrize("memory", [2, 5])
def test_a_prediction_is_far_nearer_than_a_replay_where_descent_is_smooth(memory):
    steps, following = steps_of_descent(8)
    attack, state = fm.attacks.PredictedStep(memory), {}
    for t, step in enumerate(steps, 2):
        sent = attack.sends(known(t=t, state=state, last=step))
    assert (sent - following).norm() < 0.1 * (steps[-1] - following).norm()
    assert len(state["steps"]) == memory + 1


def test_a_prediction_solves_the_secant_equation_of_its_last_pair():
    """B (theta_t - theta_(t-1)) is the last change of the slope, as for every secant method."""
    from fedlab_mini.worlds.attacks import _times_hessian

    steps, _ = steps_of_descent(5)
    models, slopes = torch.stack(steps[:-1]), -torch.stack(steps).diff(dim=0)
    torch.testing.assert_close(_times_hessian(models, slopes, models[-1]), slopes[-1])


def test_the_first_prediction_is_a_replay_and_none_is_longer_than_two_steps():
    attack, state = fm.attacks.PredictedStep(), {}
    assert not attack.sends(known(t=1, state=state, last=torch.zeros(12).double())).any()
    for t in range(2, 8):
        last = numbers(12, seed=t)  # no descent at all
        sent = attack.sends(known(t=t, state=state, last=last))
        assert sent.norm() <= 2.0000001 * last.norm()
        assert t > 2 or torch.equal(sent, last)


# --- federations ---------------------------------------------------------------------------------


def test_clients_attack_and_their_data_stay():
    fed = random_federation(SIZES)
    attacked = fed.attacked({1: fm.attacks.Replay(), 3: fm.attacks.Scale(2.0)})
    assert attacked.corrupted == {1, 3}
    assert attacked.truth[3] == "Scale(factor=2.0)"
    assert torch.equal(attacked.x, fed.x)
    assert set(attacked.attacked({1: fm.attacks.SignFlip()}).attacks) == {1, 3}
    assert not fed.attacks
    with pytest.raises(ValueError, match="attacks: expected"):
        fed.attacked({5: fm.attacks.Replay()})


def test_several_names_hold_parts_or_copies_of_one_clients_samples():
    fed = fm.six_clinics(1)
    shared, copied = fed.under_names(0, 3), fed.under_names(0, 2, "copied")
    x, y = fed.client(0)
    parts = [shared.client(k) for k in (0, 6, 7)]
    assert [len(own) for _, own in parts] == [100, 100, 100]
    assert torch.equal(torch.cat([own for own, _ in parts]), x)
    assert torch.equal(torch.cat([own for _, own in parts]), y)
    assert all(map(torch.equal, copied.client(6), (x, y)))
    assert shared.names[6:] == ("Alder 2", "Alder 3")
    for k in range(1, 6):
        assert all(map(torch.equal, shared.client(k), fed.client(k)))
    idle = fed.under_names(5)
    assert idle.attacks[5] == idle.attacks[6] == fed.attacks[5]
    assert fed.under_names(0, 1).names == fed.names
    with pytest.raises(ValueError, match="count: expected"):
        fed.under_names(1, 61)
    with pytest.raises(ValueError, match="work: expected"):
        fed.under_names(1, 2, "half")
