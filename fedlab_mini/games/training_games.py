"""Training games: what a coalition is worth to one round, or to a whole training.

Chapter 2 derives the round game (players are one round's updates), chapter 3 the retraining game
(players are clients). Below: coalitions, engine.simulate.
"""

from __future__ import annotations

import copy
import functools
import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..engine.guard import starting_model
from ..engine.local import LocalSGD
from ..engine.model import Model
from ..engine.objective import Metric, check_metric
from ..engine.simulate import simulate
from ..worlds.federation import Federation
from .coalitions import RoundGame
from .game import Game


def round_game(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    metric: Metric = "accuracy",
    weights: Tensor | None = None,
    absent: str = "left out",
) -> Game:
    """The game of one round: its updates play, v(S) is the quality of theta + their sum.

    theta [P], updates [m, P], weights [m] > 0 (default: equal); x, y the server's samples
    metric  "accuracy", "loss" (v is then minus the mean loss), or a function of (outputs, labels),
            more is better: outputs [N, classes] are class scores before any softmax
    absent  what becomes of the weights w_i of a coalition: "left out", they are divided by their
            sum, as FedAvg would have done without the others; "silent", by the sum over all m: the
            others sent zeros. Silent, a zero update earns exactly 0 and nobody gains by splitting
            where the quality is quadratic; left out, neither holds
    v(empty) is the quality of theta itself, so the values sum to the round's gain. All is copied:
    what becomes of the arrays or of the module later changes nothing of the game
    raises  TypeError or ValueError naming the argument; float types are widened to a common one
    """
    check_metric("metric", metric)
    checks.choice("absent", absent, ("left out", "silent"))
    net = checks.instance("net", net, Model, "fm.Model(module)").now()
    theta = checks.reals("theta", theta, [net.P])
    updates = checks.reals("updates", updates, ["m", net.P])
    x = checks.reals("x", x, ["N", "..."])
    theta, updates, x = _common_type(theta, updates, x)
    y = net.labels("y", y, x, net.outputs(x)).clone()
    players = len(updates)
    weights = [1.0] * players if weights is None else weights  # type: ignore[assignment]
    weights = checks.reals("weights", weights, [players], dtype=theta.dtype)
    weights = weights.to(updates, copy=True)
    if not (weights > 0).all():
        shown = checks.shown(weights.tolist())
        raise ValueError(f"weights: expected {players} positive numbers, got {shown}")
    value = RoundGame(net, theta, updates, weights, x, y, metric=metric, absent=absent)
    if absent == "left out":
        return Game(players, value, name="a round")
    # Coalitions that differ by zero updates are evaluated once, whenever they are asked for.
    moved = _Moved(Game(players, value), updates.any(1).cpu())
    return Game(players, moved, name="a round, silent")


@dataclass(frozen=True)
class _Moved:
    """The worth of a coalition is that of those in it whose update is not zero."""

    game: Game
    moved: Tensor

    def __call__(self, coalitions: Tensor) -> Tensor:
        return self.game(coalitions & self.moved)


def _common_type(*tensors: Tensor) -> list[Tensor]:
    """Copies of the tensors in the widest of their types."""
    widest = functools.reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return [tensor.to(widest, copy=True) for tensor in tensors]


def retraining_game(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD | None = None,
    metric: Metric = "accuracy",
    seed: int = 0,
    *,
    on: str = "validation",
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Game:
    """The game of whole trainings: v(S) is the final quality when only the clients of S took part.

    metric  as in ``round_game``, on the server's ``on`` samples
    cache   folder for finished blocks of 32 coalitions; a killed game goes on from there with
            the same bytes, and another one that asks for the same blocks finds them
    v(empty) is the quality of the untrained model; cost: |S| x rounds x passes client epochs
    """
    check_metric("metric", metric)
    local = LocalSGD() if local is None else local
    # A copy, as every training of a game begins anew, and needs no word on that.
    net = checks.instance("net", net, Model, "fm.Model(module)").now()
    net, _ = starting_model(fed, net, rounds, local, seed)
    fed.server(on)
    # The game of the clients as they now are, however late it is asked.
    fed = copy.deepcopy(fed)

    value = _Retrained(fed, net, rounds, local, metric, seed, on, cache, n_jobs)
    passes = [local.passes(int(size)) for size in fed.sizes]
    client_epochs = rounds * float(np.mean(passes))
    return Game(fed.clients, value, name="retraining", client_epochs=client_epochs)


@dataclass(frozen=True)
class _Retrained:
    """The worth of coalitions by training them; see ``retraining_game``."""

    fed: Federation
    net: Model
    rounds: int
    local: LocalSGD
    metric: Metric
    seed: int
    on: str
    cache: str | os.PathLike[str] | None
    n_jobs: int | None

    def __call__(self, coalitions: Tensor) -> Tensor:
        quality = simulate(
            self.fed,
            self.net,
            # [C, n] -> [C, T, n] without a copy
            participation=coalitions[:, None, :].expand(-1, self.rounds, -1),
            local=self.local,
            seed=self.seed,
            metric=self.metric,
            on=self.on,
            last=True,
            cache=self.cache,
            n_jobs=self.n_jobs,
        )[:, 0]
        return -quality if self.metric == "loss" else quality
