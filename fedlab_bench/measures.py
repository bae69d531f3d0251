"""Measures: how a score compares with reference values, what its use does, and how stable it is.

Chapter 10 defines each measure. Builds on fedlab_mini.judge; used by judging and comparing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.judge.metrics import ranks
from fedlab_mini.streams import stream


class Measure(NamedTuple):
    """A measure's range, whether more is better, and its meaning in words."""

    low: float
    high: float
    more: bool
    meaning: str


BESIDE_TRUTH = {
    "tau": Measure(-1, 1, True, "rank correlation with retraining, between -1 and 1"),
    # Only if clients of less use are known.
    "AUC": Measure(0, 1, True, "chance that a client of less use gets the lower score"),
    "relative error": Measure(0, 1, False, "distance to the retrained shares, at the best scale"),
}
OF_ATTACKS = {
    "rank gained": Measure(
        *(-1, 1, False), "share of the clients that an attacker overtakes; below 0 it falls behind"
    ),
    "pay gained": Measure(
        *(-1, 1, False), "share of the pay that an attacker gains; below 0 it loses"
    ),
}
# Scores alone do not show these: only ``compare`` has the methods.
OF_METHODS = {
    **{
        f"removal, {first} first": Measure(
            *(0, 1, True), f"share of random sequences of leaving that it beats, the {first} first"
        )
        for first in ("best", "worst")
    },
    **{
        f"stability, {again}": Measure(-1, 1, True, f"tau with its own scores, {words}")
        for again, words in {
            "validation draw": "the validation samples drawn again",
            "training": "in another training run",
            "aggregation": "where the model is a plain mean",
        }.items()
    },
    "accuracy gained by weights": Measure(
        -1, 1, True, "test accuracy of a training run with the scores as weights, minus without"
    ),
    "evaluations a round": Measure(0, math.inf, False, "models that it evaluates"),
    "client epochs": Measure(0, math.inf, False, "passes over a client's data"),
    "seconds": Measure(0, math.inf, False, "processor seconds of a training run"),
}
MEASURES = BESIDE_TRUTH | OF_ATTACKS | OF_METHODS
ORDERS = 200  # random orderings to compare a removal with, and as many to break ties


def relative_error(scores: Tensor, truth: Tensor) -> float:
    """`|c scores - truth| / |truth|` with the best factor c >= 0, so that only shares matter."""
    # Scores of 0, or in the opposite direction, explain nothing, so the error is 1.
    squared = scores @ scores
    # Least squares: c = s.t / s.s minimises the length of c s - t.
    factor = (scores @ truth / squared).clamp(min=0) if squared > 0 else torch.zeros(())
    return float(torch.linalg.vector_norm(factor * scores - truth) / truth.norm())


def removal(scores: Tensor, worth: Tensor, seed: int) -> Iterator[tuple[str, float]]:
    """Clients leave one by one, the best or the worst first; compared with random orderings.

    The area is the mean worth of the remaining clients. "removal, best first" is the share of
    random orderings with a larger area (1: no ordering does more harm), "removal, worst first" the
    share with a smaller area; equal areas count half. Clients with tied scores leave in random
    order, and the result is a mean over ``ORDERS`` of them. So equal scores give about 1/2,
    whatever the ids
    """
    generator = stream(seed, "removal")
    shuffles = torch.rand(2 * ORDERS, len(scores), generator=generator).argsort(1)
    # Half of the orderings are compared with the scores; the other half break the scores' ties.
    rivals, tie_breaks = shuffles.split(ORDERS)
    # A stable sort keeps tied scores as they were drawn.
    ranking = ranks(scores)[tie_breaks].argsort(dim=1, descending=True, stable=True)
    best_first = tie_breaks.gather(1, ranking)  # [ORDERS, n]
    after_best, after_worst = (left_over(best_first, worth), left_over(best_first.flip(1), worth))
    random_areas = left_over(rivals, worth).mean(1)
    yield "removal, best first", beaten(random_areas, after_best.mean(1))
    yield "removal, worst first", beaten(-random_areas, -after_worst.mean(1))


def beaten(random_areas: Tensor, areas: Tensor) -> float:
    """The share of pairs with a larger random area; equal areas count half."""
    # [ORDERS, 1] - [1, ORDERS]: all random orderings minus all that the scores allow
    gaps = random_areas[:, None] - areas[None]
    larger = (gaps > 1e-12).double().mean()
    equal = (gaps.abs() <= 1e-12).double().mean()
    return float(larger + equal / 2)


def left_over(orders: Tensor, worth: Tensor) -> Tensor:
    """Worth after the first 1, ..., n - 1 of each ordering [m, n] have left: [m, n - 1]."""
    gone = (1 << orders).cumsum(1)[:, :-1]  # bit masks of the clients that have left
    # The mask of all clients has all bits set, so subtraction clears the bits in ``gone``.
    everybody = len(worth) - 1
    return worth[everybody - gone]


def fair(made: Callable[..., Any], round: Round, server: Server) -> dict[str, float]:
    """Four properties of a value, tested on one round: how far a method is from each.

    made      () -> a strategy
    null      the score of a client that sends zeros
    `twin`    the difference between two clients with the same update
    split     a client's gain if it appears as two clients, each with half of its samples
    efficiency  the distance of the sum from the round's gain
    These are shares of the largest score, efficiency a share of the gain, measured by the loss
    """
    # Sizes are doubled, so that the first client's samples can be halved.
    sizes = 2 * round.sizes
    first_update, first_size = round.updates[:1], sizes[:1]

    def scored(updates: Tensor, sizes: Tensor) -> Tensor:
        strategy, clients = made(), len(updates)
        told = replace(server, clients=clients)
        this = Round(1, round.theta, torch.arange(clients), sizes, updates)
        state = strategy.step(told, strategy.init(told), this).state
        return strategy.scores(told, state).double().cpu()

    plain = scored(round.updates, sizes)
    # One more client, in three forms: the first one's copy, a client of zeros, half of the first.
    with_twin = torch.cat([round.updates, first_update])
    with_zeros = torch.cat([round.updates, 0 * first_update])
    null = scored(with_zeros, torch.cat([sizes, first_size]))
    twin = scored(with_twin, torch.cat([sizes, first_size]))
    split = scored(with_twin, torch.cat([first_size // 2, sizes[1:], first_size // 2]))
    gain = _gain(round, sizes, server)
    return {
        "null": float(null[-1].abs() / _largest(null)),
        "twin": float((twin[0] - twin[-1]).abs() / _largest(twin)),
        "split": float((split[0] + split[-1] - plain[0]) / _largest(plain)),
        "efficiency": abs(float(plain.sum()) - gain) / abs(gain),
    }


def _largest(scores: Tensor) -> Tensor:
    return scores.abs().max().clamp(min=1e-300)


def _gain(round: Round, sizes: Tensor, server: Server) -> float:
    """The fall of the validation loss by federated averaging in a round."""
    weights = (sizes.double() / sizes.sum()).to(round.updates)
    averaged = round.theta + weights @ round.updates
    models = torch.stack([round.theta, averaged])
    before, after = server.net.evaluate(models, *server.validation, "loss")
    return float(before - after)
