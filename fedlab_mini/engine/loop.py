"""Loop: the server's side of a training, wherever its clients train.

Chapter 1 derives it. Below: contract, log, sieve. Above: training, whose clients are in this
process, and flower, whose clients are somewhere else.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ..checks import distinct_ids, reals, shown
from ..worlds.federation import Samples
from . import checkpoint as files
from . import guard as contract
from . import progress
from .local import LocalSGD
from .log import Log, resume
from .model import Model, one_thread
from .rounds import History, Message, Round, Server, Strategy
from .sieve import Sieve


class Workers(Protocol):
    """The K clients of a training, as its server reaches them.

    sizes [K]  samples each of them holds; for a client that never answers, any number
    step       whether one of them is to know the server's last step (attackers that replay it do)
    kept       what of theirs a checkpoint has to keep; ``restore`` takes it back
    labels     all clients' labels at the end, if they are here; else empty
    """

    @property
    def sizes(self) -> Tensor: ...
    @property
    def step(self) -> bool: ...
    @property
    def kept(self) -> Tensor: ...
    @property
    def labels(self) -> Tensor: ...

    def restore(self, kept: Tensor) -> None: ...

    def describe(self) -> str:
        """Fingerprint of everything their training depends on, for checkpoints."""
        ...

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, previous: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Who of the clients ``chosen`` sent something in round ``t``, and the updates [m, P].

        ids [m] in the order of ``chosen``; previous [P] the server's last step
        """
        ...

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of those of the ``clients`` that changed labels on a message after round ``t``."""
        ...


def run(
    workers: Workers,
    server: Server,
    strategy: Strategy,
    theta: Tensor,
    *,
    test: Samples,
    rounds: int,
    local: LocalSGD,
    checkpoint: str | os.PathLike | None,
    every: int,
    after: Callable[[int, Log, Tensor], None] = lambda t, log, missing: None,
) -> History:
    """Train from ``theta`` [P] for some rounds; the arguments are those of ``training.train``.

    test   the server's samples (x, y) for its reports
    after  is told of every round: its number, the log up to it, ids that sent nothing usable
    """
    if isinstance(strategy, type) or not hasattr(strategy, "aggregate"):
        raise TypeError(f"strategy: expected one such as fm.FedAvg(), got {shown(strategy)}")
    began, net, clients = time.perf_counter(), server.net, server.clients
    strategy.start(server)
    kind = type(strategy).__name__
    contract.begun(strategy)
    fresh = _owned(strategy, server)  # refused now, not after the last round
    mark = ""
    if checkpoint is not None:
        mark = files.fingerprint("train", workers.describe(), strategy, theta)
    log = resume(checkpoint, mark, strategy, rounds, theta, workers.kept)
    log = log or Log(theta, torch.zeros_like(theta), [_report(net, theta, test)], workers.kept)
    workers.restore(log.kept)
    spent = time.perf_counter() - began
    sieve = Sieve(server, theta, local)
    for t in progress.bar(range(log.done + 1, rounds + 1), "rounds"):
        chosen = distinct_ids("clients", strategy.select(t), clients)
        ids, updates = workers.updates(log.theta, chosen, t, log.previous)
        log.epochs += sum(local.passes(size) for size in workers.sizes[ids].tolist())
        ids, updates, spared = sieve.sift(log.theta, ids, updates, t)
        strategy.applied = torch.zeros(clients, dtype=theta.dtype, device=theta.device)
        old, missing = log.theta, chosen[~torch.isin(chosen, torch.cat([ids, spared]))]
        if len(ids):
            this = Round(t, old, ids, workers.sizes[ids], updates, missing)
            counted = getattr(strategy, "rounds", None)
            answer = f"round {t}: what {kind}.aggregate returns"
            with one_thread():  # the same bytes whatever the number of threads
                found = strategy.aggregate(this)
            log.theta = reals(answer, found, [net.P]).to(theta)
            contract.recorded(strategy, counted, t)
            del this
        del updates  # what nobody keeps serves again
        if workers.step:
            log.previous = log.theta - old
        ask = getattr(strategy, "message", None)
        if ask is not None and (message := ask(t)) is not None:
            asked = distinct_ids("clients", message.clients, clients)
            changed = workers.answers(message, asked, log.theta, t)
            if len(changed):
                strategy.hear(changed)
        selected = torch.zeros(clients, dtype=torch.bool)
        selected[chosen] = True
        own = [reals(f"{kind}.{n}", getattr(strategy, n), [clients]) for n in ("scores", "applied")]
        log.kept = workers.kept
        log.rows.append((own[0].clone(), own[1].clone(), selected))
        log.curve.append(_report(net, log.theta, test))
        spent = time.perf_counter() - began
        if checkpoint is not None and (t % every == 0 or t == rounds):
            contract.remembers(strategy, fresh)
            log.save(checkpoint, mark, strategy, spent)
        after(t, log, missing)
    sieve.sum_up()
    return log.history(_owned(strategy, server), spent, workers.labels)


def _owned(strategy: Strategy, server: Server) -> Strategy:
    """A copy of the strategy with all it holds; only the server is the same."""
    try:
        return copy.deepcopy(strategy, {id(server): server})
    except Exception as error:  # whatever its attributes raise
        raise TypeError(
            f"strategy: expected one that copy.deepcopy copies, as its history keeps a copy; "
            f"{type(strategy).__name__} is not ({error})"
        ) from error


def _report(net: Model, theta: Tensor, test: Samples) -> tuple[float, float]:
    accuracy, loss = (net.evaluate(theta[None], *test, metric) for metric in ("accuracy", "loss"))
    return float(accuracy), float(loss)
