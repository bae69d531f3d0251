"""Nodes: Flower's nodes as the clients of a training: messages out, replies in, by client id.

Chapter 11 uses it. Below: records, engine.rounds. Above: server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import joblib
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedlab_mini.checks import distinct_ids
from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.files import described
from fedlab_mini.engine.guard import names
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.worlds.federation import Samples

from .records import LOGGER, MOST_SAMPLES, message_parts, pack, replies, settings

ATTEMPTS = 3  # at a round in which nothing usable comes
JOIN_WAIT, LONGEST_PAUSE = 30.0, 300.0  # seconds, of a node that does not join
SIZE, OFFSET, TOTAL, HEARD, MISSED = range(5)  # rows of what is remembered of the clients
PLACE = ("size", "offset", "total", "heard")  # the first of them, as clients may be told


@dataclass(frozen=True)
class Introduction:
    """What a client says of itself when it joins."""

    size: int
    usable: bool
    wants_last_step: bool


@dataclass(eq=False)
class Nodes:
    """The nodes of a Flower run as ``rounds.Workers``.

    most       {client id: samples that are registered}, which it cannot exceed; or one for all
    alike      clients are told the seed and their place, for the minibatches of ``fm.train``
    key        signs every task; None: tasks are not signed
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
    most: Mapping[int, int] | int = MOST_SAMPLES
    alike: bool = False
    key: Ed25519PrivateKey | None = None
    labels = torch.empty(0, dtype=torch.long)

    def __post_init__(self) -> None:
        server = self.server
        parts = server.net.module, server.validation, self.test, server.clients
        self.work = joblib.hash(described((parts, self.local, server.seed)))
        self.client_of: dict[int, int] = {}
        self.introductions: dict[int, Introduction] = {}
        self.table = torch.zeros(5, server.clients, dtype=torch.long)
        self.training_began = False
        # {node id: (when, pause after it)}
        self.next_try: dict[int, tuple[float, float]] = {}

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
        """What a history holds of the clients, [5, K]."""
        return self.table.clone()

    def restore(self, memory: Tensor) -> None:
        """Begin, or go on: who has joined and is unknown comes after all others."""
        self.table, self.training_began = memory.clone(), True
        # A limit that was lowered since holds for what was claimed before.
        if not self.alike:
            claimed_sizes = enumerate(self.sizes.tolist())
            self.table[SIZE] = torch.tensor(
                [min(size, self._most(k)) for k, size in claimed_sizes]
            )
        for client in sorted(self.introductions):
            self._assign_place(client)

    def made_from(self) -> dict[str, str]:
        """The server's part of the training."""
        return {"federation": self.work}

    def gather(self, patience: float) -> None:
        """Wait until all have joined, or for ``patience`` seconds, then give them places."""
        deadline, expected = time.monotonic() + patience, self.server.clients
        self._welcome(min(patience, JOIN_WAIT))
        look_count = 0
        while (
            len(self.introductions) < expected
            and (seconds_left := deadline - time.monotonic()) > 0
        ):
            # Flower tells nobody when a node appears; one has to look.
            time.sleep(0.2)
            look_count += 1
            # More time with every look: who never answers does not keep others waiting for long.
            self._welcome(min(seconds_left, JOIN_WAIT * look_count))
        absent = set(range(expected)) - set(self.introductions)
        if absent:
            LOGGER.warning(
                "client %s has not joined; the training begins without", names(absent)
            )
        for client, introduction in sorted(self.introductions.items()):
            self.table[SIZE, client] = introduction.size
        # As in a federation of one process: client after client, by id.
        self.table[OFFSET] = self.sizes.cumsum(0) - self.sizes
        self.table[TOTAL] = self.sizes.sum()

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whose replies to round ``t`` came in time, in the order of ``chosen``; updates [m, P].

        raises  RuntimeError if nothing usable comes from anybody who is there, ``ATTEMPTS`` times
        """
        update_of: dict[int, Tensor] = {}
        for attempt in range(ATTEMPTS if len(chosen) else 0):
            self._wait_for(chosen)
            update_of = self._trained(theta, chosen, t, last_step)
            if update_of:
                break
            LOGGER.warning("round %d: nothing usable came, attempt %d", t, attempt + 1)
        # Where others are there, those who were chosen are missing, and the next round is theirs.
        if len(chosen) and not update_of and not self._online() - set(chosen.tolist()):
            raise RuntimeError(
                f"round {t}: no client that is there sent a usable update, {ATTEMPTS} times; the "
                "training ends here, and goes on from its history when it is started again"
            )
        # Replies come in any order; a round has its rows in the order of the ids asked.
        punctual = [client for client in chosen.tolist() if client in update_of]
        silent_clients = sorted(set(chosen.tolist()) - set(punctual))
        self.table[MISSED, silent_clients] += 1
        # An empty [0, P] in front: where no reply came the result still has P columns.
        updates = [
            theta.new_empty(0, len(theta)),
            *(update_of[client][None] for client in punctual),
        ]
        return torch.tensor(punctual, dtype=torch.long), torch.cat(updates)

    def _trained(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> dict[int, Tensor]:
        """{client: update [P]} of those who answer the task of round ``t`` once."""
        tasks = {}
        for client in self._able(chosen):
            # Only an attacker that replays the step has a use for it.
            previous = last_step if self.introductions[client].wants_last_step else None
            seed = self.server.seed if self.alike else None
            place = self._place(client, t)
            task = pack(
                theta=theta, seed=seed, previous=previous, **settings(self.local), **place
            )
            tasks[client] = task
        update_of = {}
        for client, reply in self._ask("train", tasks, t):
            update_of[client] = reply["update"].to(theta)
            # Data may grow while training goes on; minibatches of all depend on it if alike.
            if not self.alike:
                self.table[SIZE, client] = self._counted(client, reply["size"])
        return update_of

    def answers(
        self, message: fl.Message, clients: Tensor, theta: Tensor, t: int
    ) -> Tensor:
        """Ids of those that say they changed labels; which, and how, stays with them."""
        able_clients = self._able(clients)
        questions = {
            client: pack(
                theta=theta, **self._place(client, t), **message_parts(message, client)
            )
            for client in able_clients
        }
        answer_of = dict(self._ask("query.answer", questions, t))
        changed = [
            client for client in able_clients if answer_of.get(client, {}).get("changed")
        ]
        self.table[HEARD, changed] = t
        return torch.tensor(changed, dtype=torch.long)

    def _able(self, clients: Tensor) -> list[int]:
        """Those of the clients that have joined and whose data are finite."""
        known = self.introductions
        return [
            client
            for client in clients.tolist()
            if client in known and known[client].usable
        ]

    def _wait_for(self, chosen: Tensor) -> None:
        """Wait until one of the clients is there: a server that is cut off spends no rounds."""
        deadline = time.monotonic() + self.timeout
        while len(chosen):
            self._welcome(min(self.timeout, JOIN_WAIT))
            if self._online() & set(chosen.tolist()) or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def _online(self) -> set[int]:
        """Clients whose nodes are there and whose data can be used."""
        online_clients = [
            self.client_of[node]
            for node in self.grid.get_node_ids()
            if node in self.client_of
        ]
        return set(self._able(torch.tensor(online_clients, dtype=torch.long)))

    def _most(self, client: int) -> int:
        """The most samples that a client may claim."""
        limit = self.most
        return limit if isinstance(limit, int) else limit.get(client, MOST_SAMPLES)

    def _counted(self, client: int, size: int) -> int:
        """As many samples as a client says it has, up to those that are registered."""
        limit = self._most(client)
        if size > limit:
            LOGGER.warning("client %d claims %d samples; %d count", client, size, limit)
        return min(size, limit)

    def _place(self, client: int, t: int) -> dict[str, Any]:
        """What a client has to know of the training beside the model."""
        # The last row, how often it was silent, is not for the client: `zip` leaves it out.
        place = dict(zip(PLACE, self.table[:, client].tolist(), strict=False))
        if self.alike:
            place["clients"] = self.server.clients
        else:  # nobody else's business
            place = {"heard": place["heard"]}
        return place | {"client": client, "t": t, "mark": self.work}

    def _assign_place(self, client: int) -> None:
        """A place among all samples for a client that had none when training began."""
        # After all others, whose minibatches stay what they were.
        if not self.table[SIZE, client]:
            first_free = int((self.table[OFFSET] + self.sizes).max())
            size = self.introductions[client].size
            self.table[: TOTAL + 1, client] = torch.tensor(
                [size, first_free, first_free + size]
            )

    def _welcome(self, seconds: float) -> None:
        """Ask nodes that are new who they are and how many samples they hold."""
        newcomers, now = (
            sorted(set(self.grid.get_node_ids()) - set(self.client_of)),
            time.monotonic(),
        )
        if self.registered is not None:
            # Who is not registered is not even asked; whatever it said would count for nobody.
            newcomers = [node_id for node_id in newcomers if node_id in self.registered]
        next_tries = {
            node_id: self.next_try.get(node_id, (now, 1.0)) for node_id in newcomers
        }
        asked_nodes = [
            node_id for node_id, (due_time, _) in next_tries.items() if due_time <= now
        ]
        contents = {node_id: pack() for node_id in asked_nodes}
        for node_id, reply in self._replies("query.join", contents, 0, seconds):
            try:
                self._admit(node_id, reply)
            except ValueError as error:
                LOGGER.warning("node %d does not join: %s", node_id, error)
        # Who was not taken in is asked again, ever more seldom.
        for node_id in asked_nodes:
            pause = next_tries[node_id][1]
            self.next_try[node_id] = (
                time.monotonic() + pause,
                min(2 * pause, LONGEST_PAUSE),
            )

    def _admit(self, node_id: int, reply: Mapping[str, Any]) -> None:
        """Take a node in as the client it is registered as, or says it is; errors if it cannot."""
        claimed = reply["client"]
        client = claimed if self.registered is None else self.registered[node_id]
        # A second node in the name of a client that has joined is refused.
        distinct_ids("client", [*self.client_of.values(), client], self.server.clients)
        introduction = Introduction(
            size=self._counted(client, reply["size"]),
            usable=reply["usable"],
            wants_last_step=reply["step"],
        )
        # -1 is no claim: such a node leaves it to the server who it is.
        if claimed not in (-1, client):
            LOGGER.warning(
                "node %d is client %d and says it is %d", node_id, client, claimed
            )
        if not introduction.usable:
            LOGGER.warning(
                "client %d holds inputs that are not finite and takes no part", client
            )
        self.client_of[node_id], self.introductions[client] = client, introduction
        if self.training_began:
            self._assign_place(client)

    def _ask(
        self, kind: str, contents: Mapping[int, RecordDict], t: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Replies by client id, whatever a reply says of itself: nodes are known, names are not."""
        # Flower would wait the whole time for a node that is gone.
        online = set(self.grid.get_node_ids())
        node_of = {
            client: node_id
            for client, node_id in self.node_of.items()
            if node_id in online
        }
        by_node = {
            node_of[client]: task
            for client, task in contents.items()
            if client in node_of
        }
        for sender, reply in self._replies(kind, by_node, t, self.timeout):
            client = self.client_of[sender]
            if reply["client"] != client:
                LOGGER.warning(
                    "round %d: client %d says it is %s", t, client, reply["client"]
                )
            # A late reply to an earlier round is no answer to this one.
            if reply["t"] == t:
                yield client, reply

    def _replies(
        self, kind: str, contents: Mapping[int, RecordDict], t: int, seconds: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Usable replies to tasks {node id: task} by the node that sent them."""
        return replies(self.grid, kind, contents, t, seconds, self.server.net.P, self.key)
