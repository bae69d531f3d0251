"""Judge: what a score is like beside the truth, beside chance, and beside what is known.

Below: metrics. Chapter 10 defines each measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ...engine.rounds import Round, Server
from ...streams import stream
from ..metrics import detection_auc, kendall, spearman

ORDERS = 200  # random orders that a removal is judged among, and by which ties are broken


def judged(
    scores: Tensor, truths: list[Tensor], worth: Tensor, bad: list[int] | None, seed: int
) -> Iterator[tuple[str, float]]:
    """What a score is like beside the truth, the removal that it advises, and what is known.

    scores [K]; truths  exact values of retraining, one a training seed, each [K]
    worth [2^K]  of every coalition, retrained: removal is read off it
    bad          ids of the clients known to be of less use, or None
    """
    yield "tau with retraining", sum(kendall(scores, phi) for phi in truths) / len(truths)
    yield "rank correlation", sum(spearman(scores, phi) for phi in truths) / len(truths)
    yield "relative error", sum(relative_error(scores, phi) for phi in truths) / len(truths)
    yield from removal(scores, worth, seed)
    if bad is not None:
        yield "detection AUC", detection_auc(scores, bad)


def relative_error(scores: Tensor, truth: Tensor) -> float:
    """|c scores - truth| / |truth| with the best factor c >= 0: units do not matter, shares do."""
    size = scores @ scores
    factor = (scores @ truth / size).clamp(min=0) if size > 0 else torch.zeros(())
    return float(torch.linalg.vector_norm(factor * scores - truth) / truth.norm())


def removal(scores: Tensor, worth: Tensor, seed: int) -> Iterator[tuple[str, float]]:
    """Clients leave one by one, the best or the worst first: among random orders, how unusual?

    The area is the mean worth of those who are left. "removal, best first" is the share of random
    orders with a larger area (1: nobody does more harm), "removal, worst first" with a smaller one;
    equal areas count half. "reversals": at how many of the n - 1 places the better clients' leaving
    does less harm. Clients with equal scores leave in random order, the mean over ``ORDERS`` of
    them: a score that is the same for all comes out as luck, whatever the ids say
    """
    generator = stream(seed, "removal")
    shuffles = torch.rand(2 * ORDERS, len(scores), generator=generator).argsort(1)
    random, shuffled = left_over(shuffles, worth).split(ORDERS)[0], shuffles[ORDERS:]
    order = scores[shuffled].argsort(dim=1, descending=True, stable=True)
    best = shuffled.gather(1, order)  # [ORDERS, n], ties by shuffle
    first, last = left_over(best, worth), left_over(best.flip(1), worth)
    yield "removal, best first", beaten(random.mean(1), first.mean(1))
    yield "removal, worst first", beaten(-random.mean(1), -last.mean(1))
    yield "reversals", float((first > last + 1e-12).double().sum(1).mean())


def beaten(random: Tensor, own: Tensor) -> float:
    """The share of pairs in which ``random`` is above ``own``; equal ones count half."""
    gap = random[:, None] - own[None]
    return float((gap > 1e-12).double().mean() + (gap.abs() <= 1e-12).double().mean() / 2)


def left_over(orders: Tensor, worth: Tensor) -> Tensor:
    """Worth after the first 1, ..., n - 1 of each order [m, n] have left: [m, n - 1]."""
    gone = (1 << orders).cumsum(1)[:, :-1]
    return worth[len(worth) - 1 - gone]


def fair(made: Callable, round: Round, server: Server) -> dict[str, float]:
    """Four properties of a value, tried on one round: how far a method is from having each.

    made      () -> a strategy that has not started
    null      what a client that sends zeros earns
    twin      by how much two clients with the same update differ
    split     what a client gains by appearing as two, each with half of its samples
    efficiency  how far the sum is from the round's gain
    All as shares of the largest score, efficiency as a share of the gain; the loss is the worth
    """
    sizes = 2 * round.sizes
    first, row = round.updates[:1], sizes[:1]

    def scored(updates: Tensor, sizes: Tensor) -> Tensor:
        m, strategy = len(updates), made()
        strategy.start(replace(server, clients=m))
        strategy.aggregate(Round(1, round.theta, torch.arange(m), sizes, updates))
        return strategy.scores.double().cpu()

    plain = scored(round.updates, sizes)
    size = plain.abs().max().clamp(min=1e-300)
    more = torch.cat([round.updates, first])
    null = scored(torch.cat([round.updates, 0 * first]), torch.cat([sizes, row]))
    twin = scored(more, torch.cat([sizes, row]))
    split = scored(more, torch.cat([row // 2, sizes[1:], row // 2]))
    net, theta = server.net, round.theta
    whole = theta + (sizes.double() / sizes.sum()).to(round.updates) @ round.updates
    loss = net.evaluate(torch.stack([theta, whole]), *server.validation, "loss")
    gain = float(loss[0] - loss[1])
    return {
        "null": float(null[-1].abs() / null.abs().max().clamp(min=1e-300)),
        "twin": float((twin[0] - twin[-1]).abs() / twin.abs().max().clamp(min=1e-300)),
        "split": float((split[0] + split[-1] - plain[0]) / size),
        "efficiency": abs(float(plain.sum()) - gain) / abs(gain),
    }
