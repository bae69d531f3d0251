"""Whoever brings code that works in place spoils nothing: it has copies, or is refused in words.

Strategies, messages, attacks and recorded rounds of a reader's own; what works in place must train
and score as its twin does that writes into nothing, to the last bit.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pytest
import torch
from conftest import random_federation
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.judge.registry import scoring
from fedlab_mini.worlds.attacks import UpdateAttack

pytestmark = pytest.mark.filterwarnings("ignore:net. the training starts anew")

SEEDS = range(3)
PARTS = ("theta", "clients", "sizes", "updates", "missing")


class Replays(UpdateAttack):
    """Sends the server's last step back, reckoned where it lies."""

    def __call__(self, updates: Tensor, previous: Any, generator: torch.Generator) -> Tensor:
        updates.zero_()
        updates += previous
        previous.fill_(7)
        return updates


def federation(seed: int, attack: UpdateAttack) -> fm.Federation:
    """Five clients, of whom two attack by what they know of the server's last step."""
    fed = random_federation((7, 4, 9, 6, 5), seed=seed)
    return replace(fed, attacks={1: attack, 3: attack})


def model(seed: int) -> fm.Model:
    """A perceptron, or a module that works in place on its input."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        own = nn.Sequential(nn.LeakyReLU(inplace=True), nn.Linear(6, 3))
        return fm.mlp(6, 4, 3) if seed % 2 else fm.Model(own)


def trained(strategy: fm.FedAvg, seed: int, attack: UpdateAttack | None = None) -> fm.History:
    """Three rounds; the caller's federation and module stay as they were."""
    fed, net = federation(seed, attack or fm.replay()), model(seed)
    before = copy.deepcopy((fed, net.module))
    history = fm.train(fed, net, strategy, rounds=3, local=fm.LocalSGD(batch=4), seed=seed)
    for part in ("x", "y", "sizes"):
        assert torch.equal(getattr(fed, part), getattr(before[0], part))
    for part in ("validation", "test"):
        assert all(map(torch.equal, getattr(fed, part), getattr(before[0], part)))
    assert repr(net.module.state_dict()) == repr(before[1].state_dict())
    assert [m.training for m in net.module.modules()] == [m.training for m in before[1].modules()]
    return history


def assert_same(one: fm.History, other: fm.History) -> None:
    """Equal bytes in all that a training records."""
    for part in ("theta", "scores", "weights", "selected", "accuracy", "loss", "labels"):
        assert torch.equal(getattr(one, part), getattr(other, part)), part


class Clean(fm.FedAvg):
    """Federated averaging of three clients a round that asks one of them for its labels."""

    def __init__(self):
        super().__init__(per_round=3)

    def message(self, server, state, t):
        return Turned(torch.tensor([t]))


@dataclass
class Turned:
    """The client's labels 0 and 1 change places."""

    clients: Tensor

    def answer(self, net, theta, x, original, y):
        return torch.tensor([1, 0, 2])[y]


class TurnedInPlace(Turned):
    def answer(self, net, theta, x, original, y):
        renamed = super().answer(net, theta, x, original, y)
        for part in (theta, x, original, y, self.clients):
            part.zero_()
        y += renamed
        return y


class Message(Clean):
    def message(self, server, state, t):
        return TurnedInPlace(torch.tensor([t]))


class Server(Clean):
    """Writes into all of the server that it was introduced to."""

    def init(self, server):
        for part in server.validation:
            part.zero_()
        for parameter in server.net.module.parameters():
            parameter.data.zero_()
        server.net.module.eval()
        return super().init(server)


class Chosen(Clean):
    """Turns the ids round after it has named them."""

    def __init__(self):
        super().__init__()
        vars(self)["kept"] = []

    def select(self, server, state, t):
        ids = super().select(server, state, t)
        self.kept.append(ids)
        return ids

    def step(self, server, state, round):
        self.kept[-1].copy_(4 - self.kept[-1])
        return super().step(server, state, round)


