"""Tables: the worth of a round's coalitions, evaluated once and shared by all who ask.

Chapter 10 uses them. Below: coalitions, game, rounds. Above: methods, compare.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import choice
from ..engine.rounds import Round, Server
from .coalitions import RoundGame
from .game import Game

LAST = 2  # rounds that are remembered, each with its tables
_kept: list[tuple[Round, Server, dict[object, object]]] = []


def round_table(
    round: Round, server: Server, metric: str = "loss", absent: str = "left out"
) -> Game:
    """The game of a round on the server's validation samples, weights by size.

    Asked for again, by whomever, it is the same ``Game`` with all that it has evaluated: for m
    clients at most 2^m evaluations a metric and way to be ``absent``, however many methods read it
    metric, absent  as in ``fm.round_game``
    """
    choice("absent", absent, ("left out", "silent"))
    choice("metric", metric, ("accuracy", "loss"))
    made = _room(round, server)
    if (metric, absent) not in made:
        weights = round.sizes.to(round.updates)
        x, y = server.validation
        value = RoundGame(
            server.net, round.theta, round.updates, weights, x, y, metric=metric, absent=absent
        )
        made[metric, absent] = Game(len(weights), value, name=f"round {round.t}", mark="a round")
    found = made[metric, absent]
    assert isinstance(found, Game)
    return found


def forget() -> None:
    """Drop all tables; the next who asks pays."""
    _kept.clear()


def gradient(round: Round, server: Server) -> Tensor:
    """The gradient [P] of the validation loss at the round's model; computed once a round."""
    made = _room(round, server)
    if "gradient" not in made:
        made["gradient"] = _slope(server, round.theta)[1]
    found = made["gradient"]
    assert isinstance(found, Tensor)
    return found


def hessian_product(round: Round, server: Server, v: Tensor) -> Tensor:
    """The Hessian of the validation loss at the round's model, times ``v`` [P]; exact.

    source  [Pearlmutter 1994]: the gradient of (gradient . v), never a matrix
    """
    with torch.enable_grad():
        theta, slope = _slope(server, round.theta, keep=True)
        (found,) = torch.autograd.grad(slope @ v.to(slope), theta)
    return found


def _slope(server: Server, theta: Tensor, keep: bool = False) -> tuple[Tensor, Tensor]:
    x, y = server.validation
    with torch.enable_grad():
        theta = theta.detach().clone().requires_grad_()
        server.net.module.eval()
        loss = torch.nn.functional.cross_entropy(server.net.forward(theta, x), y)
        (slope,) = torch.autograd.grad(loss, theta, create_graph=keep)
    return theta, slope


def _room(round: Round, server: Server) -> dict[object, object]:
    """Where this very round, on this very server, keeps what was computed of it."""
    for place, (kept, owner, made) in enumerate(_kept):
        if kept is round and owner is server:
            _kept.append(_kept.pop(place))
            return made
    made = {}
    _kept.append((round, server, made))
    del _kept[:-LAST]
    return made
