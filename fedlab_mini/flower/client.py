"""Client: what a node of Flower runs: local training on its own samples, and answers about them.

Chapter 11 uses it. Below: local, minibatches, records. Beside: server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from ..checks import instance, reals, shown, whole, wholes
from ..engine import checkpoint as files
from ..engine import minibatches
from ..engine.local import round_updates
from ..engine.minibatches import Layout, LocalSGD, Plan, Shuffles
from ..engine.model import Model
from ..engine.train import renamed
from ..methods.label_standardisation import Inspection
from ..streams import numbers, stream
from ..worlds.corrupt import UpdateAttack
from ..worlds.federation import Federation
from .records import local_sgd, pack, received, unpack

Load = Callable[[Context], tuple[int | None, Any, Any]]


def client_app(
    load: Federation | Load,
    net: Model,
    *,
    folder: str | os.PathLike | None = None,
    messages: Sequence[type] = (Inspection,),
) -> ClientApp:
    """The ClientApp of a node: it trains when asked, and answers about its labels.

    load      ``load(context) -> (client id or None, x [n, ...], y [n])``, called for every message;
              or a Federation, of which the node is the client that ``partition-id`` names
              in its node config, with that client's attack
    net       the model, the same as the server's
    folder    where the node keeps labels that it has renamed, so that a training that is taken up
              again finds them; None: only for as long as Flower's run lasts
    messages  classes of strategies' messages that the node answers
    raises    TypeError naming the argument; what a node then fails at is an error in its reply
    """
    if not (isinstance(load, Federation) or callable(load)):
        raise TypeError(f"load: expected a function or a Federation, got {shown(load)}")
    instance("net", net, Model, "fm.Model(module)")
    app = ClientApp()

    def here(context: Context, given: dict[str, Any]) -> Node:
        if isinstance(load, Federation):
            k = int(context.node_config["partition-id"])
            (x, y), attack = load.client(k), load.attacks.get(k)
            return Node.made(k, x, y, attack, net, context.state, folder, given)
        return Node.made(*load(context), None, net, context.state, folder, given)

    @app.query("join")
    def join(message: Message, context: Context) -> Message:
        node = here(context, {"client": -1})
        usable, step = bool(torch.isfinite(node.x).all()), node.attack is not None
        told = pack(client=node.k, size=len(node.y), usable=usable, step=step)
        return Message(told, reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        given = unpack(message.content)
        node = here(context, given)
        told = pack(update=node.update(), t=given["t"], client=node.k)
        return Message(told, reply_to=message)

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        given = unpack(message.content)
        node = here(context, given)
        told = pack(changed=node.answer(received(given, messages)), t=given["t"], client=node.k)
        return Message(told, reply_to=message)

    return app


class Part(Shuffles):
    """A client's part of the minibatches that its whole federation would be dealt.

    Of one order of all ``total`` samples it keeps those of its own, ``offset`` .. ``offset + n``,
    so that no client needs to know more of the others than how many they are, with how many samples
    """

    def __init__(self, fed: Federation, local: LocalSGD, given: dict[str, Any]):
        self.k, self.clients = given["client"], given["clients"]
        self.offset, self.total = given["offset"], given["total"]
        super().__init__(fed, local, given["seed"])

    def _order(self, purpose: str, *index: int) -> np.ndarray:
        chance = stream(self.seed, purpose, *index)
        order = torch.randperm(self.total, generator=chance).numpy() - self.offset
        return order[(order >= 0) & (order < len(self.owner))]

    def _dealt(self, t: int, epoch: int, layout: Layout) -> np.ndarray:
        if self.clients <= minibatches.CROWD:
            return super()._dealt(t, epoch, layout)
        row = stream(self.seed, "minibatches", t, epoch)
        return layout.place[np.argsort(numbers(row, layout.place + self.offset), kind="stable")]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """As `Shuffles.plan`, under the client's own id."""
        return replace(super().plan(t, clients, counts), clients=torch.tensor([self.k]))


