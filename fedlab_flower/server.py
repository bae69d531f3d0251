"""Server: a strategy of the book as a strategy of Flower, with the same rounds as ``fm.train``.

Chapter 11 uses it. Builds on engine.train; its counterpart is client.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Strategy
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.left_out import names
from fedlab_mini.engine.rounds import Server
from fedlab_mini.engine.train import Training, of_clients, written_to
from fedlab_mini.gate.answers import a_strategy
from fedlab_mini.gate.fit import output_count
from fedlab_mini.gate.training import check_start, starting_model
from fedlab_mini.parse.checks import distinct_ids, flag, home, instance, number, whole

from .messages import LOGGER, Tasks, message_parts, pack, prefixed

JOIN_WAIT = 30.0  # seconds that the server waits for new nodes to say who they are
SIZE, HEARD = range(2)  # rows of the table about the clients


class TrainingApp(ServerApp):
    """A ServerApp with the ``history`` of its training after the end.

    The history's ``labels`` are empty, because clients keep their labels.
    """

    history: fm.History | None = None


def server_app(net: fm.Model, strategy: fl.Strategy, **settings: Any) -> TrainingApp:
    """The ServerApp of a training run: a `FlowerStrategy` with these settings, which a run starts.

    clients     {Flower's node id: client id 0..K-1}, which decides the sender of a reply, whatever
                the reply says; or K: nodes then state their own ids, as in a simulation
    validation, test  the server's samples (x, y)
    history     file of the history, written after every round; an existing one is continued. Read
                it with ``fm.History.load(path).to_frame()``
    same_as_train  True: clients get the seed and all sizes, so that their minibatches are those of
                ``fm.train``; False: each client draws its own, with a seed made from its data
    timeout     seconds that a round waits for replies; late or failing clients are missing in it.
                Nodes that join before the first round have as long to answer, at least 30
    patience    seconds that the start waits for clients that have not joined
    other arguments, errors: see ``fm.train``. RuntimeError if ``same_as_train`` lacks a client
    """
    made, app = FlowerStrategy(net, strategy, **settings), TrainingApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        app.history = made.train(grid)

    return app


class FlowerStrategy(Strategy):
    """Any strategy of the book as one of Flower's, for clients that run `client_app`.

    It is also the book's ``Workers``: Flower's ``start`` sends the tasks and collects the replies,
    and ``Training.one_round`` does the rest of a round, as in one process.

    arguments, errors: see `server_app`
    """

    labels = torch.empty(0, dtype=torch.long)  # clients keep theirs

    def __init__(
        self,
        net: fm.Model,
        strategy: fl.Strategy,
        *,
        clients: int | Mapping[int, int],
        validation: tuple[Any, Any],
        test: tuple[Any, Any],
        rounds: int,
        local: fm.LocalSGD | None = None,
        seed: int = 0,
        history: str | os.PathLike[str] | None = None,
        same_as_train: bool = False,
        timeout: float = 60.0,
        patience: float = 60.0,
    ):
        self.timeout = number("timeout", timeout, 0, ends="(]")
        self.patience = number("patience", patience, 0, ends="(]")
        self.alike, self.rounds = flag("same_as_train", same_as_train), rounds
        self.path = None if history is None else home(history)
        self.strategy = a_strategy("strategy", strategy)
        self.local = fm.LocalSGD() if local is None else local
        instance("net", net, fm.Model, "fm.Model(module)")
        # The server's own samples, checked, as a federation of one.
        x, y = map(torch.as_tensor, validation)
        classes = 0 if y.is_floating_point() else output_count(net, x)
        own = fm.Federation.from_datasets(
            [validation], validation=validation, test=test, classes=classes
        )
        seed = whole("seed", seed, None)
        net, self.theta = starting_model(own, net, rounds, self.local, seed)
        self.registered = clients if isinstance(clients, Mapping) else None
        K = whole("clients", len(clients) if isinstance(clients, Mapping) else clients)
        distinct_ids("clients", [*self.registered.values()] if self.registered else [], K)
        self.server = Server(K, own.classes, net, own.validation, seed)
        self.own, self.table = own, torch.zeros(2, K, dtype=torch.long)
        # {node id: client id} of the nodes that have joined
        self.client_of: dict[int, int] = {}
        self.refused = Counter[int]()  # how often a node did not answer "join"
        self.received: dict[int, dict[str, Any]] = {}

    def train(self, grid: Grid) -> fm.History:
        """Wait for the clients, then run all rounds that the history does not hold yet."""
        there = self.path is not None and self.path.exists()
        start = fm.History.load(self.path) if there else None  # type: ignore[arg-type]
        self.grid = grid
        self._gather(self.alike and start is None)
        setting = self.server, self, self.strategy, self.local, self.theta, self.own.test
        self.training = Training(*setting)
        if start is not None:
            check_start(start, self.training.record.made_from, self.rounds)
        done = 0 if start is None else len(start.accuracy) - 1
        # Without a new round, this judges the first model, or checks the history and continues it.
        self.training.run(min(done, self.rounds), start)
        left, judged = self.rounds - done, self._judged
        self.start(grid, self._arrays(), left, self.timeout, evaluate_fn=judged)
        return self.training.history()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Tasks for the clients that the book's strategy selects, as far as they are online."""
        record = self.training.record
        self.grid, t = grid, record.rounds + 1
        # A function of the state, so `one_round` gets the same answer when it asks again.
        chosen = self.strategy.select(self.server, record.state, t).tolist()
        # A server without a connection must not use up rounds.
        self._wait(t, self.timeout, lambda: not chosen or self._online() & set(chosen))
        shared: dict[str, Any] = prefixed("local.", vars(self.local))
        if self.alike:
            shared |= {"seed": self.server.seed, "sizes": self.sizes}
            shared["last_step"] = record.last_step  # for attackers that replay it
        contents = {k: pack(**shared, **self._basics(k, t)) for k in chosen}
        self.tasks = self._tasks("train", contents, t)
        return self.tasks.messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The book's round with the replies received; its scores go to Flower's log."""
        self.received = self._by_client(self.tasks.believed(replies))
        self.training.one_round(self.training.record.rounds + 1)
        if self.path is not None:
            # A server may be killed at any moment, and continues from the saved history.
            self.training.history().save(self.path)
        scores = self.training.last_scores.tolist()
        said = {f"score of client {k}": score for k, score in enumerate(scores)}
        return self._arrays(), MetricRecord(said)

    def configure_evaluate(self, *_: Any, **__: Any) -> list[Message]:
        """No messages, because the server judges on its own samples."""
        return []

    def aggregate_evaluate(self, *_: Any, **__: Any) -> None:
        """Nothing, because no client got a message."""

    def summary(self) -> None:
        """Write the strategy and its clients to Flower's log at the start."""
        LOGGER.info("%r over clients %s", self.strategy, names(self.client_of.values()))

    def _arrays(self) -> ArrayRecord:
        return pack(theta=self.training.record.theta).array_records["arrays"]

    def _judged(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        accuracy, loss = self.training.record.accuracy[-1], self.training.record.loss[-1]
        return MetricRecord({"accuracy": float(accuracy), "loss": float(loss)})

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]; 0 for clients that have not joined."""
        return self.table[SIZE]

    @property
    def memory(self) -> fl.State:
        """What a history stores of clients, [2, K]: sizes, and the round of their last change."""
        return {"clients": self.table.clone()}

    def restore(self, memory: fl.State) -> None:
        """Continue with these sizes and rounds."""
        self.table = memory["clients"].clone()

    def of_clients(self) -> dict[str, str]:
        """The settings of the training that the server knows."""
        net, clients = self.server.net, str(self.server.clients)
        decided = of_clients(self.own, net, self.local, self.server.seed, written_to(self.own))
        return decided | {"clients": clients}

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The clients that replied in time, in the order of ``chosen``; their updates [m, P]."""
        punctual = [k for k in chosen.tolist() if k in self.received]
        if not self.alike:
            # Data may grow during training. If minibatches are shared, sizes must not change.
            said = [self.received[k]["size"] for k in punctual]
            self.table[SIZE, punctual] = torch.tensor(said, dtype=torch.long)
        # An empty [0, P] in front, so that the result has P columns even without replies.
        rows = [self.received[k]["update"].to(theta)[None] for k in punctual]
        updates = torch.cat([theta.new_empty(0, len(theta)), *rows])
        return torch.tensor(punctual, dtype=torch.long), updates

    def answers(self, message: fl.Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of the clients that say they changed labels; they do not say which labels or how."""
        asked = clients.tolist()
        parts = {k: self._basics(k, t) | message_parts(message, k) for k in asked}
        contents = {k: pack(**parts[k]) for k in asked}
        tasks = self._tasks("query.answer", contents, t)
        said = self._by_client(tasks.asked(self.grid))
        changed = [k for k in asked if k in said and said[k]["changed"]]
        self.table[HEARD, changed] = t
        return torch.tensor(changed, dtype=torch.long)

    def _basics(self, k: int, t: int) -> dict[str, Any]:
        """The parts of every task for client ``k``."""
        heard = int(self.table[HEARD, k])
        return {"theta": self.training.record.theta, "t": t, "client": k, "heard": heard}

    def _tasks(self, kind: str, contents: Mapping[int, Any], t: int) -> Tasks:
        """Tasks {client id: content}, for nodes that are online."""
        # For an absent node, Flower would wait until the timeout.
        online = self._online()
        here = {node: k for node, k in self.client_of.items() if k in online}
        by_node = {node: contents[k] for node, k in here.items() if k in contents}
        return Tasks(kind, by_node, t, self.server.net.P, self.timeout)

    def _by_client(self, said: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        """Replies by client id; the node decides the id, not the content of the reply."""
        return {self.client_of[node]: parts for node, parts in said.items()}

    def _gather(self, all_needed: bool) -> None:
        """Wait until all have joined, or for ``patience`` seconds."""
        K = self.server.clients
        self._wait(0, self.patience, lambda: len(self.client_of) == K)
        if absent := set(range(K)) - set(self.client_of.values()):
            why = f"client {names(absent)} has not joined in {self.patience:g} s"
            if all_needed:
                raise RuntimeError(f"same_as_train: needs all sizes, and {why}")
            LOGGER.warning(why)

    def _wait(self, t: int, seconds: float, enough: Callable[[], object]) -> None:
        """Admit nodes until ``enough()`` is true, or for so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            # Before the first round, a slow machine gets the time that it has in a round.
            self._welcome(t, min(seconds, JOIN_WAIT if t else max(JOIN_WAIT, self.timeout)))
            if enough() or time.monotonic() > deadline:
                return
            # Flower does not report new nodes, so the server has to look for them.
            time.sleep(0.2)

    def _online(self) -> set[int]:
        """Ids of the clients with a node that is online."""
        there = set(self.grid.get_node_ids()) & set(self.client_of)
        return {self.client_of[node] for node in there}

    def _welcome(self, t: int, seconds: float) -> None:
        """Ask new nodes who they are and how many samples they hold."""
        new = set(self.grid.get_node_ids()) - set(self.client_of)
        if self.registered is not None:
            # Nodes that are not registered are not asked, because their replies could not count.
            new &= set(self.registered)
        # A node that did not answer is asked more and more rarely, as each wait delays a round.
        due = [node for node in sorted(new) if t % 2 ** self.refused[node] == 0]
        if t:  # before the first round, the server waits for all
            self.refused.update(due)
        contents = {node: pack() for node in due}
        tasks = Tasks("query.join", contents, t, self.server.net.P, seconds)
        for node, said in tasks.asked(self.grid).items():
            try:
                self._admit(node, said)
            except ValueError as error:
                LOGGER.warning("node %d does not join: %s", node, error)

    def _admit(self, node: int, said: Mapping[str, Any]) -> None:
        """Admit a node under its registered client id, or under the id that it states."""
        k = said["client"] if self.registered is None else self.registered[node]
        # A second node with the id of a client that has joined is rejected.
        distinct_ids("client", [*self.client_of.values(), k], self.server.clients)
        if (claim := said["client"]) != k:
            LOGGER.warning("node %d is client %d and says it is %d", node, k, claim)
        self.client_of[node] = k
        # A size from a history does not change, because shared minibatches may depend on it.
        if not self.table[SIZE, k]:
            self.table[SIZE, k] = said["size"]
