"""Client: what a node of Flower runs: local training on its own samples, and answers about them.

Chapter 11 uses it. Below: engine.updates, minibatches, records. Beside: server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fedlab_mini.checks import home, instance, reals, shown, whole, wholes
from fedlab_mini.engine import minibatches
from fedlab_mini.engine.files import described, read_arrays, whole_file
from fedlab_mini.engine.minibatches import Layout, LocalSGD, Plan, Shuffles
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.train import checked_labels
from fedlab_mini.engine.updates import round_updates
from fedlab_mini.methods.label_standardisation import Inspection
from fedlab_mini.streams import numbers, stream
from fedlab_mini.worlds.attacks import UpdateAttack
from fedlab_mini.worlds.federation import Federation

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
    net = instance("net", net, Model, "fm.Model(module)").copy()
    app = ClientApp()

    def task_of(message: Message, context: Context) -> dict[str, Any]:
        key_path = server_key or context.node_config.get("server-key")
        if key_path:
            message_type = message.metadata.message_type
            # Before anything of the task is read: a stranger may have sent it.
            verify(
                message.content,
                context.node_id,
                message_type,
                verifying_key(str(key_path)),
            )
        return unpack(message.content)

    def reply(message: Message, task: dict[str, Any], **contents: object) -> Message:
        return Message(pack(secret=task["secret"], **contents), reply_to=message)

    def node_for(context: Context, task: dict[str, Any]) -> Node:
        attack = None
        if isinstance(load, Federation):
            partition_id = int(context.node_config["partition-id"])
            claimed_id: int | None = partition_id
            (x, y), attack = load.client(partition_id), load.attacks.get(partition_id)
        else:
            claimed_id, x, y = load(context)
        # What is not finite passes here: the node says so when it joins, and is left out by name.
        x = reals("x", x, ["n", "d", "..."], finite=False)
        y = wholes("y", y, [len(x)], 0, net.outputs(x) - 1)
        k = (
            task["client"]
            if claimed_id is None
            else whole("load: the client's id", claimed_id, 0)
        )
        label_memory = LabelMemory(
            context.state, home(folder) if folder else None, k, task
        )
        return Node(k, x, y, attack, net, label_memory, task)

    @app.query("join")
    def join(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        # A node that does not know its id says -1, and the server looks it up in its own list.
        node = node_for(context, {"client": -1})
        # Said before the first round, so that the server need not ask in vain.
        inputs_finite, is_attacker = (
            bool(torch.isfinite(node.x).all()),
            node.attack is not None,
        )
        sample_count = len(node.y)
        return reply(
            message,
            task,
            client=node.k,
            size=sample_count,
            usable=inputs_finite,
            step=is_attacker,
        )

    @app.train()
    def train(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        node = node_for(context, task)
        update, sample_count = node.update(), len(node.y)
        return reply(
            message, task, update=update, t=task["t"], client=node.k, size=sample_count
        )

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        task = task_of(message, context)
        node = node_for(context, task)
        labels_changed = node.answer(received_message(task, messages))
        return reply(message, task, changed=labels_changed, t=task["t"], client=node.k)

    return app


class PartOfShuffles(Shuffles):
    """A client's part of the minibatches that its whole federation would be dealt by ``fm.train``.

    Of one order of all ``total`` samples it keeps those of its own, ``offset`` .. ``offset + n``,
    so that no client needs to know more of the others than how many they are, with how many samples
    """

    def __init__(self, fed: Federation, local: LocalSGD, task: dict[str, Any]):
        self.k, self.clients = task["client"], task["clients"]
        self.offset = whole("offset", task["offset"], 0, MOST_IN_ORDER)
        # An order of all samples is made here: without a limit a task could fill a client's memory.
        self.total = whole("total", task["total"], 1, MOST_IN_ORDER)
        super().__init__(fed, local, task["seed"])

    def shuffled(self, purpose: str, *index: int) -> np.ndarray:
        """As `Shuffles.shuffled`, of the client's samples only."""
        generator = stream(self.seed, purpose, *index)
        # [total], the order of all samples; less the offset, the client's own are 0 .. n - 1.
        sample_order = (
            torch.randperm(self.total, generator=generator).numpy() - self.offset
        )
        # Of the federation's order the client's own part remains, in that order.
        return sample_order[(sample_order >= 0) & (sample_order < len(self.owner))]

    def one_pass(self, t: int, epoch: int, layout: Layout) -> np.ndarray:
        """As `Shuffles.one_pass`, by the numbers that the whole federation would draw."""
        if self.clients <= minibatches.CROWD:
            return super().one_pass(t, epoch, layout)
        generator = stream(self.seed, "minibatches", t, epoch)
        # A sample's number hangs on its place among all samples, which `offset` gives back.
        drawn_numbers = numbers(generator, layout.places + self.offset)
        return layout.places[np.argsort(drawn_numbers, kind="stable")]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """As `Shuffles.plan`, under the client's own id."""
        # Here the client is number 0 of a federation of one.
        return replace(super().plan(t, clients, counts), clients=torch.tensor([self.k]))


