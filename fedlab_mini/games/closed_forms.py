"""Closed forms: games whose Shapley value is known, to test every estimator by.

Chapter 2 derives them; each carries its value as ``.shapley``. Below: game.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import checks
from ..engine import checkpoint as files
from .game import Game


def additive(w: Sequence[float] | Tensor) -> Game:
    """v(S) = sum of w over S; Shapley value w."""
    w = _vector("w", w)
    return Game(len(w), lambda s: s.double() @ w, shapley=w, name=f"additive {w.tolist()}")


def glove(left: int, right: int) -> Game:
    """Players 0..left-1 own a left glove, the others a right one; a pair is worth 1."""
    left, right = checks.whole("left", left), checks.whole("right", right)
    n = left + right

    def share(own: int, other: int) -> float:
        """Chance that fewer own than other gloves came before: the newcomer completes a pair."""
        return sum(
            math.comb(own - 1, a)
            * math.comb(other, b)
            * math.factorial(a + b)
            * math.factorial(n - 1 - a - b)
            / math.factorial(n)
            for a in range(own)
            for b in range(a + 1, other + 1)
        )

    shares = [share(left, right)] * left + [share(right, left)] * right
    pairs = lambda s: torch.minimum(s[:, :left].sum(1), s[:, left:].sum(1)).double()  # noqa: E731
    phi = torch.tensor(shares, dtype=torch.float64)
    return Game(n, pairs, shapley=phi, name=f"glove {left} left, {right} right")


def airport(costs: Sequence[float] | Tensor) -> Game:
    """v(S) = the longest runway S needs; its users share every piece [Littlechild & Owen 1973]."""
    costs = _vector("costs", costs)
    if (costs < 0).any():
        raise ValueError("costs: expected numbers of at least 0")
    order = costs.argsort()
    pieces = torch.diff(costs[order], prepend=costs.new_zeros(1))
    phi = torch.empty_like(costs)
    phi[order] = (pieces / torch.arange(len(costs), 0, -1)).cumsum(0)
    longest = lambda s: (s * costs).amax(1)  # noqa: E731
    return Game(len(costs), longest, shapley=phi, name=f"airport {costs.tolist()}")


def majority(weights: Sequence[int] | Tensor, quota: int) -> Game:
    """v(S) = 1 if the votes of S reach the quota; its Shapley value by dynamic programming."""
    votes = checks.wholes("weights", weights, ["n"]).tolist()
    n, quota = len(votes), checks.whole("quota", quota, high=sum(votes))
    phi = []
    for i in range(n):
        ways = [[0] * (quota) for _ in range(n)]  # ways[s][u]: coalitions of s others with u votes
        ways[0][0] = 1
        for vote in votes[:i] + votes[i + 1 :]:
            for s in range(n - 1, 0, -1):
                for u in range(quota - 1, vote - 1, -1):
                    ways[s][u] += ways[s - 1][u - vote]
        pivotal = [sum(ways[s][max(0, quota - votes[i]) : quota]) for s in range(n)]
        phi.append(sum(p / (n * math.comb(n - 1, s)) for s, p in enumerate(pivotal)))
    w = torch.tensor(votes, dtype=torch.float64)
    return Game(
        n,
        lambda s: (s.double() @ w >= quota).double(),
        shapley=torch.tensor(phi, dtype=torch.float64),
        name=f"majority {votes} quota {quota}",
    )


def quadratic(updates: Tensor, weights: Tensor, g: Tensor, H: Tensor) -> Game:
    """Minus the loss g.x + x'Hx/2 at x_S = sum of w_i delta_i over S (weights not renormalised).

    updates [n, P], weights [n], g [P], H [P, P] symmetric; Shapley value
    phi_i = -w_i delta_i.(g + H U / 2) with U = sum_j w_j delta_j
    """
    updates = checks.reals("updates", updates, ["n", "P"], dtype=torch.float64)
    n, P = updates.shape
    weights = checks.reals("weights", weights, [n], dtype=torch.float64)
    g = checks.reals("g", g, [P], dtype=torch.float64)
    H = checks.reals("H", H, [P, P], dtype=torch.float64)
    if not torch.allclose(H, H.T):
        raise ValueError("H: expected a symmetric matrix")
    steps = weights[:, None] * updates

    def value(s: Tensor) -> Tensor:
        x = s.double() @ steps
        return -(x @ g) - ((x @ H) * x).sum(1) / 2

    phi = -steps @ (g + H @ steps.sum(0) / 2)
    return Game(n, value, shapley=phi, name="quadratic " + files.fingerprint(steps, g, H)[:12])


def _vector(label: str, values: Sequence[float] | Tensor) -> Tensor:
    return checks.reals(label, values, ["n"], dtype=torch.float64)
