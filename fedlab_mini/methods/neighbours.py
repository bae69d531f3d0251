"""Neighbours: scores of the literature around the book's methods. Chapter 10 compares them.

Each is federated averaging that watches: ``score(round)`` says what a round's updates are worth,
nothing else changes. Below: fedavg, tables, shapley.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import choice, instance, number, reals, whole
from ..engine.rounds import Round
from ..games import sampling, shapley
from ..games.estimate import Estimate
from ..games.game import Game
from ..games.round_tables import gradient, hessian_product, round_table
from .cgsv import cosines
from .fedavg import FedAvg, median_sent, of_usual_size, strategy

ROUNDING = 1e-12  # a difference of worths smaller than this share of them is none


def rounding(dtype: torch.dtype, units: float) -> float:
    """The share of numbers below which they differ by rounding: so many units of the last digit."""
    return max(ROUNDING, units * torch.finfo(dtype).eps)


def _callable(name: str, value: object) -> Callable:
    if isinstance(value, type):
        raise TypeError(
            f"{name}: expected a function such as fm.exact, got the class {value}"
        )
    return instance(name, value, Callable, "a function such as fm.exact")  # type: ignore


def few_or_many(game: Game) -> Estimate:
    """Shapley values of a game: exact up to 12 players, beyond by 64 antithetic orders."""
    if game.n <= 12:
        return shapley.exact(game)
    return sampling.permutation(game, 64, antithetic=True)


@strategy
class RoundScore(FedAvg):
    """Federated averaging that gives every update a number: inherit, and write ``score``.

    metric    of the round's game and table: "loss" (worth is minus the loss) or "accuracy"
    discount  in (0, 1]: round t counts discount^(t - 1); 1 is the plain sum
    memory    in [0, 1): instead of the sum, a moving average that keeps this share of the past;
              a client's first score is taken whole

    scores [K]  the sum over rounds divided by their number (a round without the client counts 0),
                or the moving average
    raises      ValueError or TypeError naming the argument
    """

    per_round: int | None = None
    weighting: str = "size"
    metric: str = "loss"
    discount: float = 1.0
    memory: float = 0.0

    KEPT: ClassVar = (*FedAvg.KEPT, "now", "seen")
    CHECKS: ClassVar = FedAvg.CHECKS | {
        "metric": partial(choice, accepted=("accuracy", "loss")),
        "discount": partial(number, low=0, high=1, ends="(]"),
        "memory": partial(number, low=0, high=1, ends="[)"),
    }

    def start(self, server) -> None:
        """Called once before the first round; forgets everything."""
        super().start(server)
        self.now = torch.zeros(server.clients, dtype=torch.float64)
        self.seen = torch.zeros(server.clients, dtype=torch.long)

    def score(self, round: Round) -> Tensor:
        """What the round's updates are worth, one number a client of the round: [m].

        Without one of your own: their weights, that is contribution by size
        """
        return self.weights(round)

    @property
    def scores(self) -> Tensor:
        """Contribution of every client so far, [K]."""
        return self.now if self.memory else super().scores

    def aggregate(self, round: Round) -> Tensor:
        """Federated averaging's model [P]; notes what the round's updates are worth."""
        weights, clients = self.weights(round), round.clients
        name = f"{type(self).__name__}.score"
        scores = reals(name, self.score(round), [len(clients)], dtype=torch.float64).cpu()
        # Nothing is remembered of a client that is scored for the first time.
        memory = self.memory * (self.seen[clients] > 0).double()
        self.now[clients] = memory * self.now[clients] + (1 - memory) * scores
        self.seen[clients] += 1
        self.record(round, weights, scores * self.discount ** (round.t - 1))
        return round.theta + weights @ round.updates

    def table(self, round: Round, absent: str = "left out") -> Game:
        """The round's game, shared with all who ask for it."""
        return round_table(round, self.server, self.metric, absent)

    @contextlib.contextmanager
    def counted(self, game: Game) -> Iterator[Game]:
        """Count the coalitions asked for as evaluations, as if nobody had asked before."""
        with game.tally() as codes:
            yield game
        self.evaluations += len(codes)


@strategy
class RoundValue(RoundScore):
    """A value of each round's game, ``RoundValue(fm.banzhaf)``; by default the Shapley value.

    value   any function of a ``Game`` that returns an ``Estimate``; default: Shapley values, exact
            up to 12 clients a round
    absent  what becomes of who is not in a coalition: "left out" or "silent" (``fm.round_game``)

    With Shapley values this is multi-round reconstruction [Song et al. 2019], with a ``discount``
    its lambda-MR, and under partial participation the federated Shapley value [Wang et al. 2020]:
    who is not asked earns 0 in that round.
    """

    value: Callable = field(default=few_or_many, kw_only=False)
    absent: str = "left out"

    CHECKS: ClassVar = RoundScore.CHECKS | {
        "value": _callable,
        "absent": partial(choice, accepted=("left out", "silent")),
    }

    def score(self, round: Round) -> Tensor:
        """The values of the round's game, [m]."""
        with self.counted(self.table(round, self.absent)) as game:
            estimate = instance(
                "value", self.value(game), Estimate, "what fm.exact returns"
            )
        return estimate.values


