"""Contract: a strategy that breaks it gets an error that names it and says what to write."""

from __future__ import annotations

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Step


class Remembers(fm.CGSV):
    def __init__(self, pace):
        super().__init__()
        self.pace = pace


class Counts(fm.FedAvg):
    def step(self, server, state, round):
        self.seen = round.t
        return super().step(server, state, round)


class Uncounted(fm.FedAvg):
    def step(self, server, state, round):
        weights = self.weights(server, state, round)
        return Step(round.theta + weights @ round.updates, weights, state)


def changed(change) -> fm.FedAvg:
    """Federated averaging of which what a step returns is changed."""

    class Mine(fm.FedAvg):
        def step(self, server, state, round):
            return change(super().step(server, state, round))

    return Mine()


def stating(**parts) -> fm.FedAvg:
    """Federated averaging whose step returns a state with other entries."""
    return changed(lambda done: done._replace(state=done.state | parts))


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


def run(make_fed, strategy):
    net, local = fm.mlp(6, 5, 3), fm.LocalSGD(batch=8)
    return fm.train(make_fed((9, 8, 20)), net, strategy, rounds=2, local=local)


BROKEN = {
    r'Remembers.pace: .* add to init.s state an entry "pace"': lambda: Remembers(3),
    r'Counts.seen: .* write to state\["seen"\] in step': Counts,
    r"round 1: Mine.step: expected Step\(.*\), got None": lambda: changed(lambda done: None),
    r"round 1: Uncounted.step: counts no round .* write self.count\(": Uncounted,
    r"round 1: Mine.step: expected the state that init begins with, \['rounds', 'total'\]": (
        lambda: stating(mood=torch.ones(3))
    ),
    r'round 1: Mine.step: .* state\["total"\], got 3': lambda: stating(total=3),
    r"round 1: Rude.step writes into round.updates, which others read": Rude,
    r'state\["total"\]: can be changed only in the state that step or heard returns': RudeSelection,
    r'RudeScores: select, message or scores writes into state\["total"\]': RudeScores,
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_strategy_is_told_what_to_write(make_fed, message):
    with pytest.raises((AttributeError, TypeError, ValueError), match=message):
        run(make_fed, BROKEN[message]())


class Mood(fm.FedAvg):
    """What it remembers it writes into the state it is given."""

    def init(self, server):
        return super().init(server) | {"mood": torch.zeros(server.clients)}

    def step(self, server, state, round):
        state["mood"][round.clients] += round.t
        return super().step(server, state, round)


def test_what_is_written_into_the_state_is_remembered_once_and_without_a_graph(make_fed):
    strategy = Mood()
    for _ in range(2):
        assert run(make_fed, strategy).state["mood"].tolist() == [3, 3, 3]
    grown = changed(
        lambda done: done._replace(
            state=done.state | {"total": done.state["total"].requires_grad_() * 2}
        )
    )
    assert not run(make_fed, grown).state["total"].requires_grad
