"""Training games: the worth of a coalition for one round, or for a whole training run.

Chapter 2 derives the round game, whose players are one round's updates [Song et al. 2019]. Chapter
3 derives the retraining game, whose players are clients. All coalitions train with the same first
model and shuffles, so that two worths differ by their members, not by chance.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.simulate import simulate
from ..parse.metric import Metric
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
    """The game of one round: its updates are the players; v(S) is the quality with those of S.

    theta [P], updates [m, P], weights [m] > 0 (default: equal); x, y the server's samples
    metric  "accuracy", "loss" (v is then minus the mean loss), or a function of (outputs, labels),
            more is better: outputs [N, classes] are class scores before any softmax
    absent  how a coalition's weights are divided. "left out": by their sum, as in FedAvg without
            the others; "silent": by the sum over all m, as if the others had sent zeros. With
            "silent" a zero update gets exactly 0, and if the quality is quadratic, no client gains
            by splitting up; with "left out" neither holds
    v(empty) is the quality of theta itself, so the values sum to the round's gain.
    ``fm.round_game`` checks and copies its arguments, so later changes do not change the game

    Warning: theta must be the model from which the updates were trained. With another theta, such
    as that of a later round, no coalition's model is one that training could have made
    raises  TypeError or ValueError naming the argument; float types are widened to a common one
    """
    players = len(updates)
    weights = updates.new_ones(players) if weights is None else weights
    value = RoundGame(net, theta, updates, weights, x, y, metric=metric, absent=absent)
    if absent == "left out":
        return Game(players, value, name="a round")
    # Coalitions that differ by zero updates are evaluated only once, also in separate calls.
    moved = partial(_of_moved, Game(players, value), updates.any(1).cpu())
    return Game(players, moved, name="a round, silent")


def _of_moved(game: Game, moved: Tensor, coalitions: Tensor) -> Tensor:
    """The worth of a coalition, computed for its members with updates that are not zero."""
    return game(coalitions & moved)


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
    """The game of training runs: v(S) is the final quality if only the clients of S participate.

    metric  as in ``round_game``, on the server's ``on`` samples
    cache   folder for finished blocks of 32 coalitions; a game that was killed continues from them
            with the same bytes, and other games that need the same blocks use them, too
    v(empty) is the quality of the untrained model; cost: |S| x rounds x passes client epochs
    """
    local = LocalSGD() if local is None else local
    settings: dict[str, Any] = {"local": local, "metric": metric, "seed": seed, "on": on}
    value = partial(_retrained, fed, net, rounds, **settings, cache=cache, n_jobs=n_jobs)
    passes = [local.passes(int(size)) for size in fed.sizes]
    client_epochs = rounds * float(np.mean(passes))
    return Game(fed.clients, value, name="retraining", client_epochs=client_epochs)


def _retrained(
    fed: Federation, net: Model, rounds: int, coalitions: Tensor, **settings: Any
) -> Tensor:
    """The worth of coalitions by training them; ``settings`` are those of ``simulate``."""
    participation = coalitions[:, None, :].expand(-1, rounds, -1)  # [C, T, n] without a copy
    quality = simulate(fed, net, participation, last=True, **settings)[:, 0]
    return -quality if settings["metric"] == "loss" else quality
