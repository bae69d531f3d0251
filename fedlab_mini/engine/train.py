"""Training: rounds of federated averaging under a strategy. Chapter 1 derives it.

``Training.one_round`` is a round as a server sees it, wherever its clients are: in this process
(``InProcess``) or somewhere else (``flower``). Below: updates, guard. Beside: simulate. Above:
games, methods.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..checks import distinct_ids, reals, store, whole, wholes
from ..streams import one_thread
from ..worlds.federation import Federation, Samples
from . import guard, progress
from .files import described
from .history import History, Log
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .rounds import Message, Round, Server, Step, Strategy, Workers, copied
from .updates import UpdateMemory, UsableUpdates, round_updates


def train(
    fed: Federation,
    net: Model,
    strategy: Strategy,
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    theta: Tensor | None = None,
    start: History | None = None,
    watch: Callable[[Round, Step], object] | None = None,
) -> History:
    """Train one federated model under a strategy.

    rounds   of the whole training, those of ``start`` among them
    theta    [P] the first model; default: ``net.init(seed)``
    start    a history of this very training to go on from, as it was returned or loaded
    watch    called as ``watch(round, step)`` after every round's step; it changes nothing
    returns  a ``History``; same seed, same bytes, in one go or in several
    raises   ValueError or TypeError naming the argument, or what of the strategy's answers is
             no answer. A client whose update is not finite or far too long (``UsableUpdates``)
             is left out of that round, and named in a warning the first time
    """
    local = LocalSGD() if local is None else local
    net, theta = guard.starting_model(fed, net, rounds, local, seed, theta, start)
    guard.warn_unusable_data(fed)
    server = Server(fed.clients, fed.classes, net, fed.validation, seed)
    workers = InProcess(fed, net, local, seed)
    training = Training(server, workers, strategy, local, theta, fed.test, watch)
    return training.run(rounds, start)


@dataclass(eq=False)
class Training:
    """The server's side of a training: its strategy, the way to its clients, what happened."""

    server: Server
    workers: Workers
    strategy: Strategy
    local: LocalSGD
    theta: Tensor
    test: Samples
    watch: Callable[[Round, Step], object] | None = None

    def __post_init__(self) -> None:
        self.began, self.blame = time.perf_counter(), guard.Blame()
        guard.check_strategy(self.strategy)
        self.name = type(self.strategy).__name__
        # A copy of the server: clients and the rule of usable updates share this one's model.
        self.told = self.server.copy()
        first_state = self.strategy.init(self.told)
        self.log = Log(
            theta=self.theta,
            last_step=torch.zeros_like(self.theta),
            memory=self.workers.memory,
            state=copied(guard.checked_state(f"{self.name}.init", first_state)),
            first_length=max(1.0, float(torch.linalg.vector_norm(self.theta))),
        )

    def made_from(self) -> dict[str, str]:
        """What decides the training, part by part."""
        return made_from(self.workers, self.strategy)

    def run(
        self,
        rounds: int,
        start: History | None = None,
        after: Callable[[int, Log, Tensor], None] | None = None,
    ) -> History:
        """All rounds that ``start`` does not hold yet; see ``train``.

        after  is called with every round's number, the log up to it, ids that sent nothing usable
        """
        if start is None:
            self._evaluate()  # the model before round 1 is the first entry
        else:
            guard.check_start(start, self.made_from(), rounds)
            self.log = Log.after(start, self.log)
        self.rule = UsableUpdates(self.server, self.log.first_length, self.local)
        # Also at the start, where clients have nothing to take back yet.
        self.workers.restore(self.log.memory)
        for t in progress.bar(range(self.log.rounds + 1, rounds + 1), "rounds"):
            missing = self.one_round(t)
            if after is not None:
                after(t, self.log, missing)
        self.blame.sum_up()
        return self.history()

    def history(self) -> History:
        """What the training leaves behind, as far as it has come."""
        seconds, parts = time.perf_counter() - self.began, (self.workers, self.strategy)
        decided_by = partial(made_from, *parts)
        return self.log.history(self.strategy, seconds, self.workers.labels, decided_by)

    def one_round(self, t: int) -> Tensor:
        """Choose, train, leave out what is unusable, step, note; returns who is missing."""
        log, workers = self.log, self.workers
        with guard.unwritten(f"{self.name}.select", 'state["{}"]', log.state):
            asked = self.strategy.select(self.told, log.state, t)
        # Copies, here and below: what a strategy has returned it may write to again.
        chosen = distinct_ids("clients", asked, self.server.clients).clone()

        clients, updates = workers.updates(log.theta, chosen, t, log.last_step)
        # A client that is left out below has trained all the same: its epochs count.
        passes = [self.local.passes(size) for size in workers.sizes[clients].tolist()]
        log.client_epochs += sum(passes)

        clients, updates, unblamed = self._leave_out_unusable(clients, updates, t)
        # An unblamed client sent what it could: it is neither used nor missing.
        missing = chosen[~torch.isin(chosen, torch.cat([clients, unblamed]))]

        sizes = workers.sizes[clients]
        weights = self._step(
            Round(t, log.theta.clone(), clients, sizes, updates, missing)
        )
        self._exchange_messages(t)
        self._note(chosen, clients, weights)
        return missing

    def _leave_out_unusable(
        self, clients: Tensor, updates: Tensor, t: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Clients [m] and updates [m, P] that count; clients that nobody blames for theirs."""
        # The rule judges many runs at once; here all clients belong to run 0.
        only_run = torch.zeros_like(clients)
        verdict = self.rule.judge(self.log.theta[None], only_run, updates, t)
        if verdict is None:
            return clients, updates, clients[:0]
        unblamed = clients[verdict.unblamed]
        self.blame.note(t, clients[verdict.blamed].tolist(), len(unblamed))
        return (
            clients[verdict.usable],
            updates[verdict.usable.to(updates.device)],
            unblamed,
        )

    def _step(self, round: Round) -> Tensor:
        """The strategy's step into the log; the weights [m]. Nothing moves where nothing came."""
        log, name = self.log, f"round {round.t}: {self.name}.step"
        if len(round.clients) == 0:
            log.last_step = torch.zeros_like(log.theta)
            return log.theta.new_zeros(0)
        # The same bytes whatever the number of threads.
        with one_thread(), guard.unwritten(name, "round.{}", vars(round)):
            answer = self.strategy.step(self.told, copied(log.state), round)
            step = guard.checked_step(name, answer, round, log.state)
            if self.watch is not None:
                self.watch(round, step._replace(state=copied(step.state)))
        log.last_step, log.theta = step.theta - log.theta, step.theta
        log.state, log.model_evaluations = (
            step.state,
            log.model_evaluations + step.evaluated,
        )
        return step.weights

    def _exchange_messages(self, t: int) -> None:
        """What the strategy asks of clients beside training; it hears who changed labels."""
        log, strategy = self.log, self.strategy
        with guard.unwritten(f"{self.name}.message", 'state["{}"]', log.state):
            message = strategy.message(self.told, log.state, t)
        if message is None:
            return
        asked = distinct_ids("clients", message.clients, self.server.clients)
        changed = self.workers.answers(message, asked, log.theta, t)
        if len(changed):
            state = strategy.heard(self.told, copied(log.state), changed)
            log.state = guard.checked_state(f"{self.name}.heard", state, log.state)

    def _note(self, chosen: Tensor, clients: Tensor, weights: Tensor) -> None:
        """Write into the log what the round has left behind."""
        log, K, name = self.log, self.server.clients, f"{self.name}.scores"
        with guard.unwritten(name, 'state["{}"]', log.state):
            scores = reals(name, self.strategy.scores(self.told, log.state), [K])
        applied = torch.zeros(K, dtype=weights.dtype, device=weights.device)
        applied[clients] = weights
        selected = torch.zeros(K, dtype=torch.bool)
        selected[chosen] = True
        log.note(scores=scores.clone(), weights=applied, selected=selected)
        # Labels may have changed on a message in this round.
        log.memory = self.workers.memory
        self._evaluate()

    def _evaluate(self) -> None:
        """Accuracy and loss of the model as it now is, on the server's test samples."""
        net, theta = self.server.net, self.log.theta[None]
        self.log.accuracy.append(net.evaluate(theta, *self.test, "accuracy")[0].cpu())
        self.log.loss.append(net.evaluate(theta, *self.test, "loss")[0].cpu())


def made_from(workers: Workers, strategy: Strategy) -> dict[str, str]:
    """What decides a training, part by part, in words or as a hash."""
    return workers.made_from() | {"strategy": described(strategy)}


class InProcess:
    """The clients of a federation as ``Workers``: in this process, trained in one stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        # A message shows a client its labels as they were at first beside those it has now.
        self.original = fed
        self.shuffles, self.update_memory = Shuffles(fed, local, seed), UpdateMemory()

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]."""
        return self.fed.sizes

    @property
    def labels(self) -> Tensor:
        """All clients' labels [n], as they now have them."""
        return self.fed.y

    memory = labels

    def restore(self, memory: Tensor) -> None:
        """Go on with these labels [n]."""
        # Not ``replace``, which would copy all samples.
        self.fed = copy.copy(self.fed)
        store(self.fed, y=memory)
        self.shuffles.stack = None  # its working memory refers to the labels

    def made_from(self) -> dict[str, str]:
        """All that the training depends on, part by part."""
        return guard.made_from(self.original, self.net, self.local, self.seed)

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Ids of those that can take part, and their updates [m, P] in round ``t``."""
        # A client whose data are not finite is never asked: it is missing.
        able = [k for k in chosen.tolist() if k not in self.fed.unusable]
        able_ids = torch.tensor(able, dtype=torch.long)
        updates = round_updates(
            self.fed,
            self.net,
            theta,
            able_ids,
            self.shuffles,
            t,
            last_step,
            self.update_memory,
        )
        return able_ids, updates

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of the clients that changed labels; from now on they train on the new ones."""
        fed, labels, changed = self.fed, self.fed.y.clone(), []
        for k in clients.tolist():
            if k in fed.unusable:
                continue
            x, y = fed.client(k)
            samples = slice(*fed.offsets[k : k + 2].tolist())
            # Copies, so that an answer cannot write into the federation or the model.
            original = self.original.y[samples].clone()
            answer = message.answer(self.net, theta.clone(), x, original, y.clone())
            renamed = checked_labels(answer, k, len(y), fed.classes).to(labels)
            if not torch.equal(renamed, y):
                labels[samples] = renamed
                changed.append(k)
        if changed:
            self.restore(labels)
        return torch.tensor(changed, dtype=torch.long)


def checked_labels(answer: object, k: int, count: int, classes: int) -> Tensor:
    """Client k's answer to a message, checked: labels [count] in 0..classes-1."""
    return wholes(f"message: what client {k} answers", answer, [count], high=classes - 1)


def local_updates(
    fed: Federation,
    net: Model,
    theta: Tensor | None,
    clients: Tensor | Sequence[int] | None = None,
    *,
    local: LocalSGD | None = None,
    seed: int = 0,
    t: int = 1,
) -> Tensor:
    """What the named clients send back in round ``t``: updates [m, P], one row a client.

    theta [P]; clients: ids in the order of the rows, default all
    raises     ValueError for unknown or repeated ids
    """
    local, t = LocalSGD() if local is None else local, whole("t", t)
    net, theta = guard.starting_model(fed, net, 1, local, seed, theta)
    named = range(fed.clients) if clients is None else clients
    named_ids = distinct_ids("clients", named, fed.clients)
    shuffles = Shuffles(fed, local, seed)
    # No earlier round is known here: who replays the server's last step sends zeros.
    return round_updates(fed, net, theta, named_ids, shuffles, t, torch.zeros_like(theta))
