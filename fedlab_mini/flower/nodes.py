"""Nodes: Flower's nodes as the clients of a training: messages out, replies in, by client id.

Chapter 11 uses it. Below: records, engine.rounds. Above: server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from ..checks import distinct_ids, reals, whole
from ..engine import rounds as fl
from ..engine.checkpoint import Mark, fingerprint
from ..engine.guard import names
from ..engine.minibatches import LocalSGD
from ..worlds.federation import Samples
from .records import LOGGER, message_parts, pack, settings, unpack

SIZE, OFFSET, TOTAL, HEARD, MISSED = range(5)  # rows of what is remembered of the clients
PLACE = ("size", "offset", "total", "heard")  # the first of them, as clients are told


@dataclass(frozen=True)
class Introduction:
    """What a client says of itself when it joins."""

    size: int
    usable: bool
    wants_last_step: bool


@dataclass(eq=False)
class Nodes:
    """The nodes of a Flower run as ``rounds.Workers``.

    client_of  {node id: client id} of the nodes that have joined
    table      [5, K]: samples, where they begin among all samples, how many all are, the round in
               which the client last said that it changed labels, rounds in which it sent nothing
    """

    grid: Grid
    server: fl.Server
    test: Samples
    registered: Mapping[int, int] | None
    local: LocalSGD
    timeout: float
    labels = torch.empty(0, dtype=torch.long)

    def __post_init__(self) -> None:
        server, work = self.server, (self.server.net, self.server.validation, self.test)
        self.work = fingerprint(*work, server.clients, self.local, server.seed)
        self.client_of: dict[int, int] = {}
        self.introductions: dict[int, Introduction] = {}
        self.table = torch.zeros(5, server.clients, dtype=torch.long)
        self.training_began = False

    @property
    def node_of(self) -> dict[int, int]:
        """{client id: node id} of those that have joined."""
        return {client: node_id for node_id, client in self.client_of.items()}

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]; 0 for those that have not joined."""
        return self.table[SIZE]

    @property
    def memory(self) -> Tensor:
        """What a checkpoint holds of the clients, [5, K]."""
        return self.table.clone()

    def restore(self, memory: Tensor) -> None:
        """Begin, or go on: who has joined and is unknown comes after all others."""
        self.table, self.training_began = memory.clone(), True
        for client in sorted(self.introductions):
            self._assign_place(client)

    def mark(self) -> Mark:
        """The server's part of the training, for checkpoints."""
        return {"federation": self.work}

    def gather(self, patience: float) -> None:
        """Wait until all have joined, or for ``patience`` seconds, then give them places."""
        deadline, wanted = time.monotonic() + patience, self.server.clients
        self._welcome(patience)
        while (
            len(self.introductions) < wanted and (seconds_left := deadline - time.monotonic()) > 0
        ):
            # Flower tells nobody when a node appears; one has to look.
            time.sleep(0.2)
            self._welcome(seconds_left)
        absent = set(range(wanted)) - set(self.introductions)
        if absent:
            LOGGER.warning("client %s has not joined; the training begins without", names(absent))
        for client, introduction in sorted(self.introductions.items()):
            self.table[SIZE, client] = introduction.size
        # As in a federation of one process: client after client, by id.
        self.table[OFFSET] = self.sizes.cumsum(0) - self.sizes
        self.table[TOTAL] = self.sizes.sum()

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whose replies to round ``t`` came in time, in the order of ``chosen``; updates [m, P]."""
        self._wait_for(chosen)
        tasks = {}
        for client in self._able(chosen):
            # Only an attacker that replays the step has a use for it.
            previous = last_step if self.introductions[client].wants_last_step else None
            place = self._place(client, t)
            tasks[client] = pack(
                theta=theta,
                seed=self.server.seed,
                previous=previous,
                **settings(self.local),
                **place,
            )
        update_shape = [self.server.net.P]
        update_of = {}
        for client, reply in self._ask("train", tasks, t):
            try:
                update = reals(
                    "update", reply["update"], update_shape, dtype=theta.dtype, finite=False
                )
                update_of[client] = update.to(theta)
            except (KeyError, TypeError, ValueError) as error:
                LOGGER.warning("round %d: client %d sent no update (%s)", t, client, error)
        # Replies come in any order; a round has its rows in the order of the ids asked.
        punctual = [client for client in chosen.tolist() if client in update_of]
        silent = sorted(set(chosen.tolist()) - set(punctual))
        self.table[MISSED, silent] += 1
        updates = [
            theta.new_empty(0, len(theta)),
            *(update_of[client][None] for client in punctual),
        ]
        return torch.tensor(punctual, dtype=torch.long), torch.cat(updates)

    def answers(self, message: fl.Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of those that say they changed labels; which, and how, stays with them."""
        asked = self._able(clients)
        questions = {
            client: pack(theta=theta, **self._place(client, t), **message_parts(message, client))
            for client in asked
        }
        replies = dict(self._ask("query.answer", questions, t))
        changed = [client for client in asked if replies.get(client, {}).get("changed") is True]
        self.table[HEARD, changed] = t
        return torch.tensor(changed, dtype=torch.long)

    def _able(self, clients: Tensor) -> list[int]:
        """Those of the clients that have joined and whose data are finite."""
        known = self.introductions
        return [client for client in clients.tolist() if client in known and known[client].usable]

    def _wait_for(self, chosen: Tensor) -> None:
        """Wait until one of the clients is there: a server that is cut off spends no rounds."""
        deadline = time.monotonic() + self.timeout
        while len(chosen):
            self._welcome(self.timeout)
            online = {self.client_of.get(node_id) for node_id in self.grid.get_node_ids()}
            if online & set(chosen.tolist()) or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def _place(self, client: int, t: int) -> dict[str, Any]:
        """What a client has to know of the training beside the model."""
        place = dict(zip(PLACE, self.table[:, client].tolist(), strict=False))
        return place | {"client": client, "clients": self.server.clients, "t": t, "mark": self.work}

    def _assign_place(self, client: int) -> None:
        """A place among all samples for a client that had none when training began."""
        # After all others, whose minibatches stay what they were.
        if not self.table[SIZE, client]:
            deadline = int((self.table[OFFSET] + self.sizes).max())
            size = self.introductions[client].size
            self.table[: TOTAL + 1, client] = torch.tensor([size, deadline, deadline + size])

    def _welcome(self, seconds: float) -> None:
        """Ask nodes that are new who they are and how many samples they hold."""
        newcomers = sorted(set(self.grid.get_node_ids()) - set(self.client_of))
        if self.registered is not None:
            newcomers = [node_id for node_id in newcomers if node_id in self.registered]
        messages = [
            Message(RecordDict(), node_id, "query.join", ttl=seconds) for node_id in newcomers
        ]
        for node_id, reply in self._replies(messages, 0, seconds):
            try:
                self._admit(node_id, reply)
            except (KeyError, TypeError, ValueError) as error:
                LOGGER.warning("node %d does not join: %s", node_id, error)

    def _admit(self, node_id: int, reply: Mapping[str, Any]) -> None:
        """Take a node in as the client it is registered as, or says it is; errors if it cannot."""
        claimed = whole("client", reply["client"], -1)
        client = claimed if self.registered is None else self.registered[node_id]
        distinct_ids("client", [*self.client_of.values(), client], self.server.clients)
        introduction = Introduction(
            size=whole("size", reply["size"]),
            usable=reply["usable"] is True,
            wants_last_step=reply["step"],
        )
        if claimed not in (-1, client):
            LOGGER.warning("node %d is client %d and says it is %d", node_id, client, claimed)
        if not introduction.usable:
            LOGGER.warning("client %d holds inputs that are not finite and takes no part", client)
        self.client_of[node_id], self.introductions[client] = client, introduction
        if self.training_began:
            self._assign_place(client)

    def _ask(
        self, kind: str, contents: Mapping[int, RecordDict], t: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """What the clients reply, by the id that their node stands for; late ones do not."""
        # Flower would wait the whole time for a node that is gone.
        online = set(self.grid.get_node_ids())
        node_of = {client: node_id for client, node_id in self.node_of.items() if node_id in online}
        messages = [
            Message(content, node_of[client], kind, ttl=self.timeout, group_id=str(t))
            for client, content in contents.items()
            if client in node_of
        ]
        for sender, reply in self._replies(messages, t, self.timeout):
            client = self.client_of[sender]
            if reply.get("client") != client:
                LOGGER.warning("round %d: client %d says it is %s", t, client, reply.get("client"))
            # A late reply to an earlier round is no answer to this one.
            if reply.get("t") == t:
                yield client, reply

    def _replies(
        self, messages: list[Message], t: int, seconds: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Replies by the node that sent them, the first of each; errors are logged."""
        waiting = {message.metadata.dst_node_id for message in messages}
        replies = self.grid.send_and_receive(messages, timeout=seconds) if messages else []
        # A fixed order, so that the log reads the same whoever was fast.
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node_id = reply.metadata.src_node_id
            if node_id not in waiting:
                continue
            try:
                content = unpack(reply.content)
            except Exception as error:  # whatever a node sends; an error reply has no content
                reason = reply.error.reason if reply.has_error() else error
                LOGGER.warning("round %d: node %d fails: %s", t, node_id, reason)
                continue
            waiting.remove(node_id)
            yield node_id, content
        if waiting:
            LOGGER.warning("round %d: nothing from node %s", t, names(waiting))
