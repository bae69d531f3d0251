"""Nodes of Flower in this process: a network that loses, changes and shuffles what is sent."""

from __future__ import annotations

import random

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import fedlab_flower as flower
import fedlab_mini as fm
from fedlab_flower.messages import pack, unpack
from fedlab_mini.engine.minibatches import LocalSGD


@pytest.fixture(autouse=True)
def identity():
    """Flower's processes know who they are; here the server has to be told."""
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1


SIZES, LOCAL = (9, 4, 20, 13, 7), LocalSGD(batch=4, epochs=2)
NODE = [970, 13, 2**63 + 5, 402, 77]  # node ids, by client


class Grid:
    """A network in this process: messages go to a ClientApp, replies come back shuffled.

    late  {(client, round)}: no reply; ``meddle(k, t, reply)`` may change what a client replies to
    a task, or drop it by None. A grid that serves again keeps what its nodes remember.
    """

    def __init__(self, app=None, clients=5, *, late=(), meddle=None):
        self.app, self.late, self.absent, self.meddle = app, set(late), (), meddle
        self.k = {NODE[k]: k for k in range(clients)}
        self.contexts = {
            n: Context(1, n, {"partition-id": k}, RecordDict(), {}) for n, k in self.k.items()
        }
        self.t, self.asked, self.told = 0, [], []

    def get_node_ids(self):
        return [n for n, k in self.k.items() if k not in self.absent]

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            node, kind = message.metadata.dst_node_id, message.metadata.message_type
            t = message.metadata.group_id or message.content["config"]["server-round"]
            self.t = int(t)
            self.asked.append((self.t, self.k[node], kind))
            self.told.append(message.content)
            message.metadata.__dict__["_message_id"] = f"{len(self.asked)}"
            try:
                reply = self.app(message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(code=1, reason=str(error)), reply_to=message)
            if self.meddle is not None and kind == "train":
                reply = self.meddle(self.k[node], self.t, reply)
            if reply is not None and (self.k[node], self.t) not in self.late:
                replies.append(reply)
        random.Random(self.t).shuffle(replies)
        return replies


def over_nodes(fed, net, strategy, rounds=4, *, grid=None, load=None, **options):
    """A training over nodes of a network in this process."""
    grid = Grid() if grid is None else grid
    grid.app = flower.client_app(fed if load is None else load, net)
    given = {"clients": fed.clients, "local": LOCAL, "seed": 3, "same_as_train": True}
    given |= {"timeout": 1, "patience": 0.5} | options
    made = flower.server_app(
        net, strategy, validation=fed.validation, test=fed.test, rounds=rounds, **given
    )
    made(grid, Context(1, 1, {}, RecordDict(), {}))
    return made.history


def spy():
    """FedAvg, and the list in which it notes who took part, who did not, and the sizes."""
    seen = []

    class Spy(fm.FedAvg):
        def step(self, server, state, round):
            parts = round.clients, round.missing, round.sizes
            seen.append(tuple(part.tolist() for part in parts))
            return super().step(server, state, round)

    return Spy(), seen


def changed(reply: Message, **parts) -> Message:
    """A reply with some of what it says replaced."""
    reply.content = pack(**(unpack(reply.content) | parts))
    return reply
