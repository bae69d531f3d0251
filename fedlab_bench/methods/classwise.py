"""Class-wise Shapley: what each client adds to each class of a round, and in sum.

Builds on round_scores and the round's game.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games.game import Game
from fedlab_mini.gate.games import round_game
from fedlab_mini.methods.round_scores import RoundScore, Scored, few_or_many
from fedlab_mini.parse import checks


def classwise_shapley(
    net: Model, theta: Tensor, updates: Tensor, x: Any, y: Any, weights: Any = None
) -> Tensor:
    """What each update of a round adds to each class: Shapley values [classes, m].

    Row c values the game v_c(S) = a_c exp(a_rest) of the model of coalition S, which averages its
    members' updates. a_c is the number of samples of class c that it gets right, a_rest that of all
    other classes, both divided by the number of all samples. Exact up to 12 clients, from 64
    antithetic orderings with more. A sample is evaluated once per coalition, as in ``fm.exact``.

    arguments, raises  as for ``fm.round_game`` with accuracy; y are classes
    source  v_c is that of [Schoch et al. 2022, CS-Shapley]. The paper values data points, by
            retraining: a point is valued in its own class, and points of other classes are drawn
            beside it. Here the players are the clients of a round, who hold several classes, so
            each is valued in every class, without retraining; this adaptation is the book's
    """
    values, _ = _valued(net, theta, updates, x, y, weights)
    return values


def _valued(
    net: Model, theta: Tensor, updates: Tensor, x: Any, y: Any, weights: Any
) -> tuple[Tensor, int]:
    """The values [classes, m], and the number of coalitions that were evaluated."""
    labels = checks.wholes("y", checks.alongside("y", y, x), ["N"])
    x = checks.reals("x", x, [len(labels), "..."])
    present, counts = labels.unique(return_counts=True)
    # The samples of a class are evaluated apart, so together each is evaluated once.
    games = [
        round_game(
            net, theta, updates, x[labels == label], labels[labels == label], weights=weights
        )
        for label in present
    ]
    parts = counts.double()[:, None] / len(labels)

    def worth(row: int, coalitions: Tensor) -> Tensor:
        # [present classes, C]: right answers of each class, as shares of all samples
        right = parts * torch.stack([game(coalitions) for game in games])
        return right[row] * torch.exp(right.sum(0) - right[row])

    values = torch.zeros(int(present.max()) + 1, games[0].n, dtype=torch.float64)
    for row, label in enumerate(present.tolist()):
        values[label] = few_or_many(Game(games[0].n, partial(worth, row))).values
    return values, games[0].evaluations


@dataclass(frozen=True, eq=False, kw_only=True)
class ClasswiseShapley(RoundScore):
    """The sum over classes of what an update adds to each (``classwise_shapley``).

    A class counts by its samples on the server. To count all classes equally, divide the rows of
    ``classwise_shapley`` by the classes' shares.
    source  after [Schoch et al. 2022]; chapter 2 for the Shapley value
    """

    metric: str = field(default="accuracy", init=False, repr=False)

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The sums over classes, [m], and the number of coalitions."""
        values, evaluated = _valued(
            server.net, round.theta, round.updates, *server.validation, round.sizes
        )
        return values.sum(0), evaluated
