"""Detectors name, strategies decide: whom each detector names, and what ``Defended`` does then."""

from __future__ import annotations

import pytest
import torch
from conftest import random_federation
from helpers import a_round, numbers
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.defences import (
    Defended,
    Detector,
    Duplicates,
    FoolsGold,
    LastStep,
    Median,
    Norms,
    ServersGradient,
)

LOCAL = fm.LocalSGD(epochs=2, batch=4)
SIZES = (7, 4, 9, 6, 5)


def server(clients: int = 5) -> Server:
    samples = numbers(12, 3, seed=5), torch.arange(12) % 2
    return Server(clients, 2, fm.mlp(3, 4, 2), samples, 0)


def named(detector: Detector, *rounds: Round) -> list[list[bool]]:
    state = detector.init(server())
    return [detector.suspects(server(), state, round).tolist() for round in rounds]


def rows(*changes: tuple[int, Tensor], t: int = 1, theta: Tensor | None = None) -> Round:
    """A round of five clients in which some rows are replaced."""
    updates = numbers(5, 26, seed=t)
    for k, row in changes:
        updates[k] = row
    theta = numbers(26, seed=7) if theta is None else theta
    return a_round(updates, list(SIZES), list(range(5)), t=t, theta=theta)


def test_a_replay_of_the_servers_last_step_is_named_from_round_2_on():
    step = numbers(26, seed=11)
    first = rows((3, step))
    second = rows((3, 2 * step), t=2, theta=first.theta + step)
    assert named(LastStep(), first, second) == [[False] * 5, [k == 3 for k in range(5)]]


def test_both_of_a_pair_are_named_whatever_their_lengths():
    copied = rows((4, 3 * numbers(5, 26, seed=1)[1]))
    assert named(Duplicates(), copied) == [[False, True, False, False, True]]
    assert named(Duplicates(), rows()) == [[False] * 5]


def test_lengths_far_from_the_median_are_named():
    usual = numbers(5, 26, seed=1)
    far = rows((0, 4 * usual[0]), (1, 0 * usual[1]), (2, usual[2] / 9))
    assert named(Norms(), far) == [[True, True, True, False, False]]
    assert named(Norms(), rows()) == [[False] * 5]
    silent = rows(*((k, 0 * usual[k]) for k in range(5)))
    assert named(Norms(), silent) == [[False] * 5]


def test_whoever_points_up_the_servers_loss_is_named():
    net, (x, y) = server().net, server().validation
    theta = numbers(26, seed=7).requires_grad_()
    net.objective.loss(net.forward(theta, x), y).backward()
    both = rows((1, theta.grad), (2, -theta.grad), theta=theta.detach())
    found = named(ServersGradient(), both)[0]
    assert found[1]
    assert not found[2]


def test_fools_gold_names_several_names_of_one_attacker():
    """Three names push in one direction in every round; two honest clients do not."""
    push = 3 * numbers(26, seed=2)
    rounds = []
    for t in (1, 2, 3):
        own = [(k, push + 0.3 * numbers(26, seed=10 * t + k)) for k in (2, 3, 4)]
        rounds.append(rows(*own, t=t))
    assert named(FoolsGold(), *rounds)[-1] == [False, False, True, True, True]


class Nobody(Detector):
    """Names nobody, and counts its rounds."""

    def init(self, server):
        return {"looked": torch.tensor(0)}

    def suspects(self, server, state, round):
        state["looked"] += 1
        return torch.zeros(len(round.clients), dtype=torch.bool)


