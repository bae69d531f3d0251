"""Training: rounds of federated averaging under a strategy.

Chapter 1 derives it. Below: local, log, start. Beside: simulation. Above: games, methods.
"""

from __future__ import annotations

import copy
import os
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from . import checkpoint as files
from . import contract, progress
from .checks import distinct_ids, reals, shown, whole, wholes
from .federation import Federation
from .local import LocalSGD, Shuffles, round_updates
from .log import Log, resume
from .model import Model, one_thread
from .rounds import History, Message, Round, Server, Strategy
from .start import begin, describe, names, warn_unusable

LONG = 1e4  # an update is too long at this many times the first model and the server's own update
BLOATED = 100.0  # and a model is beyond blaming a client at this many times the first


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
                no answer. A client whose update is not finite or far too long (see ``Sieve``) is
                left out of that round, and named in a warning the first time
    """
    local = LocalSGD() if local is None else local
    theta = begin(fed, net, rounds, local, seed, theta)
    if isinstance(strategy, type) or not hasattr(strategy, "aggregate"):
        raise TypeError(f"strategy: expected one such as fm.FedAvg(), got {shown(strategy)}")
    every = whole("every", every)
    began, shuffles = time.perf_counter(), Shuffles(fed, local, seed)
    server = Server(fed.clients, fed.classes, net, fed.validation, seed)
    strategy.start(server)
    kind = type(strategy).__name__
    contract.begun(strategy)
    fresh = _owned(strategy, server)  # refused now, not after the last round
    warn_unusable(fed)
    mark = ""
    if checkpoint is not None:
        mark = files.fingerprint("train", describe(fed, net, local, seed), strategy, theta)
    original = fed.y
    log = resume(checkpoint, mark, strategy, rounds, theta, original)
    log = log or Log(theta, torch.zeros_like(theta), [_report(fed, net, theta)], original)
    fed = replace(fed, y=log.labels)
    spent = time.perf_counter() - began
    room, sieve = _Room(theta), Sieve(fed, net, theta, local, seed)
    for t in progress.bar(range(log.done + 1, rounds + 1), "rounds"):
        chosen = distinct_ids("clients", strategy.select(t), fed.clients)
        ids = torch.tensor([k for k in chosen.tolist() if k not in fed.unusable], dtype=torch.long)
        updates = round_updates(
            fed, net, log.theta, ids, shuffles, t, log.previous, room.rows(len(ids))
        )
        log.epochs += sum(local.passes(size) for size in fed.sizes[ids].tolist())
        ids, updates, spared = sieve.sift(log.theta, ids, updates, t)
        strategy.applied = torch.zeros(fed.clients, dtype=theta.dtype, device=theta.device)
        old, missing = log.theta, chosen[~torch.isin(chosen, torch.cat([ids, spared]))]
        if len(ids):
            this = Round(t, old, ids, fed.sizes[ids], updates, missing)
            counted = getattr(strategy, "rounds", None)
            answer = f"round {t}: what {kind}.aggregate returns"
            with one_thread():  # the same bytes whatever the number of threads
                found = strategy.aggregate(this)
            log.theta = reals(answer, found, [net.P]).to(theta)
            contract.recorded(strategy, counted, t)
            del this
        del updates  # what nobody keeps serves again
        if fed.attacks:
            log.previous = log.theta - old
        ask = getattr(strategy, "message", None)
        if ask is not None and (message := ask(t)) is not None:
            log.labels, changed = _answers(message, fed, net, log.theta, original)
            if len(changed):
                strategy.hear(changed)
                fed, shuffles.stack = replace(fed, y=log.labels), None
        asked = torch.zeros(fed.clients, dtype=torch.bool)
        asked[chosen] = True
        own = [
            reals(f"{kind}.{n}", getattr(strategy, n), [fed.clients]) for n in ("scores", "applied")
        ]
        log.rows.append((own[0].clone(), own[1].clone(), asked))
        log.curve.append(_report(fed, net, log.theta))
        spent = time.perf_counter() - began
        if checkpoint is not None and (t % every == 0 or t == rounds):
            contract.remembers(strategy, fresh)
            log.save(checkpoint, mark, strategy, spent)
    sieve.sum_up()
    return log.history(_owned(strategy, server), spent)


def _owned(strategy: Strategy, server: Server) -> Strategy:
    """A copy of the strategy with all it holds; only the server is the same."""
    try:
        return copy.deepcopy(strategy, {id(server): server})
    except Exception as error:  # whatever its attributes raise
        raise TypeError(
            f"strategy: expected one that copy.deepcopy copies, as its history keeps a copy; "
            f"{type(strategy).__name__} is not ({error})"
        ) from error


class _Room:
    """Memory for a round's updates, used again unless somebody still holds the last one's."""

    def __init__(self, like: Tensor):
        self.memory = like.new_empty(0, len(like))

    def rows(self, m: int) -> Tensor:
        """Memory [m, P]: touched before, where it can, as fresh pages every round would cost."""
        storage = self.memory.untyped_storage()
        count = getattr(torch._C, "_storage_Use_Count", None)
        free = count is not None and count(storage._cdata) <= 2  # self.memory, storage
        if len(self.memory) < m or not free:
            self.memory = self.memory.new_empty(m, self.memory.shape[1])
        return self.memory[:m]


class Sieve:
    """Leaves out updates that are not finite or far too long, and says whose they are.

    An update longer than ``LONG`` times the first model (or 1, if that is shorter) is compared with
    what the server gets by training on its own validation samples from the same model: longer than
    ``LONG`` times that, it is left out. No update is judged by those of other clients, of whom most
    may lie. Where the server's own training is not finite either, or the model is ``BLOATED`` times
    as long as the first one, the model or the step size is at fault: then no client is named, and
    none counts as missing.
    """

    def __init__(self, fed: Federation, net: Model, theta: Tensor, local: LocalSGD, seed: int):
        self.fed, self.net, self.local, self.seed = fed, net, local, seed
        self.first = max(1.0, float(torch.linalg.vector_norm(theta)))
        self.times: Counter[int] = Counter()  # rounds that a client was left out of
        self.warned = False

    def sift(
        self, theta: Tensor, ids: Tensor, updates: Tensor, t: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Clients [m] and updates [m, P] that are usable, and who is left out without blame."""
        flat, nobody, bound = updates.flatten(), ids[:0], LONG * self.first
        if float(flat @ flat) <= bound**2:  # one fast pass; false where not finite
            return ids, updates, nobody
        lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
        if (lengths <= bound).all():
            return ids, updates, nobody
        own, largest = self._own(theta, t), torch.finfo(updates.dtype).max ** 0.5
        keep = lengths <= min(max(bound, LONG * own), largest)  # what is longer has no square
        bad, ids, updates = ids[~keep], ids[keep], updates[keep.to(updates.device)]
        if own < torch.inf and float(torch.linalg.vector_norm(theta)) <= BLOATED * self.first:
            self._name(bad.tolist(), t)
            return ids, updates, nobody
        if len(bad) and not self.warned:
            warnings.warn(
                f"round {t}: training diverges from this model; {len(bad)} updates that are not "
                "finite or far too long are left out, and nobody is named",
                stacklevel=3,
            )
            self.warned = True
        return ids, updates, bad

    def _own(self, theta: Tensor, t: int) -> float:
        """Length of the update that the server's own samples give; infinite if it is not finite."""
        samples, classes = self.fed.validation, self.fed.classes
        server = Federation.from_datasets(
            [samples], validation=samples, test=samples, classes=classes
        )
        update = local_updates(server, self.net, theta, local=self.local, seed=self.seed, t=t)
        length = float(torch.linalg.vector_norm(update, dtype=torch.float64))
        return length if length < torch.finfo(theta.dtype).max ** 0.5 else torch.inf

    def _name(self, bad: list[int], t: int) -> None:
        new = [k for k in bad if not self.times[k]]
        self.times.update(bad)
        if new:
            warnings.warn(
                f"round {t}: client {names(new)} sent an update that is not finite or far too "
                "long; it is left out, now and whenever that happens again",
                stacklevel=4,
            )

    def sum_up(self) -> None:
        """How often clients were left out, where once is not all."""
        often = [f"client {k} in {n} rounds" for k, n in sorted(self.times.items()) if n > 1]
        if often:
            warnings.warn(f"left out: {', '.join(often)}", stacklevel=3)


