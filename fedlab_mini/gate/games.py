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
from ..games.game import MOST_ENUMERATED
from ..games.shapley import MOST_SAMPLES
from ..parse.checks import alongside, choice, flag, in_order, number, reals, refusal, whole
from ..parse.metric import Metric
from .fit import labels_for, output_count
from .gated import Parsed, gated
from .training import starting_model

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
    # Copies of all three in the widest of their types.
    widest = functools.reduce(torch.promote_types, (theta.dtype, updates.dtype, x.dtype))
    theta, updates, x = (part.to(widest, copy=True) for part in (theta, updates, x))
    if not updates.square().sum(1).isfinite().all():
        largest, kind = float(updates.abs().max()), str(updates.dtype)[6:]
        raise ValueError(f"updates: got numbers up to {largest:.3g}, whose squares overflow {kind}")
    y = labels_for(net, "y", y, x, output_count(net, x)).clone()
    if weights is not None:
        players = len(updates)
        weights = reals("weights", weights, [players], dtype=theta.dtype).to(updates, copy=True)
        if not (weights > 0).all():
            raise refusal("weights", f"{players} positive numbers", weights.tolist())
    return {"net": net, "theta": theta, "updates": updates, "x": x, "y": y, "weights": weights}


def training_arguments(
    fed: Any, net: Any, rounds: int, local: Any, seed: int, metric: Metric, on: str, **_: Any
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
    absent=partial(choice, accepted=("left out", "silent")),
)
retraining_game = gated(training_games.retraining_game, _retraining_arguments)


def _orderings_in_pairs(samples: Any, antithetic: bool, **_: Any) -> Parsed:
    samples = whole("samples", samples, 2 if antithetic else 1, MOST_SAMPLES)
    if antithetic and samples % 2:
        raise ValueError(f"samples: antithetic pairs need an even number, got {samples}")
    return {"samples": samples}


a_count, at_least_0 = partial(whole, high=MOST_SAMPLES), partial(number, low=0)
exact = gated(shapley.exact)
leave_one_out = gated(shapley.leave_one_out)
alone = gated(shapley.alone)
banzhaf = gated(shapley.banzhaf, samples=partial(whole, low=2, high=MOST_SAMPLES))
permutation = gated(sampling.permutation, _orderings_in_pairs, antithetic=flag)
truncated = gated(sampling.truncated, samples=a_count, tolerance=at_least_0)
guided = gated(sampling.guided, samples=a_count, tolerance=at_least_0)
kernel = gated(kernels.kernel, budget=partial(whole, low=4))
least_core = gated(values.least_core)
core_shortfall = gated(values.core_shortfall)
nucleolus = gated(values.nucleolus)
