"""What an attack may see and remember, whom a step may name, by which rule a simulation adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from conftest import random_federation
from helpers import with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Step
from fedlab_mini.worlds.attacks import Known, UpdateAttack

SIZES = (7, 4, 9, 6, 5)
LOCAL = fm.LocalSGD(epochs=2, batch=4)


@dataclass(frozen=True)
class Copies(UpdateAttack):
    """Sends what another client trains."""

    victim: int

    def sends(self, known: Known) -> Tensor:
        return known.updates[known.clients == self.victim][0]


@dataclass(frozen=True)
class Remembers(UpdateAttack):
    """Sends the mean of all models that it has received, minus the present one."""

    def sends(self, known: Known) -> Tensor:
        so_far = known.state.get("models", known.theta.new_empty(0, len(known.theta)))
        known.state["models"] = torch.cat([so_far, known.theta[None]])
        return known.state["models"].mean(0) - known.theta


class Spoils(UpdateAttack):
    """Writes into all that it is shown, and sends its own honest update."""

    def sends(self, known: Known) -> Tensor:
        honest = known.update
        for part in (known.updates, known.theta, known.last_step, known.clients, known.x, known.y):
            part.zero_()
        return honest


def trained(attacks, **options) -> fm.History:
    fed = with_attacks(random_federation(SIZES), attacks)
    return fm.train(
        fed, fm.mlp(6, 4, 3), fm.FedAvg(), **{"rounds": 4, "local": LOCAL, "seed": 2} | options
    )


def test_an_attack_sees_honest_rows_of_all_also_of_other_attackers():
    seen: list[Tensor] = []
    attacks = {1: fm.attacks.SignFlip(2.0), 3: Copies(1)}
    trained(attacks, rounds=1, watch=lambda round, step: seen.append(round.updates.clone()))
    honest = trained({}, rounds=1, watch=lambda round, step: seen.append(round.updates.clone()))
    sent, clean = seen
    assert torch.equal(sent[1], -2 * clean[1])
    assert torch.equal(sent[3], clean[1])
    assert torch.equal(sent[[0, 2, 4]], clean[[0, 2, 4]])
    assert honest.rounds == 1


def test_an_attack_has_its_own_data_and_cannot_spoil_what_it_is_shown():
    told = []

    class Looks(UpdateAttack):
        def sends(self, known: Known) -> Tensor:
            told.append((known.x.clone(), known.y.clone(), known.t, known.client))
            return known.update

    honest = trained({})
    assert torch.equal(trained({0: Spoils(), 2: Looks()}).theta, honest.theta)
    fed = random_federation(SIZES)
    assert [t for *_, t, _ in told] == [1, 2, 3, 4]
    for x, y, _, client in told:
        assert client == 2
        assert all(map(torch.equal, (x, y), fed.client(2)))


def test_what_an_attack_remembers_is_in_the_history_and_goes_on(tmp_path):
    """The four models of four rounds; half-way saved, loaded and continued: the same bytes."""
    whole = trained({2: Remembers()})
    assert whole.memory["attack.2.models"].shape == (4, len(whole.theta))
    half = trained({2: Remembers()}, rounds=2)
    half.save(tmp_path / "h.npz")
    for start in (half, fm.History.load(tmp_path / "h.npz")):
        more = trained({2: Remembers()}, start=start)
        assert torch.equal(more.theta, whole.theta)
        assert torch.equal(more.memory["attack.2.models"], whole.memory["attack.2.models"])


@pytest.mark.parametrize("attack", [Copies(0), Remembers()])
def test_a_simulation_shows_an_attack_its_own_run(attack):
    fed, net = with_attacks(random_federation(SIZES), {2: attack}), fm.mlp(6, 4, 3)
    participation = torch.ones(3, 4, 5)
    participation[1, :, 4] = 0  # the second of three runs lacks a client
    given = {"local": LOCAL, "seed": 2, "metric": "loss", "on": "test"}
    found = fm.simulate(fed, net, participation, **given)

    class WithoutTheLast(fm.FedAvg):
        def select(self, server, state, t):
            return torch.arange(4)

    for run, strategy in enumerate((fm.FedAvg(), WithoutTheLast(), fm.FedAvg())):
        alone = fm.train(fed, net, strategy, rounds=4, local=LOCAL, seed=2).loss[1:]
        torch.testing.assert_close(found[run], alone, rtol=1e-10, atol=1e-12)


def test_a_wrong_answer_names_the_attacker():
    class Short(UpdateAttack):
        def sends(self, known: Known) -> Tensor:
            return known.update[:3]

    with pytest.raises(ValueError, match=r"^attack of client 4: expected an array \[43\], got"):
        trained({4: Short()})


def test_a_step_names_clients_and_the_history_keeps_them(tmp_path):
    class Accuses(fm.FedAvg):
        def step(self, server, state, round):
            return super().step(server, state, round)._replace(named=(round.t % 5, 4))

    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, Accuses(), rounds=3, local=LOCAL)
    wanted = torch.zeros(3, 5, dtype=torch.bool)
    wanted[range(3), [1, 2, 3]] = wanted[:, 4] = True
    assert torch.equal(history.named, wanted)
    plain = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LOCAL)
    assert torch.equal(history.theta, plain.theta)
    assert not plain.named.any()
    history.save(tmp_path / "h.npz")
    assert torch.equal(fm.History.load(tmp_path / "h.npz").named, wanted)


@pytest.mark.parametrize("named", [(7,), (1, 1), (-1,)])
def test_only_clients_can_be_named(named):
    class Accuses(fm.FedAvg):
        def step(self, server, state, round) -> Step:
            return super().step(server, state, round)._replace(named=named)

    with pytest.raises(ValueError, match=r"^round 1: Accuses.step: named: expected"):
        fm.train(random_federation(SIZES), fm.mlp(6, 4, 3), Accuses(), rounds=1)


def median(updates: Tensor, sizes: Tensor) -> Tensor:
    """The coordinate-wise median, the lower of two middle ones."""
    return updates.median(0).values


def test_a_rule_replaces_the_weighted_mean_in_every_run_of_its_own():
    fed, net = random_federation(SIZES), fm.mlp(6, 4, 3)
    participation = torch.ones(2, 3, 5)
    participation[1, :, [0, 3]] = 0
    given = {"local": LOCAL, "seed": 1, "metric": "loss"}
    found = fm.simulate(fed, net, participation, rule=median, **given)
    for run, ids in enumerate(([0, 1, 2, 3, 4], [1, 2, 4])):
        theta, losses = net.init(1, dtype=fed.x.dtype), []
        for t in (1, 2, 3):
            updates = fm.local_updates(fed, net, theta, ids, local=LOCAL, seed=1, t=t)
            theta = theta + median(updates, fed.sizes[ids])
            losses.append(net.evaluate(theta[None], *fed.validation, "loss")[0])
        torch.testing.assert_close(found[run], torch.stack(losses), rtol=1e-10, atol=1e-12)

    def mean(updates: Tensor, sizes: Tensor) -> Tensor:
        return (sizes / sizes.sum()).to(updates) @ updates

    usual = fm.simulate(fed, net, participation, **given)
    same = fm.simulate(fed, net, participation, rule=mean, **given)
    torch.testing.assert_close(same, usual, rtol=1e-10, atol=1e-12)


def test_a_rule_gets_usable_updates_only_and_answers_with_a_step():
    fed = with_attacks(random_federation(SIZES), {1: fm.attacks.Scale(1e300)})
    told = []

    def counts(updates: Tensor, sizes: Tensor) -> Tensor:
        told.append((len(updates), sizes.tolist()))
        return updates.mean(0)

    given = fed, fm.mlp(6, 4, 3), torch.ones(1, 1, 5)
    with pytest.warns(UserWarning, match="client 1 sent updates that are not finite"):
        fm.simulate(*given, rule=counts)
    assert told == [(4, [7, 9, 6, 5])]
    with pytest.raises(ValueError, match=r"^rule: expected an array \[43\], got"):
        fm.simulate(replace(fed, attacks={}), *given[1:], rule=lambda updates, sizes: updates)
    with pytest.raises(TypeError, match=r"^rule: expected a function of \(updates, sizes\), got"):
        fm.simulate(*given, rule="median")
