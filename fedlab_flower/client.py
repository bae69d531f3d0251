"""Client: what a node of Flower runs: local training on its own samples, and answers.

Chapter 11 uses it. Builds on engine.local and minibatches; its counterpart is server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.left_out import names
from fedlab_mini.engine.local import round_updates
from fedlab_mini.engine.minibatches import Shuffles
from fedlab_mini.engine.outputs import fresh_copy
from fedlab_mini.engine.train import checked_labels
from fedlab_mini.gate.fit import labels_for, output_count
from fedlab_mini.keep.files import described
from fedlab_mini.methods.label_standardisation import Inspection
from fedlab_mini.parse.checks import instance, reals, shown, whole

from .messages import below, pack, received_message, unpack

Load = Callable[[Context], tuple[int, Any, Any]]
LABELS = "labels"  # the record of Flower's state with the labels that a node has renamed


def client_app(
    load: fm.Federation | Load, net: fm.Model, *, messages: Sequence[type] = (Inspection,)
) -> ClientApp:
    """The ClientApp of a node: it trains when asked, and answers about its labels.

    load      ``load(context) -> (client id, x [n, ...], y [n])``, called for every
              message; or a Federation: the node is then the client that ``partition-id``
              in its node config names, with this client's attack
    net       the model, the same as the server's
    messages  classes of strategies' messages that the node answers. Flower's state keeps
              the labels that it renames, as long as Flower runs
    raises    TypeError naming the argument; later errors of a node are errors in its
              replies
    """
    if not (isinstance(load, fm.Federation) or callable(load)):
        raise TypeError(f"load: expected a function or a Federation, got {shown(load)}")
    attacks = load.attacks if isinstance(load, fm.Federation) else {}
    if curious := [k for k, attack in attacks.items() if attack.looks_around]:
        raise ValueError(
            f"load: the attack of client {names(curious)} reads what other clients send, or "
            "remembers; a node sees its own update only"
        )
    net = fresh_copy(instance("net", net, fm.Model, "fm.Model(module)"))
    app = ClientApp()

    def node_of(message: Message, context: Context, finite: bool = True) -> Node:
        attack = None
        if isinstance(load, fm.Federation):
            k = int(context.node_config["partition-id"])
            (x, y), attack = load.client(k), load.attacks.get(k)
        else:
            k, x, y = load(context)
        x = reals("x", x, ["n", "d", "..."], finite=finite)
        y = labels_for(net, "y", y, x, output_count(net, x))
        k = whole("load: the client's id", k, 0)
        return Node(k, x, y, attack, net, context.state, unpack(message.content))

    def reply(message: Message, node: Node, **parts: object) -> Message:
        said = pack(nonce=node.task["nonce"], size=len(node.y), **parts)
        return Message(said, reply_to=message)

    @app.query("join")
    def join(message: Message, context: Context) -> Message:
        # A client with NaN joins and fails in every round, as in one process.
        node = node_of(message, context, finite=False)
        return reply(message, node, client=node.k)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        node = node_of(message, context)
        return reply(message, node, update=node.update())

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        node = node_of(message, context)
        return reply(message, node, changed=node.answer(messages))

    return app


@dataclass
class Node:
    """A client on its node, with one task: its samples x [n, ...], y [n].

    k       the id that it claims; attack  what it does to its updates, or None
    state   Flower's memory of the run
    task    model, round, training options; also seed and sizes [K] if minibatches are shared
    """

    k: int
    x: Tensor
    y: Tensor
    attack: Any
    net: fm.Model
    state: RecordDict
    task: dict[str, Any]

    @property
    def theta(self) -> Tensor:
        """The global model [P] from the task."""
        return reals("theta", self.task["theta"], [self.net.P], dtype=self.x.dtype)

    def update(self) -> Tensor:
        """The update that the client sends, [P]; with seed and sizes, the one of ``fm.train``."""
        task, x, y = self.task, self.x, self.labels()
        if "seed" in task:
            seed, sizes, k = task["seed"], task["sizes"], task["client"]
            # More samples than at the start would change the minibatches of all clients.
            count = whole("size", int(sizes[k]), 1, len(y))
            x, y = x[:count], y[:count]
        else:
            # Only a holder of the data knows this seed; a repeated round gets the same seed.
            seed = int(joblib.hash(described((self.x, self.y))), 16)
            sizes, k = torch.tensor([len(y)]), 0
        # Minibatches are dealt from one shuffle of all samples. Only the number of other
        # clients' samples matters, so zeros replace them.
        begin, total = int(sizes[:k].sum()), int(sizes.sum())
        all_x, all_y = (part.new_zeros(total, *part.shape[1:]) for part in (x, y))
        all_x[begin : begin + len(x)], all_y[begin : begin + len(y)] = x, y
        one = x[:1], y[:1]  # a federation needs samples of a server, unused here
        attacks = {} if self.attack is None else {k: self.attack}
        local = fm.LocalSGD(**below("local.", task))
        classes = 0 if y.is_floating_point() else output_count(self.net, x)
        fed = fm.Federation(all_x, all_y, sizes, one, one, classes, attacks=attacks)
        theta, shuffles = self.theta, Shuffles(fed, local, seed)
        last_step = task.get("last_step", torch.zeros_like(theta))
        ids, t = torch.tensor([k]), task["t"]
        return round_updates(fed, self.net, theta, ids, shuffles, t, last_step)[0]

    def answer(self, kinds: Sequence[type]) -> bool:
        """Answer the server's message; returns whether this changed any labels."""
        message, labels = received_message(self.task, kinds), self.labels()
        told = self.x.clone(), self.y.clone(), labels.clone()
        renamed = message.answer(self.net, self.theta, *told)
        classes = output_count(self.net, self.x)
        renamed = checked_labels(renamed, self.k, len(labels), classes).to(labels)
        changed = not torch.equal(renamed, labels)
        if changed:
            kept: Any = self.state.get(LABELS, {})
            now = {str(self.task["t"]): Array(renamed.numpy())}
            self.state[LABELS] = ArrayRecord({**kept, **now})
        return changed

    def labels(self) -> Tensor:
        """Labels [n] after the last change that the server knows of.

        A restarted server repeats rounds that the node has seen already, and does not
        know of the labels renamed in these rounds.
        ValueError if Flower's earlier run, and its memory, are gone
        """
        heard = str(self.task.get("heard", 0))
        kept: Any = self.state.get(LABELS, {})
        if heard == "0":
            return self.y
        if heard not in kept:
            raise ValueError(
                f"labels: expected those renamed in round {heard}, but they were lost with "
                "an earlier run of Flower"
            )
        renamed = torch.from_numpy(kept[heard].numpy().copy())
        # Newer samples are at the end, with their first labels.
        return torch.cat([renamed, self.y[len(renamed) :]])