def _answers(
    message: Message, fed: Federation, net: Model, theta: Tensor, original: Tensor
) -> tuple[Tensor, Tensor]:
    """All client labels [n] after the clients asked have answered, and the ids that changed any."""
    labels, changed = fed.y.clone(), []
    for k in distinct_ids("clients", message.clients, fed.clients).tolist():
        if k in fed.unusable:
            continue
        own = slice(*fed.offsets[k : k + 2].tolist())
        given = (fed.x[own], original[own].clone(), fed.y[own].clone())
        answer = wholes(
            f"message: what client {k} answers",
            message.answer(net, theta, *given),
            [len(given[2])],
            high=fed.classes - 1,
        ).to(labels)
        if not torch.equal(answer, fed.y[own]):
            labels[own] = answer
            changed.append(k)
    return labels, torch.tensor(changed, dtype=torch.long)


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
    theta = begin(fed, net, 1, local, seed, theta)
    ids = distinct_ids("clients", range(fed.clients) if clients is None else clients, fed.clients)
    shuffles = Shuffles(fed, local, seed)
    room = theta.new_empty(len(ids), net.P)
    return round_updates(fed, net, theta, ids, shuffles, t, torch.zeros_like(theta), room)


def _report(fed: Federation, net: Model, theta: Tensor) -> tuple[float, float]:
    accuracy, loss = (net.evaluate(theta[None], *fed.test, m) for m in ("accuracy", "loss"))
    return float(accuracy), float(loss)
