"""Training: rounds of federated averaging under a strategy.

Chapter 1 derives it. Below: local, rounds. Above: simulation (many trainings), games, methods.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from . import checkpoint as files
from .federation import Federation
from .local import LocalSGD, Shuffles, train_rows
from .model import Model
from .rounds import History, Log, Message, Round, Server, Strategy, resume
from .streams import stream


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
    room = theta.new_empty(fed.clients, net.P)  # touched once: new pages every round would cost
    for t in tqdm(range(log.done + 1, rounds + 1), desc="rounds", disable=None):
        chosen = check_clients(strategy.select(t), fed.clients)
        ids = torch.tensor([k for k in chosen.tolist() if k not in fed.unusable], dtype=torch.long)
        updates = _round_updates(
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
    return _round_updates(fed, net, theta, ids, shuffles, t, torch.zeros_like(theta), room)


def _round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    previous: Tensor,
    updates: Tensor,
) -> Tensor:
    """Fill ``updates`` [m, P] with what the clients ``ids`` [m] send in round ``t``."""
    if len(ids) == 0:
        return updates
    sizes = shuffles.sizes[ids.numpy()]
    plan = shuffles.plan(t, ids.numpy(), sizes)
    order = torch.from_numpy(np.lexsort((-sizes, -plan.steps)))  # stable
    run = torch.zeros_like(order)
    ordered = torch.equal(order, torch.arange(len(order)))  # then rows need no second copy
    out = updates if ordered else None
    rate = shuffles.local.rate(t)
    given = (fed, net, theta[None], run, order, plan, rate)
    for rows, part in train_rows(*given, out=out, shuffles=shuffles):
        if not ordered:
            updates[order[rows]] = part
    return attack(fed, updates, ids, previous.expand(len(ids), -1), shuffles.seed, t)


def attack(
    fed: Federation, updates: Tensor, ids: Tensor, previous: Tensor, seed: int, t: int
) -> Tensor:
    """Let the attackers among the clients ``ids`` [m] change their rows, in place."""
    for k, wrong in fed.attacks.items():
        for row in (ids == k).nonzero().flatten().tolist():  # one stream a client and round
            noise = stream(seed, "attack", t, k)
            updates[row : row + 1] = wrong(updates[row : row + 1], previous[row : row + 1], noise)
    return updates


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


def finite_rows(updates: Tensor) -> Tensor:
    """Which rows [m] of updates [m, P] hold no NaN and no infinite value."""
    if updates.numel() == 0:
        return torch.ones(len(updates), dtype=torch.bool)
    finite = torch.isfinite(updates.sum(1))  # a finite sum has finite terms: one fast pass
    if not finite.all():  # a sum may overflow: look again at every value
        finite = torch.isfinite(updates.amin(1)) & torch.isfinite(updates.amax(1))
    return finite


def check_clients(ids: Tensor | Sequence[int], clients: int) -> Tensor:
    """Client ids as a LongTensor; ValueError or TypeError for unknown or repeated ones."""
    try:
        ids = torch.as_tensor(ids if torch.is_tensor(ids) else list(ids)).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"clients: expected client ids, got {ids!r}") from error
    if ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool):
        raise TypeError(f"clients: expected whole numbers, got {ids.dtype}")
    ids = ids.long()
    if ids.ndim != 1 or len(ids.unique()) != len(ids):
        raise ValueError(f"clients: expected distinct client ids, got {ids.tolist()}")
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < clients):
        raise ValueError(f"clients: expected ids in 0..{clients - 1}, got {ids.tolist()}")
    return ids


def begin(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    theta: Tensor | None = None,
) -> Tensor:
    """Check what every training needs and return the model to start from."""
    if not isinstance(fed, Federation):
        raise TypeError(f"fed: expected a Federation, got {type(fed).__name__}")
    if not isinstance(net, Model):
        raise TypeError(f"net: expected fm.Model(module), got {type(net).__name__}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds: expected a whole number of at least 1, got {rounds!r}")
    if not isinstance(local, LocalSGD):
        raise TypeError(f"local: expected an fm.LocalSGD(...), got {local!r}")
    net.check(fed.x, fed.classes)
    if theta is not None and not torch.is_tensor(theta):
        raise TypeError(f"theta: expected a tensor [{net.P}], got {type(theta).__name__}")
    if theta is None:
        return net.init(seed, dtype=fed.x.dtype, device=fed.x.device)
    if theta.shape != (net.P,):
        raise ValueError(f"theta: expected shape [{net.P}], got {list(theta.shape)}")
    if not torch.isfinite(theta).all():
        raise ValueError("theta: holds NaN or infinite values")
    return theta.to(fed.x)


def _report(fed: Federation, net: Model, theta: Tensor) -> tuple[float, float]:
    return tuple(net.evaluate(theta[None], *fed.test, m).item() for m in ("accuracy", "loss"))


def names(ids: Sequence[int] | set[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable(fed: Federation) -> None:
    """Name the clients whose data are not finite, once a training."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and takes no part",
            stacklevel=3,
        )


def describe(fed: Federation, net: Model, local: LocalSGD, seed: int) -> str:
    """Fingerprint of everything a training depends on, for checkpoints."""
    attacks = [(k, type(a).__qualname__, vars(a)) for k, a in sorted(fed.attacks.items())]
    state = [b for _, b in net.module.named_buffers()]
    shapes, unusable = sorted(net.shapes.items()), sorted(fed.unusable)
    names = (repr(net.module), net.layers, *state, shapes, unusable, attacks)
    return files.fingerprint(
        *names, fed.x, fed.y, fed.sizes, *fed.validation, *fed.test, local, seed
    )
