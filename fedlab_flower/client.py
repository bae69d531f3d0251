"""Client: what a node of Flower runs: local training on its own samples, and answers.

Chapter 11 uses it. Below: engine.local, minibatches, records. Beside: server.
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
from fedlab_mini.checks import instance, reals, shown, whole
from fedlab_mini.engine.files import described
from fedlab_mini.engine.local import round_updates
from fedlab_mini.engine.minibatches import Shuffles
from fedlab_mini.engine.train import checked_labels
from fedlab_mini.methods.label_standardisation import Inspection

from .records import below, pack, received_message, unpack

Load = Callable[[Context], tuple[int, Any, Any]]
LABELS = "labels"  # the record of Flower's state that holds what a node has renamed


def client_app(
    load: fm.Federation | Load, net: fm.Model, *, messages: Sequence[type] = (Inspection,)
) -> ClientApp:
    """The ClientApp of a node: it trains when asked, and answers about its labels.

    load      ``load(context) -> (client id, x [n, ...], y [n])``, called for
              every message; or a Federation, of which the node is the client that
              ``partition-id`` names in its node config, with that client's attack
    net       the model, the same as the server's
    messages  classes of strategies' messages that the node answers. Labels that it
              renames are kept in Flower's state, which lasts as long as Flower's run
    raises    TypeError naming the argument; what a node then fails at is an error in
              its reply
    """
    if not (isinstance(load, fm.Federation) or callable(load)):
        raise TypeError(f"load: expected a function or a Federation, got {shown(load)}")
    net = instance("net", net, fm.Model, "fm.Model(module)").copy()
    app = ClientApp()

    def node_of(message: Message, context: Context, finite: bool = True) -> Node:
        attack = None
        if isinstance(load, fm.Federation):
            k = int(context.node_config["partition-id"])
            (x, y), attack = load.client(k), load.attacks.get(k)
        else:
            k, x, y = load(context)
        x = reals("x", x, ["n", "d", "..."], finite=finite)
        y = net.labels("y", y, x, net.outputs(x))
        k = whole("load: the client's id", k, 0)
        return Node(k, x, y, attack, net, context.state, unpack(message.content))

    def reply(message: Message, node: Node, **parts: object) -> Message:
        said = pack(nonce=node.task["nonce"], size=len(node.y), **parts)
        return Message(said, reply_to=message)

    @app.query("join")
    def join(message: Message, context: Context) -> Message:
        # Who holds NaN joins, and fails in every round: as in one process.
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
    """A client at home, with one task: its samples x [n, ...], y [n].

    k       the id it takes itself for; attack  what it does to its updates, or None
    state   Flower's memory of the run
    task    model, round, how to train; seed and sizes [K] where minibatches are shared
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
        """The global model [P] that came with the task."""
        return reals("theta", self.task["theta"], [self.net.P], dtype=self.x.dtype)

    def update(self) -> Tensor:
        """What the client sends, [P]; with seed and sizes the same as in ``fm.train``."""
        task, x, y = self.task, self.x, self.labels()
        if "seed" in task:
            seed, sizes, k = task["seed"], task["sizes"], task["client"]
            # More samples than at the start would be other minibatches for all.
            count = whole("size", int(sizes[k]), 1, len(y))
            x, y = x[:count], y[:count]
        else:
            # Known to who has the data; a round that is asked for again finds it again.
            seed = int(joblib.hash(described((self.x, self.y))), 16)
            sizes, k = torch.tensor([len(y)]), 0
        # Minibatches are dealt from one order of all samples. Of the others' only their
        # number counts: zeros stand for them.
        begin, total = int(sizes[:k].sum()), int(sizes.sum())
        all_x, all_y = (part.new_zeros(total, *part.shape[1:]) for part in (x, y))
        all_x[begin : begin + len(x)], all_y[begin : begin + len(y)] = x, y
        one = x[:1], y[:1]  # a federation has samples of a server, unused here
        attacks = {} if self.attack is None else {k: self.attack}
        local = fm.LocalSGD(**below("local.", task))
        classes = 0 if y.is_floating_point() else self.net.outputs(x)
        fed = fm.Federation(all_x, all_y, sizes, one, one, classes, attacks=attacks)
        theta, shuffles = self.theta, Shuffles(fed, local, seed)
        last_step = task.get("last_step", torch.zeros_like(theta))
        ids, t = torch.tensor([k]), task["t"]
        return round_updates(fed, self.net, theta, ids, shuffles, t, last_step)[0]

    def answer(self, kinds: Sequence[type]) -> bool:
        """Answer the server's message; whether any labels were changed by that."""
        message, labels = received_message(self.task, kinds), self.labels()
        told = self.x.clone(), self.y.clone(), labels.clone()
        renamed = message.answer(self.net, self.theta, *told)
        classes = self.net.outputs(self.x)
        renamed = checked_labels(renamed, self.k, len(labels), classes).to(labels)
        changed = not torch.equal(renamed, labels)
        if changed:
            kept: Any = self.state.get(LABELS, {})
            now = {str(self.task["t"]): Array(renamed.numpy())}
            self.state[LABELS] = ArrayRecord({**kept, **now})
        return changed

    def labels(self) -> Tensor:
        """Labels [n] as they are since the server last heard of a change.

        A server that was started again asks once more for rounds that the node has
        seen: it has not heard of what was renamed in these.
        ValueError if Flower's run, and its memory, are gone
        """
        heard = str(self.task.get("heard", 0))
        kept: Any = self.state.get(LABELS, {})
        if heard == "0":
            return self.y
        if heard not in kept:
            raise ValueError(
                f"labels: those renamed in round {heard} went with the run of Flower's "
                "that held them"
            )
        renamed = torch.from_numpy(kept[heard].numpy().copy())
        # Samples that came since then stand at the end, with the labels they came with.
        return torch.cat([renamed, self.y[len(renamed) :]])
