"""Contract: a strategy that breaks it gets an error that names it and says what to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fedlab_mini as fm


class Remembers(fm.CGSV):
    def __init__(self, pace):
        super().__init__()
        self.pace = pace


class Counts(fm.FedAvg):
    def step(self, server, state, round):
        self.seen = round.t
        return super().step(server, state, round)


class Silent(fm.FedAvg):
    def step(self, server, state, round):
        return round.theta + round.updates.mean(0)


class Nothing(fm.FedAvg):
    def step(self, server, state, round):
        super().step(server, state, round)


class Uncounted(fm.FedAvg):
    def step(self, server, state, round):
        weights = self.weights(server, state, round)
        return fm.Step(round.theta + weights @ round.updates, weights, state)


class NoTensors(fm.FedAvg):
    def init(self, server):
        return super().init(server) | {"mood": 0.5}


class NoState(fm.FedAvg):
    def init(self, server):
        return torch.zeros(server.clients)


class LaterState(fm.FedAvg):
    """Its memory is in no state that a training could begin with."""

    def step(self, server, state, round):
        done = super().step(server, state, round)
        return done._replace(state=done.state | {"mood": torch.ones(3)})


def returning(**changes: Callable) -> type[fm.FedAvg]:
    """Federated averaging of which some of what a step returns is changed."""

    class Mine(fm.FedAvg):
        def step(self, server, state, round):
            done = super().step(server, state, round)
            return done._replace(**{n: change(getattr(done, n)) for n, change in changes.items()})

    return Mine


def run(make_fed, strategy):
    net, local = fm.mlp(6, 5, 3), fm.LocalSGD(batch=8)
    return fm.train(make_fed((9, 8, 20)), net, strategy, rounds=2, local=local)


BROKEN = {
    r'Remembers.pace: .* give init an entry "pace"': lambda: Remembers(3),
    r'Counts.seen: .* write to state\["seen"\] in step': Counts,
    r"round 1: Silent.step: expected fm.Step\(theta, weights, state\)": Silent,
    r"round 1: Nothing.step: expected fm.Step\(theta, weights, state\), got None": Nothing,
    r"round 1: Uncounted.step: counts no round .* write self.count\(": Uncounted,
    r'NoTensors.init: .* state\["mood"\], got 0.5; torch.tensor\(0.5\) is one': NoTensors,
    r"NoState.init: expected a dict of tensors": NoState,
    r"round 1: LaterState.step: expected the state that init begins with \(rounds, total\)": (
        LaterState
    ),
    r'round 1: Mine.step: .* state\["total"\], got 3': returning(
        state=lambda state: state | {"total": 3}
    ),
    r"round 1: Mine.step: theta: .* NaN": returning(theta=lambda theta: theta * torch.nan),
    r"round 1: Mine.step: theta: expected": returning(theta=lambda theta: theta[:-1]),
    r"round 1: Mine.step: evaluated: ": returning(evaluated=lambda count: -1),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_strategy_is_told_what_to_write(make_fed, message):
    with pytest.raises((AttributeError, TypeError, ValueError), match=message):
        run(make_fed, BROKEN[message]())


class Rude(fm.FedAvg):
    """Writes into what others read, by one of its methods."""

    def step(self, server, state, round):
        done = super().step(server, state, round)
        round.updates.mul_(2)
        return done


class RudeSelection(fm.FedAvg):
    def select(self, server, state, t):
        state["total"] += 1
        return super().select(server, state, t)


class RudeScores(fm.FedAvg):
    def scores(self, server, state):
        return state["total"].div_(state["rounds"])


class RudeMessage(fm.FedAvg):
    def message(self, server, state, t):
        state["rounds"] = state["rounds"] + 1


RUDE = {
    r"round 1: Rude.step or watch writes into round.updates, which others read": Rude,
    r'state\["total"\]: only what step and heard return is remembered': RudeSelection,
    r'RudeScores: select, message or scores writes into state\["total"\]': RudeScores,
    r'state\["rounds"\]: only what step and heard return is remembered': RudeMessage,
}


@pytest.mark.parametrize("message", RUDE)
def test_who_writes_into_what_others_read_is_refused_by_name(make_fed, message):
    with pytest.raises(ValueError, match=message):
        run(make_fed, RUDE[message]())


class Mood(fm.FedAvg):
    """What it remembers it writes into the state it is given."""

    def init(self, server):
        return super().init(server) | {"mood": torch.zeros(server.clients)}

    def step(self, server, state, round):
        state["mood"][round.clients] += round.t
        return super().step(server, state, round)


def test_what_is_written_into_the_state_is_remembered(make_fed):
    strategy = Mood()
    first, again = run(make_fed, strategy), run(make_fed, strategy)
    assert first.state["mood"].tolist() == again.state["mood"].tolist() == [3, 3, 3]


def test_no_graph_of_autograd_is_remembered(make_fed):
    """It would hold all rounds before."""
    grown = returning(state=lambda state: state | {"total": state["total"].requires_grad_() * 2})
    assert not run(make_fed, grown()).state["total"].requires_grad


@pytest.mark.parametrize("kind", [fm.FedAvg, fm.CGSV, fm.FRCCE, fm.SFedAvg, fm.RoundScore])
def test_no_strategy_lets_anything_be_set(kind):
    strategy = kind()
    for name in ("per_round", "r"):
        with pytest.raises(AttributeError, match=name):
            setattr(strategy, name, 3)
