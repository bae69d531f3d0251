"""Games: the public functions that make games and value their players, each with its parsers.

What they compute is in ``fedlab_mini.games``, which trusts its arguments and reads as chapters 2
and 3 do. Arrays are copied here, so that what callers change later changes no game.
"""

from __future__ import annotations

import copy
import functools
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.outputs import quality, snapshot
from ..games import closed_forms, game, sampling, shapley, training_games, values
from ..games import kernel as kernels
from ..games.game import MOST_ENUMERATED, Game
from ..games.shapley import MOST_SAMPLES
from ..parse.checks import (
    alongside,
    choice,
    flag,
    in_order,
    instance,
    number,
    processes,
    reals,
    shown,
    whole,
)
from ..parse.metric import Metric, check_metric
from .fit import labels_for, output_count
from .gated import Parsed, Parser, gated
from .training import a_seed, starting_model

a_game = partial(instance, kind=Game, such_as="a Game")
a_model = partial(instance, kind=Model, such_as="fm.Model(module)")
doubles = partial(reals, dtype=torch.float64)


def _by_player(name: str, value: Any) -> Tensor:
    """One number for each player 0..n-1, [n]."""
    return doubles(name, in_order(name, value), ["n"]).clone()


def _quadratic_arguments(updates: Any, weights: Any, g: Any, H: Any) -> Parsed:
    updates = doubles("updates", updates, ["n", "P"])
    players, P = updates.shape
    weights = doubles("weights", weights, [players])
    g = doubles("g", g, [P]).clone()
    H = doubles("H", H, [P, P]).clone()
    if not torch.allclose(H, H.T):
        raise ValueError("H: expected a symmetric matrix")
    return {"updates": updates, "weights": weights, "g": g, "H": H}


a_count_of_gloves = partial(whole, high=closed_forms.MOST_GLOVES)
all_coalitions = gated(game.all_coalitions, n=partial(whole, high=MOST_ENUMERATED))
additive = gated(closed_forms.additive, w=_by_player)
glove = gated(closed_forms.glove, left=a_count_of_gloves, right=a_count_of_gloves)
quadratic = gated(closed_forms.quadratic, _quadratic_arguments)


def _round_arguments(
    net: Model, theta: Any, updates: Any, x: Any, y: Any, weights: Any, **_: Any
) -> Parsed:
    net = snapshot(net)
    theta = reals("theta", theta, [net.P])
    updates = reals("updates", updates, ["m", net.P])
    y = alongside("y", y, x)
    x = reals("x", x, ["N", "..."])
    theta, updates, x = _common_type(theta, updates, x)
    if not updates.square().sum(1).isfinite().all():
        largest, kind = float(updates.abs().max()), str(updates.dtype)[6:]
        raise ValueError(f"updates: got numbers up to {largest:.3g}, whose squares overflow {kind}")
    y = labels_for(net, "y", y, x, output_count(net, x)).clone()
    found = {"net": net, "theta": theta, "updates": updates, "x": x, "y": y}
    if weights is not None:
        players = len(updates)
        weights = reals("weights", weights, [players], dtype=theta.dtype).to(updates, copy=True)
        if not (weights > 0).all():
            given = shown(weights.tolist())
            raise ValueError(f"weights: expected {players} positive numbers, got {given}")
    return found | {"weights": weights}


def _common_type(*tensors: Tensor) -> list[Tensor]:
    """Copies of the tensors, all in the widest of their types."""
    widest = functools.reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return [tensor.to(widest, copy=True) for tensor in tensors]


def training_arguments(
    fed: Any, net: Any, rounds: Any, local: Any, seed: int, metric: Metric, on: Any, **_: Any
) -> Parsed:
    """Check the arguments of training runs; return a copy of the model."""
    local = LocalSGD() if local is None else local
    net, theta = starting_model(fed, net, rounds, local, seed)
    # A metric that fails does so before training.
    quality(net, theta[None], *fed.server(on), metric)
    return {"net": net}


def _retraining_arguments(net: Model, fed: Any, **given: Any) -> Parsed:
    # A copy of the model, so that no warning says that the training starts anew: in a game all do.
    model = training_arguments(fed, snapshot(net), **given)
    return model | {"fed": copy.deepcopy(fed)}


round_game = gated(
    training_games.round_game,
    _round_arguments,
    metric=check_metric,
    absent=partial(choice, accepted=("left out", "silent")),
    net=a_model,
)
retraining_game = gated(
    training_games.retraining_game,
    _retraining_arguments,
    metric=check_metric,
    net=a_model,
    rounds=whole,
    seed=a_seed,
    n_jobs=processes,
)


def _orderings_in_pairs(samples: Any, antithetic: bool, **_: Any) -> Parsed:
    samples = whole("samples", samples, 2 if antithetic else 1, MOST_SAMPLES)
    if antithetic and samples % 2:
        raise ValueError(f"samples: antithetic pairs need an even number, got {samples}")
    return {"samples": samples}


def _samples_or_none(name: str, value: Any) -> int | None:
    return None if value is None else whole(name, value, 2, MOST_SAMPLES)


orderings: dict[str, Parser] = {
    "game": a_game,
    "samples": partial(whole, high=MOST_SAMPLES),
    "tolerance": partial(number, low=0),
    "seed": a_seed,
}
exact = gated(shapley.exact, game=a_game)
leave_one_out = gated(shapley.leave_one_out, game=a_game)
alone = gated(shapley.alone, game=a_game)
banzhaf = gated(shapley.banzhaf, game=a_game, samples=_samples_or_none, seed=a_seed)
permutation = gated(
    sampling.permutation, _orderings_in_pairs, game=a_game, antithetic=flag, seed=a_seed
)
truncated = gated(sampling.truncated, **orderings)
guided = gated(sampling.guided, **orderings)
kernel = gated(kernels.kernel, game=a_game, budget=partial(whole, low=4), seed=a_seed)
least_core = gated(values.least_core, game=a_game)
core_shortfall = gated(values.core_shortfall, game=a_game)
nucleolus = gated(values.nucleolus, game=a_game)
