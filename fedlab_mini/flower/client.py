"""Client: what a node of Flower runs: local training on its own samples, and answers about them.

Chapter 11 uses it. Below: engine.updates, minibatches, records. Beside: server.
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
from ..engine.minibatches import Layout, LocalSGD, Plan, Shuffles
from ..engine.model import Model
from ..engine.train import checked_labels
from ..engine.updates import round_updates
from ..methods.label_standardisation import Inspection
from ..streams import numbers, stream
from ..worlds.attacks import UpdateAttack
from ..worlds.federation import Federation
from .private import readable_by_owner, verify, verifying_key
from .records import local_sgd, pack, received_message, unpack

MOST_IN_ORDER = 100_000_000  # samples of all clients that one of them puts in order
Load = Callable[[Context], tuple[int | None, Any, Any]]


def client_app(
    load: Federation | Load,
    net: Model,
    *,
    folder: str | os.PathLike | None = None,
    messages: Sequence[type] = (Inspection,),
    server_key: str | os.PathLike | None = None,
) -> ClientApp:
    """The ClientApp of a node: it trains when asked, and answers about its labels.

    load      ``load(context) -> (client id or None, x [n, ...], y [n])``, called for every message;
              or a Federation, of which the node is the client that ``partition-id`` names
              in its node config, with that client's attack
    net       the model, the same as the server's
    folder    where the node keeps labels that it has renamed, so that a training that is taken up
              again finds them; None: only for as long as Flower's run lasts
    messages  classes of strategies' messages that the node answers
    server_key  the public half of the server's signing key: tasks without its signature are
              refused. None: the file that ``server-key`` names in the node config; where none is
              named, all tasks are believed
    raises    TypeError naming the argument; what a node then fails at is an error in its reply
    """
    if not (isinstance(load, Federation) or callable(load)):
        raise TypeError(f"load: expected a function or a Federation, got {shown(load)}")
    instance("net", net, Model, "fm.Model(module)")
    app = ClientApp()

    def task_of(message: Message, context: Context) -> dict[str, Any]:
        key = server_key or context.node_config.get("server-key")
        if key:
            kind = message.metadata.message_type
            verify(message.content, context.node_id, kind, verifying_key(str(key)))
        return unpack(message.content)

    def reply(message: Message, task: dict[str, Any], **parts: object) -> Message:
        return Message(pack(secret=task["secret"], **parts), reply_to=message)

    def node_for(context: Context, task: dict[str, Any]) -> Node:
        attack = None
        if isinstance(load, Federation):
            partition = int(context.node_config["partition-id"])
            claimed: int | None = partition
            (x, y), attack = load.client(partition), load.attacks.get(partition)
        else:
            claimed, x, y = load(context)
        x = reals("x", x, ["n", "d", "..."], finite=False)
        y = wholes("y", y, [len(x)], 0, net.outputs(x) - 1)
        k = task["client"] if claimed is None else whole("load: the client's id", claimed, 0)
        memory = LabelMemory(context.state, Path(folder) if folder else None, k, task)
        return Node(k, x, y, attack, net, memory, task)

    @app.query("join")
    def join(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        node = node_for(context, {"client": -1})
        # Said before the first round, so that the server need not ask in vain.
        usable, attacks = bool(torch.isfinite(node.x).all()), node.attack is not None
        size = len(node.y)
        return reply(message, task, client=node.k, size=size, usable=usable, step=attacks)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        node = node_for(context, task)
        update, size = node.update(), len(node.y)
        return reply(message, task, update=update, t=task["t"], client=node.k, size=size)

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        node = node_for(context, task)
        changed = node.answer(received_message(task, messages))
        return reply(message, task, changed=changed, t=task["t"], client=node.k)

    return app


class PartOfShuffles(Shuffles):
    """A client's part of the minibatches that its whole federation would be dealt by ``fm.train``.

    Of one order of all ``total`` samples it keeps those of its own, ``offset`` .. ``offset + n``,
    so that no client needs to know more of the others than how many they are, with how many samples
    """

    def __init__(self, fed: Federation, local: LocalSGD, task: dict[str, Any]):
        self.k, self.clients = task["client"], task["clients"]
        self.offset = whole("offset", task["offset"], 0, MOST_IN_ORDER)
        self.total = whole("total", task["total"], 1, MOST_IN_ORDER)
        super().__init__(fed, local, task["seed"])

    def shuffled(self, purpose: str, *index: int) -> np.ndarray:
        """As `Shuffles.shuffled`, of the client's samples only."""
        generator = stream(self.seed, purpose, *index)
        order = torch.randperm(self.total, generator=generator).numpy() - self.offset
        # Of the federation's order the client's own part remains, in that order.
        return order[(order >= 0) & (order < len(self.owner))]

    def one_pass(self, t: int, epoch: int, layout: Layout) -> np.ndarray:
        """As `Shuffles.one_pass`, by the numbers that the whole federation would draw."""
        if self.clients <= minibatches.CROWD:
            return super().one_pass(t, epoch, layout)
        generator = stream(self.seed, "minibatches", t, epoch)
        drawn_numbers = numbers(generator, layout.places + self.offset)
        return layout.places[np.argsort(drawn_numbers, kind="stable")]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """As `Shuffles.plan`, under the client's own id."""
        return replace(super().plan(t, clients, counts), clients=torch.tensor([self.k]))


