"""Training: rounds of federated averaging with a strategy. Chapter 1 derives it.

It is [McMahan et al. 2017, Algorithm 1] with three differences: a strategy decides who is selected
and how updates are weighted, unusable updates are left out, and every round's scores are kept.
``Training.one_round`` is a round as a server sees it. Its clients may be in this process
(``InProcess``) or elsewhere (``fedlab_flower``).
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import nan

import torch
from torch import Tensor

from ..keep.files import described
from ..parse.checks import wholes
from ..parse.samples import Samples
from ..streams import one_thread
from ..version import __version__
from ..worlds.federation import Federation
from . import left_out, progress
from .history import Cost, History
from .local import AttackStates, UpdateMemory, limit_of, round_updates, usable
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .objective import Objective
from .outputs import quality
from .rounds import Message, Round, Server, State, Step, Strategy, Workers, copied


def train(
    fed: Federation,
    net: Model,
    strategy: Strategy,
    *,
    rounds: int,
    local: LocalSGD = LocalSGD(),  # noqa: B008
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
    left_out.warn_unusable_data(fed)
    server = Server(fed.clients, fed.classes, net, fed.validation, seed)
    theta = first_model(fed, net, seed) if theta is None else theta
    training = Training(
        server, InProcess(fed, net, local, seed), strategy, local, theta, fed.test, watch
    )
    return training.run(rounds, start)


def first_model(fed: Federation, net: Model, seed: int) -> Tensor:
    """The parameters [P] from which a training run starts, in the type and on the device of x."""
    return net.init(seed, dtype=fed.x.dtype, device=fed.x.device)


@dataclass(eq=False)
class Training:
    """The server's side of a training run: its strategy, its clients and its record."""

    server: Server
    workers: Workers
    strategy: Strategy
    local: LocalSGD  # for the cost
    theta: Tensor
    test: Samples
    watch: Callable[[Round, Step], object] | None = None

    def __post_init__(self) -> None:
        self.began, self.times_left_out = time.perf_counter(), Counter[int]()
        # ``gate.answers`` wraps a reader's strategy; the record has what is inside.
        given = getattr(self.strategy, "inside", self.strategy)
        # [K] after the last round; NaN before the first, which no score equals
        self.last_scores = torch.full((self.server.clients,), nan, dtype=torch.float64)
        self.record = History(
            clients=self.server.clients,
            theta=self.theta,
            strategy=given,
            state=copied(self.strategy.init(self.server)),
            labels=self.workers.labels,
            last_step=torch.zeros_like(self.theta),
            memory=self.workers.memory,
            limit=limit_of(self.theta),
            made_from=partial(made_from, self.workers.of_clients, given),
            metric=self.server.net.objective.metric_name,
        )

    def run(self, rounds: int, start: History | None = None) -> History:
        """Run all rounds that ``start`` does not contain; see ``train``."""
        if start is None:
            with one_thread():
                self._evaluate()  # the model before round 1 is the first entry
        else:
            self.record = start.continued(self.record)
            self.last_scores = start.scores[-1].clone() if start.rounds else self.last_scores
        # Also without ``start``, although the clients have nothing to restore then.
        self.workers.restore(self.record.memory)
        for t in progress.bar(range(self.record.rounds + 1, rounds + 1), "rounds"):
            self.one_round(t)
        left_out.sum_up(self.times_left_out)
        return self.history()

    def history(self) -> History:
        """The ``History`` of the rounds that are done."""
        return self.record.so_far(time.perf_counter() - self.began, self.workers.labels)

    def one_round(self, t: int) -> None:
        """Select clients, train them, leave out unusable updates, step, record the result."""
        record, workers = self.record, self.workers
        chosen = self.strategy.select(self.server, record.state, t)
        clients, updates = workers.updates(record.theta, chosen, t, record.last_step)
        # A client that is left out below has trained, so its epochs count.
        record.cost += Cost(sum(map(self.local.passes, workers.sizes[clients].tolist())))
        good = usable(updates, record.limit)
        if good is not None:
            bad = clients[~good].tolist()
            left_out.warn_left_out(t, bad, self.times_left_out, len(clients))
            clients, updates = clients[good], updates[good.to(updates.device)]
        missing = chosen[~torch.isin(chosen, clients)]
        this = Round(t, record.theta, clients, workers.sizes[clients], updates, missing)
        with one_thread():  # so that the number of threads does not change the bytes
            step = self._step(this)
            self._exchange_messages(t)
            self._note(chosen, clients, step)

    def _step(self, round: Round) -> Step:
        """Call the strategy's ``step``; if no update arrived, model and state stay."""
        record = self.record
        if len(round.clients) == 0:
            record.last_step = torch.zeros_like(record.theta)
            return Step(record.theta, record.theta.new_zeros(0), record.state)
        step = self.strategy.step(self.server, copied(record.state), round)
        if self.watch is not None:
            self.watch(round, step)
        record.last_step = step.theta - record.theta
        record.theta, record.state = step.theta, step.state
        record.cost += Cost(model_evaluations=step.evaluated)
        return step

    def _exchange_messages(self, t: int) -> None:
        """Send the strategy's message to clients, and tell it which clients changed labels."""
        record, strategy = self.record, self.strategy
        message = strategy.message(self.server, record.state, t)
        if message is None:
            return
        changed = self.workers.answers(message, message.clients, record.theta, t)
        if len(changed):
            record.state = strategy.heard(self.server, copied(record.state), changed)

    def _note(self, chosen: Tensor, clients: Tensor, step: Step) -> None:
        """Write the round's scores, weights and clients into the record, and evaluate the model."""
        record = self.record
        scores = self.strategy.scores(self.server, record.state)
        last = self.last_scores
        # Store only scores whose bytes have changed; those of 0.0 and -0.0 differ.
        changed = (scores != last) | (scores.signbit() != last.signbit())
        ids, self.last_scores = changed.nonzero().flatten(), scores.clone()
        accused = torch.tensor(step.named, dtype=torch.int)
        entries = {
            "scores": (ids.int(), self.last_scores[ids]),
            "weights": (clients.int(), step.weights),
            "selected": (chosen.int(), torch.ones(len(chosen), dtype=torch.bool)),
            "named": (accused, torch.ones(len(accused), dtype=torch.bool)),
        }
        for name, entry in entries.items():
            record.changes[name].append(entry)
        # A message may have changed labels in this round, and attacks remember.
        record.memory = self.workers.memory
        self._evaluate()

    def _evaluate(self) -> None:
        """Accuracy and loss of the present model on the server's test samples."""
        record, net, given = self.record, self.server.net, self.server.net.objective
        rated = given.given_loss is None or given.given_metric is not None
        # A model with its own loss but no metric has no accuracy: NaN. The loss fills its place.
        metrics = ("accuracy", "loss") if rated else ("loss", "loss")
        accuracy, loss = quality(net, record.theta[None], *self.test, *metrics)
        accuracy, loss = accuracy.cpu(), loss.cpu()
        record.accuracy = torch.cat([record.accuracy, accuracy if rated else loss * nan])
        record.loss = torch.cat([record.loss, loss])