class LabelMemory:
    """Labels that a node has renamed in a training, by the round from which on they hold.

    They lie in ``folder``, which outlasts Flower's run, or in ``state``, Flower's memory of the run
    """

    def __init__(
        self, state: RecordDict, folder: Path | None, k: int, task: dict[str, Any]
    ):
        self.state, self.folder, self.k, self.task = state, folder, k, task

    def load(self) -> dict[int, Tensor]:
        """{round: labels from then on}, up to the task's round."""
        training_mark, label_arrays = self.task["mark"], {}
        if self.folder is not None:
            path = self._file(self.folder)
            label_arrays = read_arrays("labels", path) if path.exists() else {}
        elif (record_name := f"labels {training_mark}") in self.state:
            label_arrays = {
                round_name: array.numpy()
                for round_name, array in self.state[record_name].items()
            }
        labels_by_round = {
            int(round_name): torch.from_numpy(array.copy())
            for round_name, array in label_arrays.items()
        }
        # A training that was taken up again asks once more for rounds that the node has seen.
        return {t: labels for t, labels in labels_by_round.items() if t < self.task["t"]}

    def add(self, labels: Tensor) -> None:
        """Remember labels that hold from the task's round on."""
        training_mark = self.task["mark"]
        label_history = self.load() | {self.task["t"]: labels}
        label_arrays = {str(t): renamed.numpy() for t, renamed in label_history.items()}
        if self.folder is not None:
            path = self._file(self.folder)
            with readable_by_owner(), whole_file(path) as part, open(part, "wb") as file:
                np.savez(file, **label_arrays)
        else:
            label_record = ArrayRecord(
                {round_name: Array(array) for round_name, array in label_arrays.items()}
            )
            self.state[f"labels {training_mark}"] = label_record

    def _file(self, folder: Path) -> Path:
        return folder / f"labels-{self.k}-{self.task['mark']}.npz"


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
        seed_is_shared, (_, labels), x = "seed" in task, self.labels(), self.x
        if seed_is_shared:
            # Other samples than at the start would be other minibatches for all.
            sample_count, seed = whole("size", task["size"], 1, len(labels)), task["seed"]
            x, labels = x[:sample_count], labels[:sample_count]
        else:
            # Known to who has the data; a round that is asked for again finds it again.
            seed = int(joblib.hash(described((self.x, self.y))), 16)
        # a federation has samples of a server, unused here
        one_sample = x[:1], labels[:1]
        classes = self.net.outputs(x)
        fed = Federation.from_datasets(
            [(x, labels)], validation=one_sample, test=one_sample, classes=classes
        )
        local, zero_step = local_sgd(task), torch.zeros_like(theta)
        shuffles = (
            PartOfShuffles(fed, local, task)
            if seed_is_shared
            else Shuffles(fed, local, seed)
        )
        update = round_updates(
            fed, self.net, theta, torch.tensor([0]), shuffles, t, zero_step
        )
        if self.attack is not None:
            # Rows as in a round of many: this one has a single row, [1, P].
            last_step = task.get("previous", zero_step)[None]
            update = self.attack(
                update, last_step, stream(seed, "attack", t, task["client"])
            )
        return update[0]

    def answer(self, message: Any) -> bool:
        """Answer a strategy's message; whether labels differ from those the server knows of."""
        heard_labels, current_labels = self.labels()
        # Copies: an answer that writes into its labels would else not be seen as a change below.
        answered_labels = message.answer(
            self.net, self.theta, self.x.clone(), self.y.clone(), current_labels.clone()
        )
        renamed_labels = checked_labels(
            answered_labels, self.k, len(current_labels), self.net.outputs(self.x)
        ).to(current_labels)
        labels_changed = not torch.equal(renamed_labels, heard_labels)
        # Also what takes a change back that the server has heard of.
        if labels_changed or not torch.equal(renamed_labels, current_labels):
            self.memory.add(renamed_labels)
        return labels_changed

    def labels(self) -> tuple[Tensor, Tensor]:
        """Labels [n]: those of the round in which the server last heard of a change, and now.

        ValueError if the node has lost what it had renamed by then
        """
        label_history, heard_round = {0: self.y} | self.memory.load(), self.task["heard"]
        if heard_round not in label_history:
            raise ValueError(
                f"labels: those renamed in round {heard_round} are lost; give client_app a folder"
            )
        # Samples that came since then stand at the end, with the labels they came with.
        heard, latest = label_history[heard_round], label_history[max(label_history)]
        return torch.cat([heard, self.y[len(heard) :]]), torch.cat(
            [latest, self.y[len(latest) :]]
        )
