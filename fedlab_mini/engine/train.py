"""Training: rounds of federated averaging under a strategy. Chapter 1 derives it.

``Training.one_round`` is a round as a server sees it, wherever its clients are: in this process
(``InProcess``) or somewhere else (``flower``). Below: local, guard. Beside: simulate. Above:
games, methods.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from operator import attrgetter

import torch
from torch import Tensor

from ..checks import distinct_ids, instance, reals, store, whole, wholes
from ..streams import one_thread
from ..worlds.data.dataset import Samples
from ..worlds.federation import Federation
from . import guard, progress
from .files import described
from .history import History, Log
from .local import UpdateMemory, limit_of, round_updates, usable
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .rounds import (
    Message,
    ReadOnly,
    Round,
    Server,
    State,
    Step,
    Strategy,
    Workers,
    copied,
)


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
             no answer. A client whose update is not finite or far too long (``local.usable``)
             is left out of that round, and named in a warning the first time
    """
    local = LocalSGD() if local is None else local
    net, theta = guard.starting_model(fed, net, rounds, local, seed, theta, start)
    guard.warn_unusable_data(fed)
    if watch is not None:
        instance("watch", watch, Callable, "a function of (round, step)")  # type: ignore[arg-type]
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
        self.began, self.left_out = time.perf_counter(), Counter[int]()
        guard.check_strategy(self.strategy)
        self.name = type(self.strategy).__name__
        # A copy of the server: clients share the model of this one.
        self.told = self.server.copy()
        first_state = self.strategy.init(self.told)
        self.log = Log(
            theta=self.theta,
            last_step=torch.zeros_like(self.theta),
            memory=self.workers.memory,
            state=copied(guard.checked_state(f"{self.name}.init", first_state)),
            limit=limit_of(self.theta),
        )

    def made_from(self) -> dict[str, str]:
        """What decides the training, part by part."""
        return made_from(self.workers.made_from, self.strategy)

    def run(self, rounds: int, start: History | None = None) -> History:
        """All rounds that ``start`` does not hold yet; see ``train``."""
        if start is None:
            with one_thread():
                self._evaluate()  # the model before round 1 is the first entry
        else:
            guard.check_start(start, self.made_from, rounds)
            self.log = Log.after(start, self.log)
        self._remember(self.log.state)
        # Also at the start, where clients have nothing to take back yet.
        self.workers.restore(self.log.memory)
        for t in progress.bar(range(self.log.rounds + 1, rounds + 1), "rounds"):
            self.one_round(t)
        self._check_unwritten()
        guard.sum_up(self.left_out)
        return self.history()

    def history(self) -> History:
        """What the training leaves behind, as far as it has come."""
        seconds = time.perf_counter() - self.began
        decided_by = partial(made_from, self.workers.made_from, self.strategy)
        labels, clients = self.workers.labels, self.server.clients
        return self.log.history(self.strategy, clients, seconds, labels, decided_by)

    def one_round(self, t: int) -> None:
        """Choose, train, leave out what is unusable, step, note."""
        log, workers = self.log, self.workers
        chosen = self._chosen(t)
        clients, updates = workers.updates(log.theta, chosen, t, log.last_step)
        # A client that is left out below has trained all the same: its epochs count.
        log.client_epochs += self.local.client_epochs(workers.sizes[clients])
        good = usable(updates, log.limit)
        if good is not None:
            bad = clients[~good].tolist()
            guard.warn_left_out(t, bad, self.left_out, len(clients))
            clients, updates = clients[good], updates[good.to(updates.device)]
        missing = chosen[~torch.isin(chosen, clients)]
        sizes = workers.sizes[clients]
        this = Round(t, log.theta.clone(), clients, sizes, updates, missing)
        with one_thread():  # the same bytes whatever the number of threads
            weights = self._step(this)
            self._exchange_messages(t)
            self._note(chosen, clients, weights)

    def _chosen(self, t: int) -> Tensor:
        """Ids of the clients that the strategy asks; a copy, as it may write to what it gave."""
        asked, K = self.strategy.select(self.told, self.seen, t), self.server.clients
        # Ids in order, as most strategies give them, are looked at once; others with more care.
        if torch.is_tensor(asked) and asked.dtype == torch.long and asked.ndim == 1:
            ends = torch.tensor([-1]), asked.cpu(), torch.tensor([K])
            if (torch.cat(ends).diff() > 0).all():
                return ends[1].clone()
        return distinct_ids("clients", asked, K).clone()

    def _step(self, round: Round) -> Tensor:
        """The strategy's step into the log; the weights [m]. Nothing moves where nothing came."""
        log, name = self.log, f"round {round.t}: {self.name}.step"
        self._check_unwritten()
        if len(round.clients) == 0:
            log.last_step = torch.zeros_like(log.theta)
            return log.theta.new_zeros(0)
        parts = [getattr(round, part) for part in PARTS]
        before = written(parts)
        own = dict(zip(log.state, map(Tensor.clone, log.state.values()), strict=True))
        step = self.strategy.step(self.told, own, round)
        # Asked in words only where it is not the very thing.
        if not (
            isinstance(step, Step)
            and torch.is_tensor(step.theta)
            and torch.is_tensor(step.weights)
            and step.theta.dtype == step.weights.dtype == round.theta.dtype
            and step.theta.shape == round.theta.shape
            and step.weights.shape == round.clients.shape
            and step.state.keys() == log.state.keys()
            and all(map(torch.is_tensor, step.state.values()))
            and not any(map(attrgetter("requires_grad"), step.state.values()))
            and bool((step.theta.sum() + step.weights.sum()).isfinite())
            and type(step.evaluated) is int
            and step.evaluated >= 0
        ):
            step = guard.checked_step(name, step, round, log.state)
        # Where rounds are counted, this one has to be: else the scores would stand still.
        if "rounds" in log.state and torch.equal(
            step.state["rounds"], log.state["rounds"]
        ):
            raise ValueError(
                f"{name}: counts no round and no scores; write "
                "self.count(state, round, scores) before it returns"
            )
        theta, weights = step.theta.detach().clone(), step.weights.detach().clone()
        if self.watch is not None:
            self.watch(round, step._replace(state=copied(step.state)))
        if (part := changed(PARTS, before, written(parts))) is not None:
            raise ValueError(
                f"{name} or watch writes into round.{part}, which others read; write into a "
                f"copy, round.{part}.clone()"
            )
        log.last_step, log.theta = theta - log.theta, theta
        log.model_evaluations += step.evaluated
        self._remember(step.state)
        return weights

    def _exchange_messages(self, t: int) -> None:
        """What the strategy asks of clients beside training; it hears who changed labels."""
        log, strategy = self.log, self.strategy
        message = strategy.message(self.told, self.seen, t)
        if message is None:
            return
        asked = distinct_ids("clients", message.clients, self.server.clients)
        changed = self.workers.answers(message, asked, log.theta, t)
        if len(changed):
            state = strategy.heard(self.told, copied(log.state), changed)
            self._remember(guard.checked_state(f"{self.name}.heard", state, log.state))

    def _note(self, chosen: Tensor, clients: Tensor, weights: Tensor) -> None:
        """Write into the log what the round has left behind."""
        log, K = self.log, self.server.clients
        scores = self.strategy.scores(self.told, self.seen)
        # Asked in words only where they are not the very thing.
        if not (
            torch.is_tensor(scores)
            and scores.dtype in BITS
            and scores.shape == (K,)
            and bool(scores.sum().isfinite())
        ):
            scores = reals(f"{self.name}.scores", scores, [K])
        ids, last, bits = torch.arange(K), log.last_scores, BITS[scores.dtype]
        if log.scores and last.dtype == scores.dtype:
            # Only what has changed is kept, by its bits, as 0.0 and -0.0 are other bytes.
            ids = (scores.view(bits) != last.view(bits)).nonzero().flatten()
        log.last_scores = scores.detach().clone()
        log.scores.append((ids.int(), log.last_scores[ids]))
        log.weights.append((clients.int(), weights))
        log.selected.append((chosen.int(), torch.ones(len(chosen), dtype=torch.bool)))
        # Labels may have changed on a message in this round.
        log.memory = self.workers.memory
        self._evaluate()

    def _evaluate(self) -> None:
        """Accuracy and loss of the model as it now is, on the server's test samples."""
        net, given = self.server.net, self.server.net.objective
        known = given.given_loss is None or given.given_metric is not None
        # Without classes, and without a metric in its place, accuracy is no number.
        metrics = ("accuracy", "loss") if known else ("loss", "loss")
        accuracy, loss = net.judged(self.log.theta[None], *self.test, *metrics)
        self.log.accuracy.append(accuracy[0].cpu() if known else loss[0].cpu() * nan)
        self.log.loss.append(loss[0].cpu())

    def _remember(self, state: State) -> None:
        self.log.state, self.settled = state, written(state.values())
        self.seen = ReadOnly(state)

    def _check_unwritten(self) -> None:
        state = self.log.state
        part = changed(list(state), self.settled, written(state.values()))
        if part is not None:
            raise ValueError(
                f'{self.name}: select, message or scores writes into state["{part}"]; only step '
                "and heard may, others write into a copy, .clone()"
            )


