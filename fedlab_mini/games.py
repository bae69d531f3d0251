"""Games: the closed forms that test every estimator, and the two games of federated learning.

Chapter 2 derives the closed forms, which carry their Shapley value as ``.shapley``, and the round
game (players are one round's updates); chapter 3 the retraining game (players are clients).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import checkpoint as files
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
    if left < 1 or right < 1:
        raise ValueError(f"left, right: expected at least one glove each, got {left}, {right}")
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

    phi = [share(left, right)] * left + [share(right, left)] * right
    pairs = lambda s: torch.minimum(s[:, :left].sum(1), s[:, left:].sum(1)).double()  # noqa: E731
    phi = torch.tensor(phi, dtype=torch.float64)
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
    votes = [int(w) for w in weights]
    if not votes or min(votes) < 0 or any(int(w) != w for w in weights):
        raise ValueError(f"weights: expected whole numbers of at least 0, got {list(weights)}")
    if not 0 < quota <= sum(votes):
        raise ValueError(f"quota: expected 1..{sum(votes)}, got {quota}")
    n = len(votes)
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
    updates, weights, g, H = (
        torch.as_tensor(a, dtype=torch.float64) for a in (updates, weights, g, H)
    )
    if updates.ndim != 2 or g.ndim != 1:
        raise ValueError(
            f"updates, g: expected [n, P] and [P], got {list(updates.shape)}, {list(g.shape)}"
        )
    n, P = updates.shape
    if weights.shape != (n,) or g.shape != (P,) or H.shape != (P, P):
        raise ValueError(
            f"updates [n, P], weights [n], g [P], H [P, P]: got {list(updates.shape)}, "
            f"{list(weights.shape)}, {list(g.shape)}, {list(H.shape)}"
        )
    for label, tensor in (("updates", updates), ("weights", weights), ("g", g), ("H", H)):
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{label}: holds NaN or infinite values")
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
) -> Game:
    """The game of one round: its updates play, v(S) is the quality of theta + their weighted mean.

    theta [P], updates [m, P], weights [m] > 0 (default: equal), renormalised in every coalition;
    x, y the server's samples; metric "accuracy", or "loss" (v is then minus the mean cross-entropy)
    v(empty) is the quality of theta itself, so the values sum to the round's gain
    """
    check_metric(metric)
    if not isinstance(net, Model):
        raise TypeError(f"net: expected fm.Model(module), got {type(net).__name__}")
    if updates.ndim != 2 or updates.shape[1] != net.P or theta.shape != (net.P,):
        raise ValueError(
            f"theta, updates: expected [{net.P}] and [m, {net.P}], got {list(theta.shape)}, "
            f"{list(updates.shape)}"
        )
    for label, tensor in (("theta", theta), ("updates", updates), ("x", x)):
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{label}: holds NaN or infinite values")
    if y.ndim != 1 or len(x) != len(y) or y.is_floating_point() or len(y) == 0:
        raise ValueError(
            f"x, y: expected inputs [N, ...] and integer labels [N], got {list(x.shape)} and "
            f"{list(y.shape)} of {y.dtype}"
        )
    classes = net.outputs(x)
    if not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise ValueError(f"y: expected labels in 0..{classes - 1}, got up to {int(y.max())}")
    m = len(updates)
    weights = torch.ones(m) if weights is None else torch.as_tensor(weights)
    if weights.shape != (m,) or not (torch.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"weights: expected {m} positive numbers, got {weights.tolist()}")
    sign = 1.0 if metric == "accuracy" else -1.0
    weights = weights.to(updates)
    name = "round " + files.fingerprint(repr(net), theta, updates, x, y, metric, weights)[:12]
    return Game(
        m,
        lambda s: sign * coalition_metric(net, theta, updates, weights, s, x, y, metric),
        name=name,
    )


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
    vector = torch.as_tensor(values, dtype=torch.float64)
    if vector.ndim != 1 or len(vector) == 0 or not torch.isfinite(vector).all():
        raise ValueError(f"{label}: expected a list of finite numbers, got {values}")
    return vector