@dataclass
class Node:
    """A client at home: its samples x [n, ...], y [n], and the labels that it has renamed.

    k       the id it takes itself for; attack  what it does to its updates, or None
    state   Flower's memory of this run, on this node; folder  a memory that outlasts the run
    given   the task: model, round, seed, how to train, which of all samples are the client's
    """

    k: int
    x: Tensor
    y: Tensor
    attack: UpdateAttack | None
    net: Model
    state: RecordDict
    folder: Path | None
    given: dict[str, Any]

    @classmethod
    def made(cls, k: Any, x: Any, y: Any, attack: Any, net: Model, state: Any, folder: Any,
             given: dict[str, Any]) -> Node:  # fmt: skip
        """A node with its samples checked; k, x, y as ``load`` gives them."""
        x = reals("x", x, ["n", "d", "..."], finite=False)
        y = wholes("y", y, [len(x)], 0, net.outputs(x) - 1)
        k = given["client"] if k is None else whole("load: the client's id", k, 0)
        return cls(k, x, y, attack, net, state, folder and Path(folder), given)

    @property
    def theta(self) -> Tensor:
        """The global model [P] that came with the task."""
        return reals("theta", self.given["theta"], [self.net.P], dtype=self.x.dtype)

    def update(self) -> Tensor:
        """What the client sends, [P]: the same as in a training in one process."""
        given, theta, first = self.given, self.theta, (self.x[:1], self.y[:1])
        if given["size"] != len(self.y):
            raise ValueError(f"size: expected {given['size']} samples, there are {len(self.y)}")
        own, classes = (self.x, self.labels()[1]), self.net.outputs(self.x)
        fed = Federation.from_datasets([own], validation=first, test=first, classes=classes)
        seed, t, k = given["seed"], given["t"], given["client"]
        part = Part(fed, local_sgd(given), given)
        still, room = torch.zeros_like(theta), theta.new_empty(1, len(theta))
        update = round_updates(fed, self.net, theta, torch.tensor([0]), part, t, still, room)
        if self.attack is not None:
            last = given.get("previous", still)[None]
            update = self.attack(update, last, stream(seed, "attack", t, k))
        return update[0]

    def answer(self, message: Any) -> bool:
        """Answer a strategy's message; whether labels differ from those the server knows of."""
        told, now = self.labels()
        new = message.answer(self.net, self.theta, self.x, self.y.clone(), now.clone())
        new = renamed(new, self.k, len(now), self.net.outputs(self.x)).to(now)
        changed = not torch.equal(new, told)
        if changed or not torch.equal(new, now):
            self.keep(self.kept() | {self.given["t"]: new})
        return changed

    def labels(self) -> tuple[Tensor, Tensor]:
        """Labels [n]: those of the round in which the server last heard of a change, and now.

        ValueError if the node has lost what it had renamed by then
        """
        kept, heard = {0: self.y} | self.kept(), self.given["heard"]
        if heard not in kept:
            raise ValueError(
                f"labels: those renamed in round {heard} are lost; give client_app a folder"
            )
        return kept[heard], kept[max(kept)]

    def kept(self) -> dict[int, Tensor]:
        """{round: labels from then on} of this training, up to the task's round."""
        mark, found = self.given["mark"], {}
        if self.folder is not None:
            found = files.load(self._file, mark) or {}
        elif (name := f"labels {mark}") in self.state:
            found = {r: array.numpy() for r, array in self.state[name].items()}
        rounds = {int(r): torch.from_numpy(part.copy()) for r, part in found.items()}
        return {r: labels for r, labels in rounds.items() if r < self.given["t"]}

    def keep(self, kept: dict[int, Tensor]) -> None:
        """Remember labels by the round from which on they hold."""
        mark, found = self.given["mark"], {str(r): part.numpy() for r, part in kept.items()}
        if self.folder is not None:
            files.save(self._file, mark, **found)
        else:
            arrays = {name: Array(part) for name, part in found.items()}
            self.state[f"labels {mark}"] = ArrayRecord(arrays)

    @property
    def _file(self) -> Path:
        assert self.folder is not None
        return self.folder / f"labels-{self.k}-{self.given['mark'][:12]}.npz"
