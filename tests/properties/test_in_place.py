"""Whoever brings code that works in place spoils nothing: it has copies, or is refused in words.

Strategies, messages, attacks and recorded rounds of a reader's own; what works in place must train
and score as its twin does that writes into nothing, to the last bit.
"""

from __future__ import annotations

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
    before = repr((vars(fed), net.module.state_dict()))
    history = fm.train(fed, net, strategy, rounds=3, local=fm.LocalSGD(batch=4), seed=seed)
    assert repr((vars(fed), net.module.state_dict())) == before
    assert all(part.training for part in net.module.modules())
    return history


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


class Kept(Clean):
    """Turns ids round after it has named them, and gives its models in one place."""

    def __init__(self):
        super().__init__()
        vars(self)["kept"] = {}

    def select(self, server, state, t):
        self.kept["ids"] = ids = super().select(server, state, t)
        return ids

    def step(self, server, state, round):
        self.kept["ids"].copy_(4 - self.kept["ids"])
        done = super().step(server, state, round)
        if "round" in self.kept:  # the round before
            for part in PARTS:
                getattr(self.kept["round"], part).zero_()
            done = done._replace(theta=self.kept["theta"].copy_(done.theta))
        self.kept.update(round=round, theta=done.theta)
        return done


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("kind", "attack"), [(Message, None), (Server, None), (Kept, None), (Clean, Replays())]
)
def test_who_works_in_place_trains_as_its_twin_does(kind, attack, seed):
    one, other = trained(kind(), seed, attack), trained(Clean(), seed)
    for part in ("theta", "scores", "weights", "selected", "accuracy", "loss", "labels"):
        assert torch.equal(getattr(one, part), getattr(other, part)), part


class Averages(fm.FedAvg):
    def step(self, server, state, round):
        done = super().step(server, state, round)
        part = getattr(round, self.part)
        part -= part
        return done


@pytest.mark.parametrize("part", PARTS)
def test_who_writes_into_a_round_is_told(part):
    strategy = Averages()
    vars(strategy)["part"] = part
    told = rf"round 1: \w+\.step( or watch)? writes into round\.{part}.*copy"
    with pytest.raises(ValueError, match=told):
        trained(strategy, 1)


def test_gradients_may_be_switched_off_for_good():
    with torch.inference_mode():
        history = fm.train(federation(1, fm.replay()), model(1), fm.CGSV(), rounds=2)
    assert torch.isfinite(history.theta).all()


@pytest.mark.filterwarnings("ignore")
def test_recorded_rounds_may_come_in_one_buffer():
    """A generator writes every round where the last one lay, samples and model included."""
    net, chance = model(0), torch.Generator().manual_seed(0)
    rounds = [
        {
            "theta": torch.randn(net.P, generator=chance),
            "updates": torch.randn(4, net.P, generator=chance),
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
