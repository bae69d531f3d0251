"""Neighbours: scores of the literature around the book's methods. Chapter 10 compares them.

Each is federated averaging that watches: ``score(round)`` says what a round's updates are worth,
nothing else changes. Above: gtg, fedif, fedce.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games.round_tables import gradient
from fedlab_mini.methods.cgsv import cosines
from fedlab_mini.methods.fedavg import median_sent, of_usual_size, strategy
from fedlab_mini.methods.round_scores import RoundScore, Scored, Taylor, few_or_many

ROUNDING = 1e-12  # a difference of worths smaller than this share of them is none


def rounding(dtype: torch.dtype, units: float) -> float:
    """The share of numbers below which they differ by rounding: so many units of the last digit."""
    return max(ROUNDING, units * torch.finfo(dtype).eps)


@strategy
class ShapleyFL(RoundScore):
    """Shapley values scaled to [0, 1] within each round, and smoothed over rounds.

    memory  share of the past that the moving average keeps
    source  [Sun et al. 2023]; the original also weighs the aggregate by it
    """

    memory: float = 0.7

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """(phi - min) / (max - min) of the round's Shapley values, [m]; 1/2 if all are equal."""
        game = self.table(server, round)
        with game.tally() as asked:
            phi = few_or_many(game).values
            worth = game(torch.ones(1, game.n, dtype=torch.bool)).abs().max()
        span = phi.max() - phi.min()
        # In a round that changes nothing, values differ by rounding, which is not worth a score.
        # A mean over many samples is a little surer than one number.
        if not span > rounding(round.updates.dtype, 1 / 16) * worth:
            return torch.full_like(phi, 0.5), len(asked)
        return (phi - phi.min()) / span, len(asked)


@strategy
class CappedTaylor(Taylor):
    """The same, after longer updates were cut to the round's median length.

    Who multiplies an update is paid for its direction and a usual length, no more. The median is
    that of updates that are not zero; of an even number of them the lower one in the middle.
    source  the advice of chapter 10
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """First- or second-order worth of the shortened updates, [m]; needs no evaluation."""
        lengths = torch.linalg.vector_norm(round.updates, dim=1, keepdim=True)  # [m, 1]
        # Zeros are divided by 1 and stay zeros.
        shares = median_sent(lengths) / torch.where(lengths > 0, lengths, 1)
        shortened = round.updates * shares.clamp(max=1)
        return super().score(server, state, replace(round, updates=shortened))


@strategy
class TrustCosine(RoundScore):
    """Cosine of an update with the server's own descent direction, at least 0.

    The server's direction is minus the gradient of its validation loss at the round's model; the
    original takes an own local training on a root data set.
    source  [Cao et al. 2021, FLTrust]
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """max(0, cos(delta_i, -g)), [m]."""
        descent = of_usual_size(-gradient(round, server))
        updates = of_usual_size(round.updates)
        return torch.cosine_similarity(updates, descent[None], dim=1).clamp(min=0)


@strategy
class MeanCosine(RoundScore):
    """Cosine of an update with the aggregate, the mean over rounds.

    CGSV turns these cosines into weights, and its score is those weights; this is the cosine
    itself, under federated averaging.
    source  [Xu et al. 2021, Eq. 3; chapter 4]
    """

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """cos(delta_i, U) with U = sum_j w_j delta_j, [m]."""
        # [m] @ [m, P] -> [P]
        return cosines(round.updates, self.weights(server, state, round) @ round.updates)


@strategy
class ClassCosine(RoundScore):
    """Cosine of each class's row of the last layer with the aggregate's, meant over classes.

    memory  share of the past that the moving average keeps
    source  [Tastan et al. 2024, ShapFed]; there the rows of models, here those of updates
    """

    memory: float = 0.5

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """Mean over classes of cos(row of delta_i, row of U), [m]."""
        net, samples = server.net, server.validation[0]
        parts = dict(zip(net.shapes, net.split(round.updates), strict=True))
        # A bias is one number a class, and has no direction.
        name = net.output_table(samples)
        if parts[name].ndim < 3 or len(parts[name][0]) != server.classes:
            raise ValueError(
                f"class cosine: expected a last layer with a row for each class, got {name} "
                f"{list(net.shapes[name])}"
            )
        last_layer = parts[name].flatten(2)  # [m, classes, inputs]
        # [m] and [m, classes, inputs] -> [classes, inputs]
        aggregate = torch.einsum(
            "i,icd->cd", self.weights(server, state, round), last_layer
        )
        rows, sums = of_usual_size(last_layer), of_usual_size(aggregate)
        return torch.cosine_similarity(rows, sums[None], dim=2).mean(1)
