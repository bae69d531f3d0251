"""Training: rounds of federated averaging under a strategy. Chapter 1 derives it.

``Training.one_round`` is a round as a server sees it, wherever its clients are: in this process
(``InProcess``) or somewhere else (``flower``). Below: updates, guard. Beside: simulate. Above:
games, methods.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import distinct_ids, reals, store, whole, wholes
from ..streams import one_thread
from ..worlds.federation import Federation, Samples
from . import guard, progress
from .checkpoint import Mark
from .history import History, Log
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .rounds import Message, Round, Server, Strategy, Workers
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
    checkpoint: str | os.PathLike | None = None,
    every: int = 50,
) -> History:
    """Train one federated model under a strategy.

    theta       [P] where to start; default: ``net.init(seed)``
    checkpoint  file that is written after every ``every`` rounds and at the end, and that an
                interrupted training goes on from; more ``rounds`` than it holds prolong it
    returns     a ``History``; same seed, same bytes, interrupted or not
    raises      ValueError or TypeError naming the argument, or what of the strategy's answers is
                no answer. A client whose update is not finite or far too long (``UsableUpdates``)
                is left out of that round, and named in a warning the first time
    """
    local = LocalSGD() if local is None else local
    net, theta = guard.starting_model(fed, net, rounds, local, seed, theta)
    every = whole("every", every)
    guard.warn_unusable_data(fed)
    server = Server(fed.clients, fed.classes, net, fed.validation, seed)
    workers = InProcess(fed, net, local, seed)
    training = Training(server, workers, strategy, local, theta, fed.test)
    return training.run(rounds, checkpoint, every)


@dataclass(eq=False)
class Training:
    """The server's side of a training: its strategy, the way to its clients, what happened."""

    server: Server
    workers: Workers
    strategy: Strategy
    local: LocalSGD
    theta: Tensor
    test: Samples

    def __post_init__(self) -> None:
        self.rule = UsableUpdates(self.server, self.theta, self.local)
        self.blame = guard.Blame()
        self.log = Log(self.theta, torch.zeros_like(self.theta), self.workers.memory)

    def run(
        self,
        rounds: int,
        checkpoint: str | os.PathLike | None,
        every: int,
        after: Callable[[int, Log, Tensor], None] | None = None,
    ) -> History:
        """All rounds that the checkpoint does not hold yet; see ``train``.

        after  is called with every round's number, the log up to it, ids that sent nothing usable
        """
        # A copy of the server: clients and the rule of usable updates share this one's model.
        its_own = self.server.copy()
        session = guard.Session(self.workers, its_own, self.strategy, checkpoint)
        # The model before round 1 is the first entry; a checkpoint brings its own.
        self._evaluate()
        self.log = session.resume(self.log, rounds)
        for t in progress.bar(range(self.log.rounds + 1, rounds + 1), "rounds"):
            missing = self.one_round(t)
            if checkpoint is not None and (t % every == 0 or t == rounds):
                session.save(self.log)
            if after is not None:
                after(t, self.log, missing)
        self.blame.sum_up()
        return session.history(self.log)

    def one_round(self, t: int) -> Tensor:
        """Choose, train, leave out what is unusable, aggregate, note; returns who is missing."""
        log, workers = self.log, self.workers
        asked = self.strategy.select(t)
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
        this = Round(t, log.theta.clone(), clients, sizes, updates, missing)
        theta = self._aggregate(this)
        log.theta, log.last_step = theta, theta - log.theta
        self._exchange_messages(t)
        self._note(chosen)
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

    def _aggregate(self, round: Round) -> Tensor:
        """The strategy's new model [P]; the old one where nothing came that counts."""
        strategy, theta = self.strategy, round.theta
        # Nobody's weight is carried over from the round before.
        strategy.applied = torch.zeros(
            self.server.clients, dtype=theta.dtype, device=theta.device
        )
        if len(round.clients) == 0:
            return theta
        recorded, before = getattr(strategy, "rounds", None), _writes(round)
        with one_thread():  # the same bytes whatever the number of threads
            answer = strategy.aggregate(round)
        # Asked only where it looks wrong: a round in order passes no ceremony.
        if (after := _writes(round)) != before:
            guard.refuse_written(strategy, round.t, before, after)
        if getattr(strategy, "rounds", None) == recorded:
            guard.check_recorded(strategy, round.t)
        answered = f"round {round.t}: what {type(strategy).__name__}.aggregate returns"
        return reals(answered, answer, [self.server.net.P]).to(theta, copy=True)

    def _exchange_messages(self, t: int) -> None:
        """What the strategy asks of clients beside training; it hears who changed labels."""
        # A strategy that has nothing to say may lack the method.
        ask_message = getattr(self.strategy, "message", None)
        message = None if ask_message is None else ask_message(t)
        if message is None:
            return
        asked = distinct_ids("clients", message.clients, self.server.clients)
        changed = self.workers.answers(message, asked, self.log.theta, t)
        if len(changed):
            self.strategy.hear(changed)

    def _note(self, chosen: Tensor) -> None:
        """Write into the log what the round has left behind."""
        log, strategy, clients = self.log, self.strategy, self.server.clients
        class_name = type(strategy).__name__
        log.scores.append(
            reals(f"{class_name}.scores", strategy.scores, [clients]).clone()
        )
        log.weights.append(
            reals(f"{class_name}.applied", strategy.applied, [clients]).clone()
        )
        selected = torch.zeros(clients, dtype=torch.bool)
        selected[chosen] = True
        log.selected.append(selected)
        # Labels may have changed on a message in this round.
        log.client_memory = self.workers.memory
        self._evaluate()

    def _evaluate(self) -> None:
        """Accuracy and loss of the model as it now is, on the server's test samples."""
        net, theta = self.server.net, self.log.theta[None]
        self.log.accuracy.append(net.evaluate(theta, *self.test, "accuracy")[0].cpu())
        self.log.loss.append(net.evaluate(theta, *self.test, "loss")[0].cpu())


def _writes(round: Round) -> dict[str, int]:
    """How often each tensor of a round has been written to, as PyTorch counts it."""
    parts = {name: part for name, part in vars(round).items() if torch.is_tensor(part)}
    return {
        name: parts[name]._version for name in parts if not parts[name].is_inference()
    }


class InProcess:
    """The clients of a federation as ``Workers``: in this process, trained in one stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        # A message shows a client its labels as they were at first beside those it has now.
        self.original_labels = fed.y
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

    def mark(self) -> Mark:
        """Everything that the training depends on, for checkpoints."""
        return guard.training_mark(self.fed, self.net, self.local, self.seed)

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
            original = self.original_labels[samples].clone()
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
