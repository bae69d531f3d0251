"""Tables: the worth of a round's coalitions, evaluated once and shared by all who ask.

Chapter 10 uses them. Below: coalitions, game, engine.rounds. Above: methods, compare.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checks import choice
from ..engine.objective import Metric, check_metric
from ..engine.rounds import Round, Server
from .coalitions import RoundGame
from .game import Game


def round_table(
    round: Round, server: Server, metric: Metric = "loss", absent: str = "left out"
) -> Game:
    """The game of a round on the server's validation samples, weights by size.

    Asked for again, by whomever, it is the same ``Game`` with all that it has evaluated: for m
    clients at most 2^m evaluations a metric and way to be ``absent``, however many methods read it
    metric, absent  as in ``fm.round_game``
    """
    choice("absent", absent, ("left out", "silent"))
    check_metric("metric", metric)
    tables = _memo(round, server)
    if (metric, absent) not in tables:
        # The game holds the round's tensors and not the round, whose memo holds the game: both
        # are gone as soon as nobody needs the round.
        value = RoundGame(
            server.net,
            round.theta,
            round.updates,
            round.sizes.to(round.updates),
            *server.validation,
            metric=metric,
            absent=absent,
        )
        name = f"round {round.t}"
        tables[metric, absent] = Game(len(round.clients), value, name=name)
    return tables[metric, absent]


def forget(round: Round) -> None:
    """Drop what was computed of a round; the next who asks pays."""
    round.memo.clear()


def gradient(round: Round, server: Server) -> Tensor:
    """The gradient [P] of the validation loss at the round's model; computed once a round."""
    tables = _memo(round, server)
    if "gradient" not in tables:
        tables["gradient"] = _loss_gradient(server, round.theta)[1]
    return tables["gradient"]


def hessian_product(round: Round, server: Server, v: Tensor) -> Tensor:
    """The Hessian of the validation loss at the round's model, times ``v`` [P]; exact.

    source  [Pearlmutter 1994]: the gradient of (gradient . v), never a matrix
    """
    with torch.enable_grad(), _differentiable():
        theta, slope = _loss_gradient(server, round.theta, differentiable=True)
        # A loss without curvature leaves a slope that does not depend on theta: a product of 0.
        along = slope @ v.to(slope) + 0 * theta.sum()
        (product,) = torch.autograd.grad(along, theta)
    return product


def _loss_gradient(
    server: Server, theta: Tensor, differentiable: bool = False
) -> tuple[Tensor, Tensor]:
    """A copy of the model, and the gradient of the validation loss there."""
    x, y = server.validation
    with torch.enable_grad(), _differentiable():
        theta = theta.detach().clone().requires_grad_()
        loss = server.net.objective.loss(server.net.forward(theta, x), y)
        (slope,) = torch.autograd.grad(loss, theta, create_graph=differentiable)
    return theta, slope


@contextlib.contextmanager
def _differentiable() -> Iterator[None]:
    """What PyTorch cannot differentiate is told in words."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(
            "net: PyTorch cannot differentiate its loss by one vector of parameters, or not twice, "
            f"as first or second order want it ({error}); values of the round's game need no "
            "gradient"
        ) from error


def _memo(round: Round, server: Server) -> dict[Any, Any]:
    """Where a round keeps what was computed of it on this very server."""
    # The server is held beside its tables, so that no other is ever found at its address.
    return round.memo.setdefault(id(server), (server, {}))[1]