@strategy
class ShapleyFL(RoundScore):
    """Shapley values scaled to [0, 1] within each round, and smoothed over rounds.

    memory  share of the past that the moving average keeps
    source  [Sun et al. 2023]; the original also weighs the aggregate by it
    """

    memory: float = 0.7

    def score(self, round: Round) -> Tensor:
        """(phi - min) / (max - min) of the round's Shapley values, [m]; 1/2 if all are equal."""
        with self.counted(self.table(round)) as game:
            phi = few_or_many(game).values
            worth = game(torch.ones(1, game.n, dtype=torch.bool)).abs().max()
        span = phi.max() - phi.min()
        # In a round that changes nothing, values differ by rounding, which is not worth a score.
        # A mean over many samples is a little surer than one number.
        if not span > rounding(round.updates.dtype, 1 / 16) * worth:
            return torch.full_like(phi, 0.5)
        return (phi - phi.min()) / span


@strategy
class Taylor(RoundScore):
    """What an update does to the validation loss, from one gradient, or from one Hessian product.

    order  1: -w_i delta_i . g; 2: -w_i delta_i . (g + H U / 2) with U = sum_j w_j delta_j, the
           Shapley value of the silent round game if the loss were quadratic
    source [Wang, J. et al. 2022, DIG-FL] for order 1; chapter 2's closed form for order 2
    """

    order: int = field(default=2, kw_only=False)

    CHECKS: ClassVar = RoundScore.CHECKS | {"order": partial(whole, low=1, high=2)}

    def score(self, round: Round) -> Tensor:
        """First- or second-order worth of the round's updates, [m]; needs no evaluation."""
        # [m, P]: rows w_i delta_i, whose sum is U
        weighted = self.weights(round)[:, None] * round.updates
        direction = gradient(round, self.server)
        if self.order == 2:
            direction = (
                direction + hessian_product(round, self.server, weighted.sum(0)) / 2
            )
        return -(weighted @ direction)


@strategy
class CappedTaylor(Taylor):
    """The same, after longer updates were cut to the round's median length.

    Who multiplies an update is paid for its direction and a usual length, no more. The median is
    that of updates that are not zero; of an even number of them the lower one in the middle.
    source  the advice of chapter 10
    """

    def score(self, round: Round) -> Tensor:
        """First- or second-order worth of the shortened updates, [m]; needs no evaluation."""
        lengths = torch.linalg.vector_norm(round.updates, dim=1, keepdim=True)  # [m, 1]
        # Zeros are divided by 1 and stay zeros.
        shares = median_sent(lengths) / torch.where(lengths > 0, lengths, 1)
        shortened = round.updates * shares.clamp(max=1)
        return super().score(replace(round, updates=shortened))


@strategy
class TrustCosine(RoundScore):
    """Cosine of an update with the server's own descent direction, at least 0.

    The server's direction is minus the gradient of its validation loss at the round's model; the
    original takes an own local training on a root data set.
    source  [Cao et al. 2021, FLTrust]
    """

    def score(self, round: Round) -> Tensor:
        """max(0, cos(delta_i, -g)), [m]."""
        descent = of_usual_size(-gradient(round, self.server))
        updates = of_usual_size(round.updates)
        return torch.cosine_similarity(updates, descent[None], dim=1).clamp(min=0)


@strategy
class MeanCosine(RoundScore):
    """Cosine of an update with the aggregate, the mean over rounds.

    CGSV turns these cosines into weights, and its score is those weights; this is the cosine
    itself, under federated averaging.
    source  [Xu et al. 2021, Eq. 3; chapter 4]
    """

    def score(self, round: Round) -> Tensor:
        """cos(delta_i, U) with U = sum_j w_j delta_j, [m]."""
        # [m] @ [m, P] -> [P]
        return cosines(round.updates, self.weights(round) @ round.updates)


@strategy
class ClassCosine(RoundScore):
    """Cosine of each class's row of the last layer with the aggregate's, meant over classes.

    memory  share of the past that the moving average keeps
    source  [Tastan et al. 2024, ShapFed]; there the rows of models, here those of updates
    """

    memory: float = 0.5

    def score(self, round: Round) -> Tensor:
        """Mean over classes of cos(row of delta_i, row of U), [m]."""
        net, samples = self.server.net, self.server.validation[0]
        parts = dict(zip(net.shapes, net.split(round.updates), strict=True))
        # A bias is one number a class, and has no direction.
        name = net.output_table(samples)
        if parts[name].ndim < 3 or len(parts[name][0]) != self.server.classes:
            raise ValueError(
                f"class cosine: expected a last layer with a row for each class, got {name} "
                f"{list(net.shapes[name])}"
            )
        last_layer = parts[name].flatten(2)  # [m, classes, inputs]
        # [m] and [m, classes, inputs] -> [classes, inputs]
        aggregate = torch.einsum("i,icd->cd", self.weights(round), last_layer)
        rows, sums = of_usual_size(last_layer), of_usual_size(aggregate)
        return torch.cosine_similarity(rows, sums[None], dim=2).mean(1)
