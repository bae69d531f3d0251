"""Scored: an app as Flower's quickstart has it trains the same bytes with and without it."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers import with_all_cases

import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord
from flwr.app import RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import strategy as flowers
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

from fedlab_mini.flower import Scored
from fedlab_mini.flower.ledger import Reader

NODES = [2**62 + 5, 77, 403, 2**63 + 11]
ALL = dict(min_train_nodes=4, min_available_nodes=4, fraction_evaluate=0.0)


@pytest.fixture(autouse=True)
def identity():
    """Flower's processes know who they are; here the server has to be told."""
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1


def network(names=("1.num_batches_tracked",)) -> nn.Module:
    """A small model with what quickstarts have: batch normalisation and its counter.

    names  of the arrays: QFedAvg of Flower 1.41 cannot work with a counter
    """
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8) if "1.num_batches_tracked" in names else nn.GroupNorm(2, 8)
    return nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))


def samples(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Client ``k``'s samples; 9 is the server. The last client's labels are wrong."""
    chance = torch.Generator().manual_seed(k)
    x = torch.randn(20 + 10 * k, 6, generator=chance)
    y = (x[:, :3]).argmax(1)
    return x, (y + 1) % 3 if k == 3 else y


def client_app(mods: list | None = None) -> ClientApp:
    """What a stranger's client looks like: own model, optimiser with momentum, epochs, mods."""
    app = ClientApp(mods=mods or [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k, t = int(context.node_config["partition-id"]), message.content["config"]["server-round"]
        torch.manual_seed(100 * t + k)
        np.random.seed(100 * t + k)  # noqa: NPY002 -- the mod's noise comes from there
        arrays = message.content["arrays"]
        model, (x, y) = network(arrays), samples(k)
        model.load_state_dict(arrays.to_torch_state_dict())
        sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(2):
            for batch in torch.randperm(len(x)).split(8):
                sgd.zero_grad()
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                loss.backward()
                sgd.step()
        told = MetricRecord({"num-examples": len(x), "train_loss": loss.item()})
        content = {"arrays": ArrayRecord(model.state_dict()), "metrics": told}
        return Message(RecordDict(content), reply_to=message)

    return app


class Grid:
    """A network in this process; ``meddle(k, t, reply)`` may change a reply, or drop it by None."""

    def __init__(self, app: ClientApp, meddle: Callable | None = None):
        self.app, self.meddle, self.rounds, self.count = app, meddle, 0, 0

    def get_node_ids(self) -> list[int]:
        return NODES

    def send_and_receive(self, messages, *, timeout=None):
        messages, replies = list(messages), []
        self.rounds += bool(messages)
        for message in messages:
            k = NODES.index(message.metadata.dst_node_id)
            self.count += 1
            message.metadata.__dict__["_message_id"] = str(self.count)
            # As over a network: what the node holds is another object.
            content = copy.deepcopy(message.content)
            there = copy.copy(message)
            there.content = content
            state = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
            context = Context(1, NODES[k], {"partition-id": k}, RecordDict(), {})
            reply = self.app(there, context)
            random.setstate(state[0])
            np.random.set_state(state[1])  # noqa: NPY002
            torch.set_rng_state(state[2])
            replies.append(self.meddle(k, self.rounds, reply) if self.meddle else reply)
        replies = [reply for reply in replies if reply is not None]
        random.Random(self.rounds).shuffle(replies)
        return replies


def validate(arrays: ArrayRecord) -> float:
    """A user's own: loss on the server's samples; draws random numbers, as users do."""
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.random()
    model, (x, y) = network(arrays), samples(9)
    model.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        return nn.functional.cross_entropy(model.eval()(x), y).item()


def trusted(arrays: ArrayRecord) -> ArrayRecord:
    """A user's own: one pass over the server's samples."""
    model, (x, y) = network(arrays), samples(9)
    model.load_state_dict(arrays.to_torch_state_dict())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(model(x), y).backward()
    sgd.step()
    return ArrayRecord(model.state_dict())


def trained(strategy, rounds: int = 4, meddle=None, mods=None, seed: int = 1):
    """The final arrays as bytes, and the states of the random numbers."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    names = () if isinstance(strategy, flowers.QFedAvg) else ("1.num_batches_tracked",)
    start = ArrayRecord(network(names).state_dict())
    torch.manual_seed(seed)
    made = strategy.start(Grid(client_app(mods), meddle), start, num_rounds=rounds)
    after = random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002
    return {name: array.data for name, array in made.arrays.items()}, after


STRATEGIES: dict[str, Callable] = {
    "FedAvg": lambda: flowers.FedAvg(**ALL),
    "half": lambda: flowers.FedAvg(**ALL | {"min_train_nodes": 2, "fraction_train": 0.5}),
    "FedAdam": lambda: flowers.FedAdam(**ALL, eta=0.05),
    "FedProx": lambda: flowers.FedProx(**ALL, proximal_mu=0.1),
    "FedAvgM": lambda: flowers.FedAvgM(**ALL, server_momentum=0.5),
    "FedMedian": lambda: flowers.FedMedian(**ALL),
    "Krum": lambda: flowers.Krum(**ALL, num_malicious_nodes=1),
    "QFedAvg": lambda: flowers.QFedAvg(client_learning_rate=0.05, **ALL),
    "noise": lambda: flowers.DifferentialPrivacyServerSideFixedClipping(
        flowers.FedAvg(**ALL), 0.01, 2.0, 4
    ),
}
EVERY = ["CGSV", "class cosine", "step cosine", "trust cosine", "leave one out", "second order"]
EVERY += ["Shapley, silent"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_training_is_the_same_to_the_last_byte(name, tmp_path):
    """With every score, a user's functions that draw random numbers, and a mod that adds noise."""
    mods = [LocalDpMod(clipping_norm=3.0, sensitivity=1e-3, epsilon=1.0, delta=1e-5)]
    alone = trained(STRATEGIES[name](), mods=mods)
    strategy = Scored(
        STRATEGIES[name](),
        tmp_path / "l.jsonl",
        methods=EVERY,
        validate=validate,
        trusted=trusted,
    )
    assert type(strategy) is type(STRATEGIES[name]())
    assert trained(strategy, mods=mods) == alone
    entries = list(Reader(tmp_path / "l.jsonl").entries())
    assert [entry.t for entry in entries] == [1, 2, 3, 4]
    assert all(list(entry.scores) == EVERY for entry in entries)
    width = 2 if name == "half" else 4
    assert all(len(entry.nodes) == width and not entry.missing for entry in entries)
