"""Training: rounds of federated averaging under a strategy.

Chapter 1 derives it. Below: local, rounds. Above: simulation (many trainings), games, methods.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from tqdm import tqdm

from . import checkpoint as files
from .federation import Federation
from .local import LocalSGD, Shuffles, finite_rows, round_updates
from .model import Model
from .rounds import History, Log, Message, Round, Server, Strategy, resume
from .start import begin, check_clients, describe, names, warn_unusable


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
    raises      ValueError or TypeError naming the argument. A client whose update is not finite is
                left out of that round, with a warning that names it
    """
    local = LocalSGD() if local is None else local
    theta = begin(fed, net, rounds, local, seed, theta)
    if isinstance(strategy, type) or not hasattr(strategy, "aggregate"):
        raise TypeError(f"strategy: expected one such as fm.FedAvg(), got {strategy!r}")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"every: expected a whole number of rounds of at least 1, got {every!r}")
    began, shuffles = time.perf_counter(), Shuffles(fed, local, seed)
    strategy.start(Server(fed.clients, fed.classes, net, fed.validation, seed))
    warn_unusable(fed)
    mark = ""
    if checkpoint is not None:
        kind = type(strategy)
        label = kind.__qualname__ if kind.__repr__ is object.__repr__ else repr(strategy)
        mark = files.fingerprint("train", describe(fed, net, local, seed), label, theta)
    original = fed.y
    log = resume(checkpoint, mark, strategy, rounds, theta, original)
    log = log or Log(theta, torch.zeros_like(theta), [_report(fed, net, theta)], original)
    fed = replace(fed, y=log.labels)
    spent = time.perf_counter() - began
    room = theta.new_empty(0, net.P)  # kept: new pages every round would cost
    for t in tqdm(range(log.done + 1, rounds + 1), desc="rounds", disable=None):
        chosen = check_clients(strategy.select(t), fed.clients)
        ids = torch.tensor([k for k in chosen.tolist() if k not in fed.unusable], dtype=torch.long)
        if len(ids) > len(room):
            room = theta.new_empty(len(ids), net.P)
        updates = round_updates(
            fed, net, log.theta, ids, shuffles, t, log.previous, room[: len(ids)]
        )
        log.epochs += sum(local.passes(size) for size in fed.sizes[ids].tolist())
        ids, updates = drop_broken(ids, updates, t)
        strategy.applied = torch.zeros(fed.clients, dtype=theta.dtype, device=theta.device)
        old, missing = log.theta, chosen[~torch.isin(chosen, ids)]
        if len(ids):
            this = Round(t, old, ids, fed.sizes[ids], updates, missing)
            log.theta = strategy.aggregate(this)
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
        log.rows.append((strategy.scores.clone(), strategy.applied.clone(), asked))
        log.curve.append(_report(fed, net, log.theta))
        spent = time.perf_counter() - began
        if checkpoint is not None and (t % every == 0 or t == rounds):
            log.save(checkpoint, mark, strategy, spent)
    return log.history(strategy, spent)


def _answers(
    message: Message, fed: Federation, net: Model, theta: Tensor, original: Tensor
) -> tuple[Tensor, Tensor]:
    """All client labels [n] after the clients asked have answered, and the ids that changed any."""
    labels, changed = fed.y.clone(), []
    for k in check_clients(message.clients, fed.clients).tolist():
        if k in fed.unusable:
            continue
        own = slice(*fed.offsets[k : k + 2].tolist())
        given = (fed.x[own], original[own].clone(), fed.y[own].clone())
        answer = message.answer(net, theta, *given)
        if not torch.is_tensor(answer) or answer.dtype != torch.long:
            kind = answer.dtype if torch.is_tensor(answer) else type(answer).__name__
            raise TypeError(f"message: client {k} answered {kind}, expected whole labels [n]")
        fits = answer.shape == original[own].shape and answer.min() >= 0
        if not (fits and answer.max() < fed.classes):
            raise ValueError(f"message: client {k} was given labels that are no classes")
        if not torch.equal(answer, fed.y[own]):
            labels[own] = answer
            changed.append(k)
    return labels, torch.tensor(changed, dtype=torch.long)


def local_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
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
    local = LocalSGD() if local is None else local
    theta = begin(fed, net, 1, local, seed, theta)
    ids = check_clients(range(fed.clients) if clients is None else clients, fed.clients)
    shuffles = Shuffles(fed, local, seed)
    room = theta.new_empty(len(ids), net.P)
    return round_updates(fed, net, theta, ids, shuffles, t, torch.zeros_like(theta), room)


def drop_broken(ids: Tensor, updates: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Leave out clients whose update is not finite, with a warning that names them."""
    finite = finite_rows(updates).cpu()
    if finite.all():
        return ids, updates
    bad = ids[~finite].tolist()
    warnings.warn(
        f"round {t}: client {names(bad)} sent an update that is not finite; it is left out",
        stacklevel=3,
    )
    return ids[finite], updates[finite.to(updates.device)]


def _report(fed: Federation, net: Model, theta: Tensor) -> tuple[float, float]:
    return tuple(net.evaluate(theta[None], *fed.test, m).item() for m in ("accuracy", "loss"))
