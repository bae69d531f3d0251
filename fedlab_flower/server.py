"""Server: a strategy of the book as a strategy of Flower's, with the rounds that ``fm.train`` has.

Chapter 11 uses it. Below: records, engine.train. Beside: client. Above: simulation.
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
from fedlab_mini.checks import distinct_ids, flag, home, instance, number, whole
from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.guard import made_from, names, starting_model
from fedlab_mini.engine.train import Training

from .records import LOGGER, Tasks, message_parts, pack, prefixed

JOIN_WAIT = 30.0  # seconds that one question to nodes who they are may take
SIZE, HEARD = range(2)  # rows of what is remembered of the clients


class TrainingApp(ServerApp):
    """A ServerApp that leaves the ``history`` of its training, once that has ended.

    Its ``labels`` are empty: clients keep theirs.
    """

    history: fm.History | None = None


def server_app(net: fm.Model, strategy: fl.Strategy, **settings: Any) -> TrainingApp:
    """The ServerApp of a training: a `FlowerStrategy` with these settings, started by a run.

    clients     {Flower's node id: client id 0..K-1}, which decides whose a reply is, whatever it
                says; or K: then nodes are believed what they say they are, as in a simulation
    validation, test  the server's samples (x, y)
    history     file of the history, which is written after every round and gone on from; read it
                with ``fm.History.load(path).to_frame()``
    same_as_train  clients are told the seed and the sizes of all, so that their minibatches are
                those of ``fm.train``. Without, each draws its own, from a seed that its data make
    timeout     seconds that a round waits for replies; who is late or fails is missing in it
    patience    seconds that the start waits for clients that have not joined
    other arguments, errors: see ``fm.train``. RuntimeError where ``same_as_train`` lacks a client
    """
    made, app = FlowerStrategy(net, strategy, **settings), TrainingApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        app.history = made.train(grid)

    return app


class FlowerStrategy(Strategy):
    """Any strategy of the book as one of Flower's, over clients that run `client_app`.

    It is also the book's ``Workers``: Flower's ``start`` asks whom to train and brings the replies,
    and the rest of a round is ``Training.one_round``, as in one process.

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
        self.strategy, self.local = strategy, fm.LocalSGD() if local is None else local
        instance("net", net, fm.Model, "fm.Model(module)")
        # The server's own samples, checked, as a federation of one.
        x, y = map(torch.as_tensor, validation)
        classes = 0 if y.is_floating_point() else net.outputs(x)
        own = fm.Federation.from_datasets(
            [validation], validation=validation, test=test, classes=classes
        )
        net, self.theta = starting_model(own, net, rounds, self.local, seed)
        self.registered = clients if isinstance(clients, Mapping) else None
        K = whole("clients", len(clients) if isinstance(clients, Mapping) else clients)
        distinct_ids("clients", [*self.registered.values()] if self.registered else [], K)
        self.server = fm.Server(K, own.classes, net, own.validation, seed)
        self.own, self.table = own, torch.zeros(2, K, dtype=torch.long)
        # {node id: client id} of those that have joined
        self.client_of: dict[int, int] = {}
        self.refused = Counter[int]()  # how often a node was asked in vain to join
        self.received: dict[int, dict[str, Any]] = {}

    def train(self, grid: Grid) -> fm.History:
        """Wait for the clients, then all rounds that the history does not hold yet."""
        there = self.path is not None and self.path.exists()
        start = fm.History.load(self.path) if there else None  # type: ignore[arg-type]
        self.grid = grid
        self._gather(self.alike and start is None)
        setting = self.server, self, self.strategy, self.local, self.theta, self.own.test
        self.training = Training(*setting)
        done = 0 if start is None else len(start.accuracy) - 1
        # No round yet: the first model is judged, or the history is checked and taken up.
        self.training.run(min(done, self.rounds), start)
        left, judged = self.rounds - done, self._judged
        self.start(grid, self._arrays(), left, self.timeout, evaluate_fn=judged)
        return self.training.history()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Tasks for the clients that the book's strategy chooses, as far as they are there."""
        log, training = self.training.log, self.training
        self.grid, t = grid, log.rounds + 1
        # A function of the state: `one_round` asks again, and hears the same.
        asked = self.strategy.select(training.told, log.state, t)
        chosen = distinct_ids("clients", asked, self.server.clients).tolist()
        # A server that is cut off spends no rounds.
        self._wait(t, self.timeout, lambda: not chosen or self._online() & set(chosen))
        shared: dict[str, Any] = prefixed("local.", vars(self.local))
        if self.alike:
            shared |= {"seed": self.server.seed, "sizes": self.sizes}
            shared["last_step"] = log.last_step  # for attackers that replay it
        contents = {k: pack(**shared, **self._basics(k, t)) for k in chosen}
        self.tasks = self._tasks("train", contents, t)
        return self.tasks.messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The round of the book, with what came; its scores go to Flower's log."""
        self.received = self._by_client(self.tasks.believed(replies))
        self.training.one_round(self.training.log.rounds + 1)
        if self.path is not None:
            # A server may be killed at any moment, and goes on from there.
            self.training.history().save(self.path)
        scores = self.training.log.last_scores.tolist()
        said = {f"score of client {k}": score for k, score in enumerate(scores)}
        return self._arrays(), MetricRecord(said)

    def configure_evaluate(self, *_: Any, **__: Any) -> list[Message]:
        """Nobody: the server judges on its own samples."""
        return []

    def aggregate_evaluate(self, *_: Any, **__: Any) -> None:
        """Nothing: nobody was asked."""

    def summary(self) -> None:
        """What Flower's log says at the start."""
        LOGGER.info("%r over clients %s", self.strategy, names(self.client_of.values()))

    def _arrays(self) -> ArrayRecord:
        return pack(theta=self.training.log.theta).array_records["arrays"]

    def _judged(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        accuracy, loss = self.training.log.accuracy[-1], self.training.log.loss[-1]
        return MetricRecord({"accuracy": float(accuracy), "loss": float(loss)})

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]; 0 for those that have not joined."""
        return self.table[SIZE]

    @property
    def memory(self) -> Tensor:
        """What a history holds of the clients, [2, K]: sizes, and when labels last changed."""
        return self.table.clone()

    def restore(self, memory: Tensor) -> None:
        """Go on with these sizes and rounds."""
        self.table = memory.clone()

    def made_from(self) -> dict[str, str]:
        """The server's part of the training."""
        net, clients = self.server.net, str(self.server.clients)
        return made_from(self.own, net, self.local, self.server.seed) | {
            "clients": clients
        }

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whose replies came in time, in the order of ``chosen``; their updates [m, P]."""
        punctual = [k for k in chosen.tolist() if k in self.received]
        if not self.alike:
            # Data may grow while training goes on; minibatches of all depend on it if alike.
            said = [self.received[k]["size"] for k in punctual]
            self.table[SIZE, punctual] = torch.tensor(said, dtype=torch.long)
        # An empty [0, P] in front: where no reply came the result still has P columns.
        rows = [self.received[k]["update"].to(theta)[None] for k in punctual]
        updates = torch.cat([theta.new_empty(0, len(theta)), *rows])
        return torch.tensor(punctual, dtype=torch.long), updates

    def answers(
        self, message: fl.Message, clients: Tensor, theta: Tensor, t: int
    ) -> Tensor:
        """Ids of those that say they changed labels; which, and how, stays with them."""
        asked = clients.tolist()
        parts = {k: self._basics(k, t) | message_parts(message, k) for k in asked}
        contents = {k: pack(**parts[k]) for k in asked}
        tasks = self._tasks("query.answer", contents, t)
        said = self._by_client(tasks.asked(self.grid))
        changed = [k for k in asked if k in said and said[k]["changed"]]
        self.table[HEARD, changed] = t
        return torch.tensor(changed, dtype=torch.long)

    def _basics(self, k: int, t: int) -> dict[str, Any]:
        """What every task for client ``k`` holds."""
        heard = int(self.table[HEARD, k])
        return {"theta": self.training.log.theta, "t": t, "client": k, "heard": heard}

    def _tasks(self, kind: str, contents: Mapping[int, Any], t: int) -> Tasks:
        """Tasks {client id: content} for those nodes that are there."""
        # Flower would wait the whole time for a node that is gone.
        online = self._online()
        here = {node: k for node, k in self.client_of.items() if k in online}
        by_node = {node: contents[k] for node, k in here.items() if k in contents}
        return Tasks(kind, by_node, t, self.server.net.P, self.timeout)

    def _by_client(self, said: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        """By client id, whatever a reply says of itself: nodes are known, names not."""
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
        """Welcome nodes until enough are there, or for so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            self._welcome(t, min(seconds, JOIN_WAIT))
            if enough() or time.monotonic() > deadline:
                return
            # Flower tells nobody when a node appears; one has to look.
            time.sleep(0.2)

    def _online(self) -> set[int]:
        """Clients whose nodes are there."""
        there = set(self.grid.get_node_ids()) & set(self.client_of)
        return {self.client_of[node] for node in there}

    def _welcome(self, t: int, seconds: float) -> None:
        """Ask nodes that are new who they are and how many samples they hold."""
        new = set(self.grid.get_node_ids()) - set(self.client_of)
        if self.registered is not None:
            # Who is not registered is not even asked; whatever it said would count for nobody.
            new &= set(self.registered)
        # Who was asked in vain is asked ever more seldom: it may hold up a round each time.
        due = [node for node in sorted(new) if t % 2 ** self.refused[node] == 0]
        if t:  # before the first round all are waited for
            self.refused.update(due)
        contents = {node: pack() for node in due}
        tasks = Tasks("query.join", contents, t, self.server.net.P, seconds)
        for node, said in tasks.asked(self.grid).items():
            try:
                self._admit(node, said)
            except ValueError as error:
                LOGGER.warning("node %d does not join: %s", node, error)

    def _admit(self, node: int, said: Mapping[str, Any]) -> None:
        """Take a node in as the client it is registered as, or says it is."""
        k = said["client"] if self.registered is None else self.registered[node]
        # A second node in the name of a client that has joined is refused.
        distinct_ids("client", [*self.client_of.values(), k], self.server.clients)
        if (claim := said["client"]) != k:
            LOGGER.warning("node %d is client %d and says it is %d", node, k, claim)
        self.client_of[node] = k
        # What a history holds stays: minibatches of all may hang on it.
        if not self.table[SIZE, k]:
            self.table[SIZE, k] = said["size"]