def made_from(of_clients: Callable[[], dict[str, str]], strategy: Strategy) -> dict[str, str]:
    """What decides a training run, part by part, as text or as a hash."""
    return of_clients() | {"strategy": described(strategy)}


def of_clients(
    fed: Federation, net: Model, local: LocalSGD, seed: int, as_given: tuple[int, ...]
) -> dict[str, str]:
    """The clients' part of ``made_from``, as text or as a hash.

    raises  ValueError if somebody has written to the samples since ``written_to`` gave ``as_given``
    """
    if written_to(fed) != as_given:
        raise ValueError("fed: its samples were written to after the training began")
    data = (fed.x, fed.y, fed.sizes, fed.validation, fed.test, sorted(fed.unusable))
    shapes = {name: list(shape) for name, shape in net.shapes.items()}
    own = net.objective != Objective()
    objective = f" {described(net.objective)}" if own else ""
    return {
        "version": __version__,
        "clients": str(fed.clients),
        "data": described(data),
        "attacks": described(dict(sorted(fed.attacks.items()))),
        "net": f"{shapes} {described(net.module)}{objective}",
        "local": described(local),
        "seed": str(seed),
    }


def written_to(fed: Federation) -> tuple[int, ...]:
    """How often the samples and labels have been written to, by PyTorch's counter."""
    return fed.x._version, fed.y._version


class InProcess:
    """The clients of a federation as ``Workers`` in this process, trained in a stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        # A message shows a client its first labels and its present ones.
        self.original = fed
        # A bound method would keep a round's memory in the history, which stores this.
        given = fed, net, local, seed, written_to(fed)
        self.of_clients = partial(of_clients, *given)
        self.shuffles, self.update_memory = Shuffles(fed, local, seed), UpdateMemory()
        self.attack_states: AttackStates = {}

    @property
    def sizes(self) -> Tensor:
        """The number of samples of every client, [K]."""
        return self.fed.sizes

    @property
    def labels(self) -> Tensor:
        """All clients' present labels [n]."""
        return self.fed.y

    @property
    def memory(self) -> State:
        """The present labels [n], and what attacks have stored, as "attack.<id>.<name>"."""
        stored = {
            f"attack.{k}.{name}": part
            for (_, k), state in self.attack_states.items()
            for name, part in state.items()
        }
        return {"labels": self.fed.y, **stored}

    def restore(self, memory: State) -> None:
        """Continue with what ``memory`` had."""
        # Not by ``replace``, which would copy all samples.
        self.fed = copy.copy(self.fed)
        object.__setattr__(self.fed, "y", memory["labels"])
        self.shuffles.stack = None  # its working memory refers to the labels
        for place, part in memory.items():
            if place.startswith("attack."):
                _, k, name = place.split(".", 2)
                self.attack_states.setdefault((0, int(k)), {})[name] = part

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Ids of the selected clients that can train, and their updates [m, P] in round ``t``."""
        # A client with inputs that are not finite does not train: it is missing.
        able = [k for k in chosen.tolist() if k not in self.fed.unusable]
        able_ids = torch.tensor(able, dtype=torch.long)
        given = self.fed, self.net, theta, able_ids, self.shuffles, t, last_step
        return able_ids, round_updates(*given, self.update_memory, self.attack_states)

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
            self.restore({"labels": labels})
        return torch.tensor(changed, dtype=torch.long)


def checked_labels(answer: object, k: int, count: int, classes: int) -> Tensor:
    """Client k's answer to a message, checked: labels [count] in 0..classes-1."""
    return wholes(f"message: what client {k} answers", answer, [count], high=classes - 1)


def local_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    clients: Tensor | None = None,
    *,
    local: LocalSGD = LocalSGD(),  # noqa: B008
    seed: int = 0,
    t: int = 1,
) -> Tensor:
    """The updates [m, P] that the named clients send in round ``t``, one row for each client.

    theta [P]; clients: ids in the order of the rows, default all
    raises     ValueError for unknown or repeated ids
    """
    ids = torch.arange(fed.clients) if clients is None else clients
    shuffles = Shuffles(fed, local, seed)
    # There is no earlier round here, so an attacker that replays the last step sends zeros.
    return round_updates(fed, net, theta, ids, shuffles, t, torch.zeros_like(theta))
