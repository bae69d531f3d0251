"""Server: a training whose clients are nodes of Flower, by the loop that ``fm.train`` has.

Chapter 11 uses it. Below: loop, records. Beside: client. Above: simulation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from ..checks import distinct_ids, instance, number, reals, whole
from ..engine import rounds as fl
from ..engine.checkpoint import fingerprint, whole_file
from ..engine.local import LocalSGD
from ..engine.log import Log
from ..engine.loop import run
from ..engine.model import Model
from ..engine.start import begin, names
from ..worlds.federation import Federation, Samples
from .records import pack, sent, settings, unpack
from .results import LOGGER, say, write

SIZE, OFFSET, TOTAL, HEARD, MISSED = range(5)  # rows of what is kept of the clients


def server_app(
    net: Model,
    strategy: fl.Strategy,
    *,
    clients: int | Mapping[int, int],
    validation: Samples,
    test: Samples,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    theta: Tensor | None = None,
    checkpoint: str | os.PathLike | None = None,
    results: str | os.PathLike | None = None,
    timeout: float = 60.0,
    patience: float = 60.0,
    done: Callable[[fl.History], None] = lambda history: None,
) -> ServerApp:
    """The ServerApp of a training: any strategy of the book, clients that run `client_app`.

    clients     {Flower's node id: client id 0..K-1}, which decides whose a reply is, whatever it
                says; or K: then nodes are believed what they say they are, as in a simulation
    validation, test  the server's samples (x, y)
    checkpoint  file that is written after every round and that a training goes on from
    results     folder for ``scores.csv`` (a row a round and client), ``clients.csv`` and, at the
                end, ``theta.npy``; written anew after every round
    timeout     seconds that a round waits for replies; who is late or fails is missing in it
    patience    seconds that the start waits for clients that have not joined
    done        is given the ``History`` at the end; its ``labels`` are empty: clients keep theirs
    other arguments, errors: see `train`; the same seed gives what `train` gives, up to rounding
    """
    local = LocalSGD() if local is None else local
    number("timeout", timeout, 0, ends="(]"), number("patience", patience, 0, ends="(]")
    classes = instance("net", net, Model, "fm.Model(module)").outputs(
        torch.as_tensor(validation[0])
    )
    own = Federation.from_datasets(
        [validation], validation=validation, test=test, classes=classes
    )  # the server's samples, checked
    start = begin(own, net, rounds, local, seed, theta)
    ids = clients if isinstance(clients, Mapping) else None
    many = whole("clients", clients) if ids is None else len(ids)
    if ids is not None:
        distinct_ids("clients", list(ids.values()), many)
    server = fl.Server(many, classes, net, own.validation, seed)
    folder = None if results is None else Path(results)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        nodes = Nodes(grid, server, own.test, ids, local, timeout)
        nodes.gather(patience)

        def after(t: int, log: Log, missing: Tensor) -> None:
            say(t, rounds, log, missing)
            if folder is not None:
                write(folder, log, strategy, nodes.node, nodes.sizes, nodes.table[MISSED])

        history = run(nodes, server, strategy, start, test=own.test, rounds=rounds, local=local,
                      checkpoint=checkpoint, every=1, after=after)  # fmt: skip
        if folder is not None:
            with whole_file(folder / "theta.npy") as path:
                np.save(path, history.theta.cpu().numpy())
        done(history)

    return app


class Nodes:
    """The nodes of a Flower run as ``loop.Workers``: messages out, replies in, by client id.

    client  {node id: client id} of the nodes that have joined
    table   [5, K]: samples, where they begin among all samples, how many all are, the round in
            which the client last said that it changed labels, rounds in which it sent nothing
    """

    labels = torch.empty(0, dtype=torch.long)

    def __init__(self, grid: Grid, server: fl.Server, test: Samples,
                 ids: Mapping[int, int] | None, local: LocalSGD, timeout: float):  # fmt: skip
        self.grid, self.server, self.ids, self.local = grid, server, ids, local
        self.timeout, self.begun = timeout, False
        self.work = fingerprint(server.net, server.validation, test, server.clients, local,
                                server.seed)  # fmt: skip
        self.client: dict[int, int] = {}
        self.said: dict[int, dict[str, Any]] = {}  # what each client said when it joined
        self.table = torch.zeros(5, server.clients, dtype=torch.long)

    @property
    def node(self) -> dict[int, int]:
        """{client id: node id} of those that have joined."""
        return {k: node for node, k in self.client.items()}

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]; 0 for those that have not joined."""
        return self.table[SIZE]

    @property
    def step(self) -> bool:
        """Whether a client has asked for the server's last step."""
        return any(told["step"] for told in self.said.values())

    @property
    def kept(self) -> Tensor:
        """What a checkpoint keeps of the clients, [5, K]."""
        return self.table.clone()

    def restore(self, kept: Tensor) -> None:
        """Begin, or go on: who has joined and is unknown comes after all others."""
        self.table, self.begun = kept.clone(), True
        for k in sorted(self.said):
            self._seat(k)

    def describe(self) -> str:
        """Fingerprint of the server's part of the training, for checkpoints."""
        return self.work

    def gather(self, patience: float) -> None:
        """Wait until all have joined, or for ``patience`` seconds, then give them places."""
        end, wanted = time.monotonic() + patience, self.server.clients
        self._welcome(patience)
        while len(self.said) < wanted and (left := end - time.monotonic()) > 0:
            time.sleep(0.2)
            self._welcome(left)
        absent = set(range(wanted)) - set(self.said)
        if absent:
            LOGGER.warning("client %s has not joined; the training begins without", names(absent))
        for k in sorted(self.said):
            self.table[SIZE, k] = self.said[k]["size"]
        self.table[OFFSET] = self.sizes.cumsum(0) - self.sizes
        self.table[TOTAL] = self.sizes.sum()

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, previous: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whose replies to round ``t`` came in time, in the order of ``chosen``; updates [m, P]."""
        self._wait_for(chosen)
        how, found = settings(self.local) | {"theta": theta, "seed": self.server.seed}, {}
        contents = {}
        for k in (k for k in chosen.tolist() if self.said.get(k, {}).get("usable")):
            given = self._task(k, t) | ({"previous": previous} if self.said[k]["step"] else {})
            contents[k] = pack(**how, **given)
        for k, told in self._ask("train", contents, t):
            try:
                found[k] = reals("update", told["update"], [self.server.net.P], dtype=theta.dtype,
                                 finite=False).to(theta)  # fmt: skip
            except (KeyError, TypeError, ValueError) as error:
                LOGGER.warning("round %d: client %d sent no update (%s)", t, k, error)
        ids = [k for k in chosen.tolist() if k in found]
        rows, silent = [found[k] for k in ids], sorted(set(chosen.tolist()) - set(ids))
        self.table[MISSED, silent] += 1
        updates = torch.stack(rows) if rows else theta.new_empty(0, len(theta))
        return torch.tensor(ids, dtype=torch.long), updates

    def answers(self, message: fl.Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of those that say they changed labels; which, and how, stays with them."""
        asked = [k for k in clients.tolist() if self.said.get(k, {}).get("usable")]
        contents = {k: pack(theta=theta, **self._task(k, t), **sent(message, k)) for k in asked}
        told = dict(self._ask("query.answer", contents, t))
        changed = [k for k in asked if told.get(k, {}).get("changed") is True]
        self.table[HEARD, changed] = t
        return torch.tensor(changed, dtype=torch.long)

    def _wait_for(self, chosen: Tensor) -> None:
        """Wait until one of the clients is there: a server that is cut off spends no rounds."""
        end = time.monotonic() + self.timeout
        while len(chosen):
            self._welcome(self.timeout)
            online = {self.client.get(node) for node in self.grid.get_node_ids()}
            if online & set(chosen.tolist()) or time.monotonic() > end:
                return
            time.sleep(0.2)

    def _task(self, k: int, t: int) -> dict[str, Any]:
        size, offset, total, heard, _ = self.table[:, k].tolist()
        place = {"size": size, "offset": offset, "total": total, "heard": heard}
        many = self.server.clients
        return place | {"client": k, "clients": many, "t": t, "mark": self.work}

    def _seat(self, k: int) -> None:
        """A place for a client that had none when training began."""
        if not self.table[SIZE, k]:
            end, size = int((self.table[OFFSET] + self.sizes).max()), self.said[k]["size"]
            self.table[: TOTAL + 1, k] = torch.tensor([size, end, end + size])

    def _welcome(self, seconds: float) -> None:
        """Ask nodes that are new who they are and how many samples they hold."""
        online = set(self.grid.get_node_ids())
        new = sorted(online - set(self.client))
        if self.ids is not None:
            new = [node for node in new if node in self.ids]
        messages = [Message(RecordDict(), node, "query.join", ttl=seconds) for node in new]
        for node, told in self._replies(messages, 0, seconds):
            try:
                size, claimed = whole("size", told["size"]), whole("client", told["client"], -1)
                k = claimed if self.ids is None else self.ids[node]
                distinct_ids("client", [*self.client.values(), k], self.server.clients)
                said = {"size": size, "usable": told["usable"] is True, "step": told["step"]}
            except (KeyError, TypeError, ValueError) as error:
                LOGGER.warning("node %d does not join: %s", node, error)
                continue
            if claimed not in (-1, k):
                LOGGER.warning("node %d is client %d and says it is %d", node, k, claimed)
            if not said["usable"]:
                LOGGER.warning("client %d holds inputs that are not finite and takes no part", k)
            self.client[node], self.said[k] = k, said
            if self.begun:
                self._seat(k)

    def _ask(
        self, kind: str, contents: Mapping[int, RecordDict], t: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """What the clients reply, by the id that their node stands for; late ones do not."""
        online = set(self.grid.get_node_ids())
        node = {k: n for k, n in self.node.items() if n in online}
        messages = [
            Message(contents[k], node[k], kind, ttl=self.timeout, group_id=str(t))
            for k in contents
            if k in node
        ]
        for sender, told in self._replies(messages, t, self.timeout):
            k = self.client[sender]
            if told.get("client") != k:
                LOGGER.warning("round %d: client %d says it is %s", t, k, told.get("client"))
            if told.get("t") == t:
                yield k, told

    def _replies(
        self, messages: list[Message], t: int, seconds: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Replies by the node that sent them, the first of each; errors are logged."""
        waiting = {message.metadata.dst_node_id for message in messages}
        replies = self.grid.send_and_receive(messages, timeout=seconds) if messages else []
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            if node not in waiting:
                continue
            try:
                told = unpack(reply.content)
            except Exception as error:  # whatever a node sends; an error reply has no content
                why = reply.error.reason if reply.has_error() else error
                LOGGER.warning("round %d: node %d fails: %s", t, node, why)
                continue
            waiting.remove(node)
            yield node, told
        if waiting:
            LOGGER.warning("round %d: nothing from node %s", t, names(waiting))
