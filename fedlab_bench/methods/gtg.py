"""GTG-Shapley: guided orders that are added to until their mean settles, with two truncations.

Chapter 10 compares it. Below: neighbours, sampling.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from fedlab_mini.checks import choice, number, whole
from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games import sampling
from fedlab_mini.games.game import Game
from fedlab_mini.methods.fedavg import strategy
from fedlab_mini.methods.round_scores import RoundScore, Scored
from fedlab_mini.streams import stream


@strategy
class GTGShapley(RoundScore):
    """Guided truncation as published: skip quiet rounds, leave orders early, stop when settled.

    between   a round whose gain |v(N) - v(empty)| is at most this is skipped: all its values are 0
    within    an order is left once |v(N) - v(S)| is at most this; who has not come yet adds 0
    unit      of these two: "gain", shares of the largest gain so far and of the round's own; or
              "worth", numbers as published (the paper prints none, its authors' code has .01 and
              .001 of accuracy). Gains shrink in a training: a number that suits its begin skips
              its end
    settled   a round stops once each of the last ``window`` running means of the orders is this
              near the last one, as a mean relative change over clients
    least     it does not stop before it has more than so many orders
    samples   nor goes on beyond so many, but for the first sweep; the paper knows no such end

    A sweep of orders has every client once in the first place and is looked at as a whole. Orders
    are added to those before, and a coalition is evaluated once, so m clients never cost more than
    2^m evaluations a round.
    source    [Liu et al. 2022, Algorithm 1]; ``least`` and ``window`` from its authors' code
    """

    between: float = 0.05
    within: float = 0.05
    unit: str = "gain"
    settled: float = 0.05
    window: int = 10
    least: int = 30
    samples: int = 1_000

    CHECKS: ClassVar = RoundScore.CHECKS | {
        "between": partial(number, low=0),
        "within": partial(number, low=0),
        "unit": partial(choice, accepted=("gain", "worth")),
        "settled": partial(number, low=0),
        "window": whole,
        "least": partial(whole, low=0),
        "samples": whole,
    }

    def init(self, server: Server) -> State:
        """The state before round 1: RoundScore's, and the largest gain so far."""
        return super().init(server) | {"largest": torch.zeros(()).double()}

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """Truncated guided values of the round, [m]; 0 for all in a quiet one."""
        game = self.table(server, round)
        with game.tally() as asked:
            values = self._values(server, state, game, round.t)
        return values, len(asked)

    def _values(self, server: Server, state: State, game: Game, t: int) -> Tensor:
        ends = torch.tensor([[False], [True]]).expand(2, game.n)
        nobody, everybody = game(ends).tolist()
        gain = abs(everybody - nobody)
        state["largest"].clamp_(min=gain)
        largest, in_shares = float(state["largest"]), self.unit == "gain"
        if gain <= self.between * (largest if in_shares else 1):
            return torch.zeros(game.n, dtype=torch.float64)
        tolerance = self.within * (gain if in_shares else 1)
        return self._guided(game, tolerance, server.seed, t)

    def _guided(self, game: Game, tolerance: float, seed: int, t: int) -> Tensor:
        """The mean of guided orders, a sweep of all clients more at a time, until it settles."""
        gains = torch.empty(0, game.n, dtype=torch.float64)
        while True:
            sweep = self._sweep(game.n, seed, t, len(gains) // game.n)
            gains = torch.cat([gains, sampling.gains_in(game, sweep, tolerance)])
            orders = torch.arange(1, len(gains) + 1)
            # [orders so far, m]: after each order the mean of those up to it
            means = gains.cumsum(0) / orders[:, None]
            if len(gains) > self.least and self._has_settled(means[-self.window :]):
                return means[-1]
            if len(gains) + game.n > self.samples:
                return means[-1]

    def _sweep(self, players: int, seed: int, t: int, index: int) -> Tensor:
        """Orders [m, m] whose first places are 0, 1, ..., m - 1, the others at random."""
        # A stream of its own for every sweep: more sweeps leave the earlier ones as they were.
        chance = stream(seed, "GTG orders", t, index)
        orders = torch.rand(
            players, players, generator=chance, dtype=torch.float64
        ).argsort(1)
        leaders = torch.arange(players)[:, None]
        # [m, m] -> [m, m - 1]: of each row all but its leader, in the order drawn
        followers = orders[orders != leaders].view(players, players - 1)
        return torch.cat([leaders, followers], 1)

    def _has_settled(self, means: Tensor) -> bool:
        change, last = (means - means[-1]).abs(), means[-1].abs()
        # Who has earned nothing in all of these orders has changed by nothing: no 0 / 0.
        shares = change / torch.where(change > 0, last, 1)
        return float(shares.mean(1).max()) <= self.settled