class Kept(Chosen):
    """Gives its models in one place, and overwrites the round before."""

    select = Clean.select

    def step(self, server, state, round):
        done = Clean.step(self, server, state, round)
        if self.kept:
            last, model = self.kept
            for part in PARTS:
                getattr(last, part).zero_()
            done = done._replace(theta=model.copy_(done.theta))
        self.kept[:] = round, done.theta
        return done


class WithNumPy(Clean):
    """Averages where the old model lies."""

    def step(self, server, state, round):
        done = super().step(server, state, round)
        theta = round.theta.numpy()
        theta[:] = done.theta.numpy()
        return done._replace(theta=torch.from_numpy(theta))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Message, Server, Chosen, Kept, WithNumPy])
def test_a_strategy_in_place_trains_as_its_twin_does(kind, seed):
    assert_same(trained(kind(), seed), trained(Clean(), seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_attack_in_place_sends_what_its_twin_sends(seed):
    assert_same(trained(Clean(), seed, Replays()), trained(Clean(), seed))


def writes(part: str, how: str) -> fm.FedAvg:
    """A strategy that writes into a part of the round, in a method that its base goes on from."""

    class Weighs(fm.FedAvg):
        def weights(self, server, state, round):
            weights = super().weights(server, state, round)
            getattr(round, part).zero_()
            return weights

    class Scores(fm.RoundScore):
        def score(self, server, state, round):
            score = self.table(server, round)(torch.eye(len(round.clients), dtype=torch.bool))
            getattr(round, part)[:] = 0
            return score

    class Averages(fm.FedAvg):
        def step(self, server, state, round):
            done = super().step(server, state, round)
            part_of_it = getattr(round, part)
            part_of_it -= part_of_it
            return done

    return {"weights": Weighs, "score": Scores, "step": Averages}[how]()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["weights", "score", "step"])
def test_who_writes_into_a_round_is_told(part, how):
    with pytest.raises(
        ValueError, match=rf"round 1: \w+\.step( or watch)? writes into round\.{part}.*copy"
    ):
        trained(writes(part, how), 1)


def test_gradients_may_be_switched_off_for_good():
    with torch.inference_mode():
        history = fm.train(federation(1, fm.replay()), model(1), fm.CGSV(), rounds=2)
    assert torch.isfinite(history.theta).all()


@pytest.mark.parametrize("key", ["updates", "models"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore")
def test_recorded_rounds_may_come_in_one_buffer(seed, key):
    """A generator writes every round where the last one lay, samples and model included."""
    net = model(seed)
    chance = torch.Generator().manual_seed(seed)
    rounds = [
        {
            "theta": torch.randn(net.P, generator=chance),
            key: torch.randn(4, net.P, generator=chance),
            "clients": torch.randperm(5, generator=chance)[:4],
            "sizes": torch.randint(1, 9, (4,), generator=chance),
        }
        for _ in range(3)
    ]
    x, y = torch.randn(9, 6, generator=chance), torch.arange(9) % 3
    start = torch.zeros(net.P)
    everything = {"net": net, "methods": scoring(), "clients": range(5)}
    wanted = fm.score(rounds, validation=(x.clone(), y.clone()), theta=start.clone(), **everything)

    def stream():
        buffer = {name: torch.empty_like(part) for name, part in rounds[0].items()}
        for this in rounds:
            for name, part in this.items():
                buffer[name].copy_(part)
            yield buffer
            for part in (x, y, start, *buffer.values()):
                part.zero_()

    got = fm.score(stream(), validation=(x, y), theta=start, **everything)
    pd.testing.assert_frame_equal(got, wanted)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_refusal_leaves_a_module_in_its_mode(stacked):
    net = fm.Model(nn.Sequential(nn.Linear(6, 3), nn.Identity() if stacked else nn.Dropout(0.5)))
    net.module[1].eval()
    theta, x = net.init(0)[None], torch.ones(2, 6)
    with pytest.raises(ValueError, match=r"^y: ") as told:
        net.evaluate(theta, x, torch.tensor([0, 9]))
    assert [part.training for part in net.module.modules()] == [True, True, False], told