# Of a round, what others read, too.
PARTS = ("theta", "clients", "sizes", "updates", "missing")
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def written(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """How often each tensor has been written to, as PyTorch counts it."""
    return tuple(map(attrgetter("_version"), tensors))


def changed(
    names: Sequence[str], before: tuple[int, ...], now: tuple[int, ...]
) -> str | None:
    """The first name whose tensor was written to in between."""
    if before == now:
        return None
    counts = zip(names, before, now, strict=True)
    return next(name for name, one, other in counts if one != other)


def made_from(
    of_clients: Callable[[], dict[str, str]], strategy: Strategy
) -> dict[str, str]:
    """What decides a training, part by part, in words or as a hash."""
    return of_clients() | {"strategy": described(strategy)}


def of_clients(
    fed: Federation, net: Model, local: LocalSGD, seed: int, as_given: tuple[int, ...]
) -> dict[str, str]:
    """The clients' part of it; ValueError if samples were written to since they were given."""
    if written((fed.x, fed.y)) != as_given:
        raise ValueError("fed: its samples were written to after the training began")
    return guard.made_from(fed, net, local, seed)


class InProcess:
    """The clients of a federation as ``Workers``: in this process, trained in one stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        # A message shows a client its labels as they were at first beside those it has now.
        self.original = fed
        # Not a method of this object, as histories keep it: they would keep a round's memory, too.
        given = fed, net, local, seed, written((fed.x, fed.y))
        self.made_from = partial(of_clients, *given)
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
