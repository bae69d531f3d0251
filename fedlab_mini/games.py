"""Games: the closed forms that test every estimator, and the two games of federated learning.

Chapter 2 derives the closed forms, which carry their Shapley value as ``.shapley``, and the round
game (players are one round's updates); chapter 3 the retraining game (players are clients).
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import checkpoint as files
from . import checks
from .checks import shown
from .coalitions import coalition_metric
from .federation import Federation
from .game import Game
from .local import LocalSGD
from .model import Model, check_metric
from .simulation import simulate
from .start import begin, describe


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


def round_game(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    metric: str = "accuracy",
    weights: Tensor | None = None,
    absent: str = "left out",
) -> Game:
    """The game of one round: its updates play, v(S) is the quality of theta + their sum.

    theta [P], updates [m, P], weights [m] > 0 (default: equal); x, y the server's samples
    metric  "accuracy", or "loss" (v is then minus the mean cross-entropy)
    absent  what becomes of the weights w_i of a coalition: "left out", they are divided by their
            sum, as FedAvg would have done without the others; "silent", by the sum over all m: the
            others sent zeros. Silent, a zero update earns exactly 0 and nobody gains by splitting
            where the quality is quadratic; left out, neither holds
    v(empty) is the quality of theta itself, so the values sum to the round's gain
    raises  TypeError or ValueError naming the argument; float types are widened to a common one
    """
    check_metric(metric)
    checks.choice("absent", absent, ("left out", "silent"))
    checks.instance("net", net, Model, "fm.Model(module)")
    theta = checks.reals("theta", theta, [net.P])
    updates = checks.reals("updates", updates, ["m", net.P])
    m, x = len(updates), checks.array("x", x, ["N", "..."])
    if x.is_floating_point():
        x = checks.reals("x", x, ["N", "..."])
    kinds = [part.dtype for part in (theta, updates, x) if part.is_floating_point()]
    kind = functools.reduce(torch.promote_types, kinds)
    theta, updates = theta.to(kind), updates.to(kind)
    x = x.to(kind) if x.is_floating_point() else x
    y = checks.wholes("y", y, [len(x)], high=net.outputs(x) - 1)
    given = [1.0] * m if weights is None else weights
    weights = checks.reals("weights", given, [m], dtype=kind).to(updates)
    if not (weights > 0).all():
        raise ValueError(f"weights: expected {m} positive numbers, got {shown(weights.tolist())}")
    sign = 1.0 if metric == "accuracy" else -1.0

    def value(s: Tensor) -> Tensor:
        return sign * coalition_metric(net, theta, updates, weights, s, x, y, metric, absent)

    mark = files.fingerprint("round", net, theta, updates, x, y, metric, weights, absent)
    if absent == "silent":  # coalitions that differ by zeros are evaluated once, whenever asked for
        moved, inner = updates.any(1).cpu(), Game(m, value, mark=mark)
        value = lambda s: inner(s & moved)  # noqa: E731
    return Game(m, value, name=f"round {mark[:12]}", mark=mark)


def retraining_game(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD | None = None,
    metric: str = "accuracy",
    seed: int = 0,
    *,
    on: str = "validation",
    checkpoint: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> Game:
    """The game of whole trainings: v(S) is the final quality when only the clients of S took part.

    metric  "accuracy", or "loss" (v is then minus the loss) on the server's ``on`` samples
    checkpoint  file for finished coalitions; a killed run goes on from there with the same bytes
    v(empty) is the quality of the untrained model; cost: |S| x rounds x passes client epochs
    """
    check_metric(metric)
    local = LocalSGD() if local is None else local
    begin(fed, net, rounds, local, seed)
    fed.server(on)
    sign = 1.0 if metric == "accuracy" else -1.0

    def value(coalitions: Tensor) -> Tensor:
        participation = coalitions[:, None, :].expand(-1, rounds, -1)
        return (
            sign
            * simulate(
                fed,
                net,
                participation,
                local=local,
                seed=seed,
                metric=metric,
                on=on,
                last=True,
                n_jobs=n_jobs,
            )[:, 0]
        )

    epochs = rounds * float(np.mean([local.passes(int(size)) for size in fed.sizes]))
    mark = files.fingerprint(describe(fed, net, local, seed), rounds, metric, on)
    return Game(
        fed.clients,
        value,
        name=f"retraining {mark[:12]}",
        mark=mark,
        client_epochs=epochs,
        checkpoint=checkpoint,
        batch=None if checkpoint is None else 128,
    )


def _vector(label: str, values: Sequence[float] | Tensor) -> Tensor:
    return checks.reals(label, values, ["n"], dtype=torch.float64)