STRATEGIES = [
    fm.FedAvg(per_round=3), fm.CGSV(), fm.FRCCE(), fm.FLDVE(), fm.SFedAvg(3), Median(),
    fm.LabelStandardisation(m=None, window=2, spread=1, margin=0.5), fm.methods.RoundValue(),
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore")
def test_a_detector_that_names_nobody_changes_no_byte(strategy, tmp_path):
    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    alone = fm.train(fed, net, strategy, rounds=4, local=LOCAL)
    behind = Defended(strategy, Nobody())
    whole = fm.train(fed, net, behind, rounds=4, local=LOCAL)
    fm.train(fed, net, behind, rounds=2, local=LOCAL).save(tmp_path / "h.npz")
    half = fm.History.load(tmp_path / "h.npz")
    for found in (whole, fm.train(fed, net, behind, rounds=4, local=LOCAL, start=half)):
        assert torch.equal(found.theta, alone.theta)
        assert torch.equal(found.scores, alone.scores)
        assert torch.equal(found.weights, alone.weights)
        assert found.cost.model_evaluations == alone.cost.model_evaluations
        assert int(found.state["detector.looked"]) == 4


class Always(Detector):
    """Names the same clients in every round."""

    def __init__(self, *ids: int):
        self.ids = torch.tensor(ids)

    def suspects(self, server, state, round):
        return torch.isin(round.clients, self.ids)


def test_named_clients_have_no_part_in_the_model():
    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    found = fm.train(fed, net, Defended(fm.CGSV(), Always(1, 3)), rounds=3, local=LOCAL)

    class Others(fm.CGSV):
        def select(self, server, state, t):
            return torch.tensor([0, 2, 4])

    others = fm.train(fed, net, Others(), rounds=3, local=LOCAL)
    assert torch.equal(found.theta, others.theta)
    assert torch.equal(found.scores[-1][[0, 2, 4]], others.scores[-1][[0, 2, 4]])
    assert not found.scores[-1][[1, 3]].any()
    assert not found.weights[:, [1, 3]].any()
    assert found.named[:, [1, 3]].all()
    assert not found.named[:, [0, 2, 4]].any()
    # All five have trained, and the three that stay are the cheaper ones to judge.
    assert found.cost.client_epochs > others.cost.client_epochs


def test_a_detector_may_only_report():
    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    told = fm.train(fed, net, Defended(fm.FedAvg(), Always(1), leave_out=False), rounds=2)
    plain = fm.train(fed, net, fm.FedAvg(), rounds=2)
    assert torch.equal(told.theta, plain.theta)
    assert told.named[:, 1].all()


def test_where_all_are_named_the_model_stays():
    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    found = fm.train(fed, net, Defended(fm.FedAvg(), Always(*range(5))), rounds=2, local=LOCAL)
    assert torch.equal(found.theta, net.init(0, dtype=fed.x.dtype))
    assert not found.scores.any()


def test_the_median_ignores_one_row_however_long():
    step = Median().step
    own = server(5)
    state = Median().init(own)
    for updates in (numbers(5, 26, seed=1), numbers(4, 26, seed=1)):
        m = len(updates)
        this = a_round(updates, list(SIZES)[:m], list(range(m)), t=1, theta=numbers(26, seed=7))
        found = step(own, state, this)
        wanted = torch.quantile(updates, 0.5, dim=0)
        torch.testing.assert_close(found.theta - this.theta, wanted)
        assert torch.isclose(found.weights.sum(), torch.tensor(1.0).double())
    far = rows((2, 1e6 * numbers(26, seed=3)))
    found = step(own, state, far)
    assert (found.theta - far.theta).abs().max() < 5


def test_a_strangers_strategy_behind_a_detector_is_checked():
    class Wrong(fm.FedAvg):
        def step(self, server, state, round):
            return super().step(server, state, round)._replace(theta=round.theta[:3])

    with pytest.raises(ValueError, match=r"^round 1: Defended.step: theta: expected"):
        fm.train(random_federation(SIZES), fm.mlp(6, 4, 3), Defended(Wrong(), LastStep()), rounds=1)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: LastStep(1.5), "limit: expected"),
        (lambda: Norms(0.5), "factor: expected"),
        (lambda: FoolsGold(-0.1), "limit: expected"),
    ],
)
def test_settings_of_detectors_are_parsed(make, told):
    with pytest.raises(ValueError, match=told):
        make()
