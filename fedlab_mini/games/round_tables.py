"""Tables: the worth of a round's coalitions, evaluated once and shared by all methods.

Chapter 10 uses them. A ``Game`` of one's own would evaluate the same coalitions again for each
method; here all scores of a round share one game for each metric, and one gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..engine.rounds import Round, Server
from ..parse.metric import Metric
from .coalitions import RoundGame
from .game import Game


def round_table(
    round: Round, server: Server, metric: Metric = "loss", absent: str = "left out"
) -> Game:
    """The game of a round on the server's validation samples, with weights by size.

    A later call returns the same ``Game`` with all that it has evaluated. So m clients need at most
    2^m evaluations for each pair of ``metric`` and ``absent``, no matter how many methods read it
    metric, absent  as in ``fm.round_game``
    """
    tables = _memo(round, server)
    if (metric, absent) not in tables:
        # The game refers to the round's tensors and not to the round, whose memo refers to the
        # game. Without a cycle both are freed as soon as nobody needs the round.
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
    """Delete what was computed from a round; the next call computes it again."""
    round.memo.clear()


def gradient(round: Round, server: Server) -> Tensor:
    """The gradient [P] of the validation loss at the round's model; computed once per round."""
    tables = _memo(round, server)
    if "gradient" not in tables:
        tables["gradient"] = _loss_gradient(server, round.theta)[1]
    return tables["gradient"]


def hessian_product(round: Round, server: Server, v: Tensor) -> Tensor:
    """The Hessian of the validation loss at the round's model, times ``v`` [P]; exact.

    source  [Pearlmutter 1994]: the gradient of (gradient . v), without a matrix
    """
    with torch.enable_grad(), _differentiable():
        theta, slope = _loss_gradient(server, round.theta, differentiable=True)
        # Without curvature the slope does not depend on theta; this term makes the product 0.
        along = slope @ v.to(slope) + 0 * theta.sum()
        (product,) = torch.autograd.grad(along, theta)
    return product


def _loss_gradient(
    server: Server, theta: Tensor, differentiable: bool = False
) -> tuple[Tensor, Tensor]:
    """A copy of theta, and the gradient of the validation loss there."""
    x, y = server.validation
    with torch.enable_grad(), _differentiable():
        theta = theta.detach().clone().requires_grad_()
        loss = server.net.objective.loss(server.net.forward(theta, x), y)
        (slope,) = torch.autograd.grad(loss, theta, create_graph=differentiable)
    return theta, slope


@contextlib.contextmanager
def _differentiable() -> Iterator[None]:
    """ValueError if PyTorch cannot differentiate the loss."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(
            "net: PyTorch cannot differentiate its loss in the vector of parameters, or not twice, "
            f"which first-order and Taylor scores need ({error}); values of the round's game "
            "need no gradient"
        ) from error


def _memo(round: Round, server: Server) -> dict[Any, Any]:
    """The round's memo for this server."""
    # It stores the server, too, so that no other server can get the same id.
    return round.memo.setdefault(id(server), (server, {}))[1]