class LabelMemory:
    """Labels that a node has renamed in a training, by the round from which on they hold.

    They lie in ``folder``, which outlasts Flower's run, or in ``state``, Flower's memory of the run
    """

    def __init__(self, state: RecordDict, folder: Path | None, k: int, task: dict[str, Any]):
        self.state, self.folder, self.k, self.task = state, folder, k, task

    def load(self) -> dict[int, Tensor]:
        """{round: labels from then on}, up to the task's round."""
        training, label_arrays = self.task["mark"], {}
        if self.folder is not None:
            label_arrays = files.load(self._file(self.folder), training) or {}
        elif (record := f"labels {training}") in self.state:
            label_arrays = {name: array.numpy() for name, array in self.state[record].items()}
        labels = {int(name): torch.from_numpy(array.copy()) for name, array in label_arrays.items()}
        # A training that was taken up again asks once more for rounds that the node has seen.
        return {t: renamed for t, renamed in labels.items() if t < self.task["t"]}

    def add(self, labels: Tensor) -> None:
        """Remember labels that hold from the task's round on."""
        training = self.task["mark"]
        history = self.load() | {self.task["t"]: labels}
        label_arrays = {str(t): renamed.numpy() for t, renamed in history.items()}
        if self.folder is not None:
            with readable_by_owner():
                files.save(self._file(self.folder), training, **label_arrays)
        else:
            record = ArrayRecord({name: Array(array) for name, array in label_arrays.items()})
            self.state[f"labels {training}"] = record

    def _file(self, folder: Path) -> Path:
        return folder / f"labels-{self.k}-{self.task['mark'][:12]}.npz"


@dataclass
class Node:
    """A client at home, with one task: its samples x [n, ...], y [n], and what it has renamed.

    k     the id it takes itself for; attack  what it does to its updates, or None
    task  model, round, seed, how to train, which of all samples are the client's
    """

    k: int
    x: Tensor
    y: Tensor
    attack: UpdateAttack | None
    net: Model
    memory: LabelMemory
    task: dict[str, Any]

    @property
    def theta(self) -> Tensor:
        """The global model [P] that came with the task."""
        return reals("theta", self.task["theta"], [self.net.P], dtype=self.x.dtype)

    def update(self) -> Tensor:
        """What the client sends, [P]: the same as in a training in one process."""
        task, theta, t = self.task, self.theta, self.task["t"]
        alike, (_, labels), x = "seed" in task, self.labels(), self.x
        if alike:
            # Other samples than at the start would be other minibatches for all.
            size, seed = whole("size", task["size"], 1, len(labels)), task["seed"]
            x, labels = x[:size], labels[:size]
        else:
            # Known to who has the data; a round that is asked for again finds it again.
            seed = int(files.fingerprint(self.x, self.y), 16)
        one_sample = x[:1], labels[:1]  # a federation has samples of a server, unused here
        classes = self.net.outputs(x)
        fed = Federation.from_datasets(
            [(x, labels)], validation=one_sample, test=one_sample, classes=classes
        )
        local, no_step = local_sgd(task), torch.zeros_like(theta)
        shuffles = PartOfShuffles(fed, local, task) if alike else Shuffles(fed, local, seed)
        update = round_updates(fed, self.net, theta, torch.tensor([0]), shuffles, t, no_step)
        if self.attack is not None:
            last_step = task.get("previous", no_step)[None]
            update = self.attack(update, last_step, stream(seed, "attack", t, task["client"]))
        return update[0]

    def answer(self, message: Any) -> bool:
        """Answer a strategy's message; whether labels differ from those the server knows of."""
        heard, current = self.labels()
        answer = message.answer(self.net, self.theta, self.x, self.y.clone(), current.clone())
        renamed = checked_labels(answer, self.k, len(current), self.net.outputs(self.x)).to(current)
        changed = not torch.equal(renamed, heard)
        # Also what takes a change back that the server has heard of.
        if changed or not torch.equal(renamed, current):
            self.memory.add(renamed)
        return changed

    def labels(self) -> tuple[Tensor, Tensor]:
        """Labels [n]: those of the round in which the server last heard of a change, and now.

        ValueError if the node has lost what it had renamed by then
        """
        history, heard = {0: self.y} | self.memory.load(), self.task["heard"]
        if heard not in history:
            raise ValueError(
                f"labels: those renamed in round {heard} are lost; give client_app a folder"
            )
        # Samples that came since then stand at the end, with the labels they came with.
        then, now = history[heard], history[max(history)]
        return torch.cat([then, self.y[len(then) :]]), torch.cat([now, self.y[len(now) :]])
