"""Training games: what a coalition is worth to one round, or to a whole training.

Chapter 2 derives the round game (players are one round's updates), chapter 3 the retraining game
(players are clients). Below: coalitions, engine.simulate.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..checks import shown
from ..engine import checkpoint as files
from ..engine.local import LocalSGD
from ..engine.model import Model, check_metric
from ..engine.simulate import simulate
from ..engine.start import begin, describe
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
    value = RoundGame(net, theta, updates, weights, x, y, metric=metric, absent=absent)
    mark = files.fingerprint("round", net, theta, updates, x, y, metric, weights, absent)
    if absent == "silent":  # coalitions that differ by zeros are evaluated once, whenever asked for
        moved, inner = updates.any(1).cpu(), Game(m, value, mark=mark)
        return Game(m, lambda s: inner(s & moved), name=f"round {mark[:12]}", mark=mark)
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
