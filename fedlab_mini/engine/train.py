"""Training: rounds of federated averaging with a strategy. Chapter 1 derives it.

``Training.one_round`` is a round as a server sees it. Its clients may be in this process
(``InProcess``) or elsewhere (``flower``). Below: local, guard. Beside: simulate. Above: games,
methods.
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

from ..parse.checks import distinct_ids, instance, reals, store, whole, wholes
from ..streams import one_thread
from ..worlds.data.dataset import Samples
from ..worlds.federation import Federation
from . import guard, progress
from .files import described
from .history import History, Log
from .local import UpdateMemory, limit_of, round_updates, usable
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .outputs import judged
from .rounds import Message, ReadOnly, Round, Server, State, Step, Strategy, Workers, copied


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
    """Train one federated model with a strategy.

    rounds   number of rounds of the whole training run, including those of ``start``
    theta    [P] the first model; default: ``net.init(seed)``
    start    a history of the same training run, returned or loaded, to continue from
    watch    called as ``watch(round, step)`` after every round's step; it must change nothing
    returns  a ``History``; the same seed gives the same bytes, also if the run was continued
    raises   ValueError or TypeError naming the argument, or the part of the strategy's results
             that is wrong. A client whose update is not finite or far too long (``local.usable``)
             is left out of that round, and a warning names it the first time
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
    """The server's side of a training run: its strategy, its clients and its log."""

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
        # The strategy gets a copy, because the clients use this server's model.
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
        """Run all rounds that ``start`` does not contain; see ``train``."""
        if start is None:
            with one_thread():
                self._evaluate()  # the model before round 1 is the first entry
        else:
            guard.check_start(start, self.made_from, rounds)
            self.log = Log.after(start, self.log)
        self._remember(self.log.state)
        # Also without ``start``, although the clients have nothing to restore then.
        self.workers.restore(self.log.memory)
        for t in progress.bar(range(self.log.rounds + 1, rounds + 1), "rounds"):
            self.one_round(t)
        self._check_unwritten()
        guard.sum_up(self.left_out)
        return self.history()

    def history(self) -> History:
        """The ``History`` of the rounds that are done."""
        seconds = time.perf_counter() - self.began
        decided_by = partial(made_from, self.workers.made_from, self.strategy)
        labels, clients = self.workers.labels, self.server.clients
        return self.log.history(self.strategy, clients, seconds, labels, decided_by)

    def one_round(self, t: int) -> None:
        """Select clients, train them, leave out unusable updates, step, record the result."""
        log, workers = self.log, self.workers
        chosen = self._chosen(t)
        clients, updates = workers.updates(log.theta, chosen, t, log.last_step)
        # The epochs of a client that is left out below count, because it has trained.
        log.client_epochs += self.local.client_epochs(workers.sizes[clients])
        good = usable(updates, log.limit)
        if good is not None:
            bad = clients[~good].tolist()
            guard.warn_left_out(t, bad, self.left_out, len(clients))
            clients, updates = clients[good], updates[good.to(updates.device)]
        missing = chosen[~torch.isin(chosen, clients)]
        sizes = workers.sizes[clients]
        this = Round(t, log.theta.clone(), clients, sizes, updates, missing)
        with one_thread():  # so that the number of threads does not change the bytes
            weights = self._step(this)
            self._exchange_messages(t)
            self._note(chosen, clients, weights)

    def _chosen(self, t: int) -> Tensor:
        """A copy of the ids that the strategy selects, because it may change its own tensor."""
        asked, K = self.strategy.select(self.told, self.seen, t), self.server.clients
        # One quick check accepts ids in order, as most strategies return; others are checked below.
        if torch.is_tensor(asked) and asked.dtype == torch.long and asked.ndim == 1:
            ends = torch.tensor([-1]), asked.cpu(), torch.tensor([K])
            if (torch.cat(ends).diff() > 0).all():
                return ends[1].clone()
        return distinct_ids("clients", asked, K).clone()

    def _step(self, round: Round) -> Tensor:
        """Let the strategy step, and log the step; returns weights [m]. No updates: no step."""
        log, name = self.log, f"round {round.t}: {self.name}.step"
        self._check_unwritten()
        if len(round.clients) == 0:
            log.last_step = torch.zeros_like(log.theta)
            return log.theta.new_zeros(0)
        parts = [getattr(round, part) for part in PARTS]
        before = written(parts)
        own = dict(zip(log.state, map(Tensor.clone, log.state.values()), strict=True))
        step = self.strategy.step(self.told, own, round)
        # The slow checks, with their messages, run only if this quick one fails.
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
        # If the state counts rounds, it must count this one, or the scores would not change.
        if "rounds" in log.state and torch.equal(step.state["rounds"], log.state["rounds"]):
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
        """Send the strategy's message to clients, and tell it which clients changed labels."""
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
        """Write the round's scores, weights and clients into the log, and evaluate the model."""
        log, K = self.log, self.server.clients
        scores = self.strategy.scores(self.told, self.seen)
        # The slow check, with its message, runs only if this quick one fails.
        if not (
            torch.is_tensor(scores)
            and scores.dtype in BITS
            and scores.shape == (K,)
            and bool(scores.sum().isfinite())
        ):
            scores = reals(f"{self.name}.scores", scores, [K])
        ids, last, bits = torch.arange(K), log.last_scores, BITS[scores.dtype]
        if log.scores and last.dtype == scores.dtype:
            # Store only scores whose bits have changed, because 0.0 and -0.0 differ in their bytes.
            ids = (scores.view(bits) != last.view(bits)).nonzero().flatten()
        log.last_scores = scores.detach().clone()
        log.scores.append((ids.int(), log.last_scores[ids]))
        log.weights.append((clients.int(), weights))
        log.selected.append((chosen.int(), torch.ones(len(chosen), dtype=torch.bool)))
        # A message may have changed labels in this round.
        log.memory = self.workers.memory
        self._evaluate()

    def _evaluate(self) -> None:
        """Accuracy and loss of the present model on the server's test samples."""
        net, given = self.server.net, self.server.net.objective
        known = given.given_loss is None or given.given_metric is not None
        # A model with its own loss but no metric has no accuracy: NaN.
        metrics = ("accuracy", "loss") if known else ("loss", "loss")
        accuracy, loss = judged(net, self.log.theta[None], *self.test, *metrics)
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
                "and heard may; elsewhere write into a copy, .clone()"
            )


