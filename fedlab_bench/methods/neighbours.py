"""Neighbours: scores of the literature related to the book's methods. Chapter 10 compares them.

Each is federated averaging that also computes a score: ``score(round)`` gives the values of a
round's updates and changes nothing else. Used by fedif and fedce.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedlab_mini.engine.outputs import output_table
from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games.round_tables import gradient
from fedlab_mini.methods.cgsv import cosines
from fedlab_mini.methods.numerics import median_sent, of_usual_size
from fedlab_mini.methods.round_scores import RoundScore, Scored, Taylor, few_or_many

ROUNDING = 1e-12  # a smaller share of the worths counts as no difference


def rounding(dtype: torch.dtype, units: float) -> float:
    """The relative difference that may come from rounding: so many units of the last digit."""
    return max(ROUNDING, units * torch.finfo(dtype).eps)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapleyFL(RoundScore):
    """Shapley values scaled to [0, 1] within each round, and smoothed over rounds.

    memory  share of the past that the moving average keeps
    source  [Sun et al. 2023]; the original also weights the aggregate by the score
    """

    memory: float = 0.7

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """(phi - min) / (max - min) of the round's Shapley values, [m]; 1/2 if all are equal."""
        game = self.table(server, round)
        with game.tally() as asked:
            phi = few_or_many(game).values
            worth = game(torch.ones(1, game.n, dtype=torch.bool)).abs().max()
        span = phi.max() - phi.min()
        # In a round that changes nothing, values differ only by rounding, which must not count.
        # A mean over many samples has a smaller rounding error than one number.
        if not span > rounding(round.updates.dtype, 1 / 16) * worth:
            return torch.full_like(phi, 0.5), len(asked)
        return (phi - phi.min()) / span, len(asked)


@dataclass(frozen=True, eq=False, kw_only=True)
class CappedTaylor(Taylor):
    """The `Taylor` score, after longer updates are shortened to the round's median length.

    So a client that multiplies its update gains at most the score of a usual length. The median
    ignores updates of zeros, and is the lower of two middle lengths.
    source  the advice of chapter 10
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """First- or second-order worth of the shortened updates, [m]; needs no evaluation."""
        lengths = torch.linalg.vector_norm(round.updates, dim=1, keepdim=True)  # [m, 1]
        # Zeros are divided by 1 and stay zeros.
        shares = median_sent(lengths) / torch.where(lengths > 0, lengths, 1)
        shortened = round.updates * shares.clamp(max=1)
        return super().score(server, state, replace(round, updates=shortened))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrustCosine(RoundScore):
    """Cosine of an update with the server's own descent direction, at least 0.

    The server's direction is minus the gradient of its validation loss at the round's model. The
    original uses the server's own local training on a root data set instead.
    source  [Cao et al. 2021, FLTrust]
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """max(0, cos(delta_i, -g)), [m]."""
        descent = of_usual_size(-gradient(round, server))
        updates = of_usual_size(round.updates)
        return torch.cosine_similarity(updates, descent[None], dim=1).clamp(min=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanCosine(RoundScore):
    """Cosine of an update with the aggregate, the mean over rounds.

    CGSV turns these cosines into weights, which are its scores. This score is the cosine itself,
    under federated averaging.
    source  [Xu et al. 2021, Eq. 3; chapter 4]
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """cos(delta_i, U) with U = sum_j w_j delta_j, [m]."""
        # [m] @ [m, P] -> [P]
        return cosines(round.updates, self.weights(server, state, round) @ round.updates)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassCosine(RoundScore):
    """Mean over classes of the cosine between an update's and the aggregate's last-layer rows.

    memory  share of the past that the moving average keeps
    source  [Tastan et al. 2024, ShapFed], where the rows are those of models, not of updates
    """

    memory: float = 0.5

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """Mean over classes of cos(row of delta_i, row of U), [m]."""
        net, samples = server.net, server.validation[0]
        parts = dict(zip(net.shapes, net.split(round.updates), strict=True))
        # A bias has one number per class, which has no direction.
        name = output_table(net, samples)
        if parts[name].ndim < 3 or len(parts[name][0]) != server.classes:
            raise ValueError(
                f"class cosine: expected a last layer with a row for each class, got {name} "
                f"{list(net.shapes[name])}"
            )
        last_layer = parts[name].flatten(2)  # [m, classes, inputs]
        # [m] and [m, classes, inputs] -> [classes, inputs]
        aggregate = torch.einsum("i,icd->cd", self.weights(server, state, round), last_layer)
        rows, sums = of_usual_size(last_layer), of_usual_size(aggregate)
        return torch.cosine_similarity(rows, sums[None], dim=2).mean(1)