# The tensors of a round that others read, too.
PARTS = ("theta", "clients", "sizes", "updates", "missing")
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def written(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """How often each tensor has been written to, by PyTorch's counter."""
    return tuple(map(attrgetter("_version"), tensors))


def changed(names: Sequence[str], before: tuple[int, ...], now: tuple[int, ...]) -> str | None:
    """The first name whose tensor was written to in between; None if there is none."""
    if before == now:
        return None
    counts = zip(names, before, now, strict=True)
    return next(name for name, one, other in counts if one != other)


def made_from(of_clients: Callable[[], dict[str, str]], strategy: Strategy) -> dict[str, str]:
    """What decides a training run, part by part, as text or as a hash."""
    return of_clients() | {"strategy": described(strategy)}


def of_clients(
    fed: Federation, net: Model, local: LocalSGD, seed: int, as_given: tuple[int, ...]
) -> dict[str, str]:
    """The clients' part of ``made_from``; ValueError if somebody has written to the samples."""
    if written((fed.x, fed.y)) != as_given:
        raise ValueError("fed: its samples were written to after the training began")
    return guard.made_from(fed, net, local, seed)


class InProcess:
    """The clients of a federation as ``Workers`` in this process, trained in a stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        # A message shows a client its first labels and its present ones.
        self.original = fed
        # No method of this object: histories store it, and would keep a round's memory with it.
        given = fed, net, local, seed, written((fed.x, fed.y))
        self.made_from = partial(of_clients, *given)
        self.shuffles, self.update_memory = Shuffles(fed, local, seed), UpdateMemory()

    @property
    def sizes(self) -> Tensor:
        """The number of samples of every client, [K]."""
        return self.fed.sizes

    @property
    def labels(self) -> Tensor:
        """All clients' present labels [n]."""
        return self.fed.y

    memory = labels

    def restore(self, memory: Tensor) -> None:
        """Continue with these labels [n]."""
        # Not by ``replace``, which would copy all samples.
        self.fed = copy.copy(self.fed)
        store(self.fed, y=memory)
        self.shuffles.stack = None  # its working memory refers to the labels

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Ids of the selected clients that can train, and their updates [m, P] in round ``t``."""
        # A client with inputs that are not finite does not train: it is missing.
        able = [k for k in chosen.tolist() if k not in self.fed.unusable]
        able_ids = torch.tensor(able, dtype=torch.long)
        updates = round_updates(
            self.fed, self.net, theta, able_ids, self.shuffles, t, last_step, self.update_memory
        )
        return able_ids, updates

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of the clients that changed labels; from now on they train with the new labels."""
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
    """The updates [m, P] that the named clients send in round ``t``, one row for each client.

    theta [P]; clients: ids in the order of the rows, default all
    raises     ValueError for unknown or repeated ids
    """
    local, t = LocalSGD() if local is None else local, whole("t", t)
    net, theta = guard.starting_model(fed, net, 1, local, seed, theta)
    named = range(fed.clients) if clients is None else clients
    named_ids = distinct_ids("clients", named, fed.clients)
    shuffles = Shuffles(fed, local, seed)
    # There is no earlier round here, so an attacker that replays the last step sends zeros.
    return round_updates(fed, net, theta, named_ids, shuffles, t, torch.zeros_like(theta))
