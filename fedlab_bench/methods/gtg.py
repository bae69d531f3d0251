"""GTG-Shapley: guided orderings are added until their mean converges, with two truncations.

Chapter 10 compares it with others. Builds on round_scores and sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games import sampling
from fedlab_mini.games.game import Game
from fedlab_mini.methods.round_scores import RoundScore, Scored
from fedlab_mini.parse.settings import Count, Natural, NotNegative
from fedlab_mini.streams import stream


@dataclass(frozen=True, eq=False, kw_only=True)
class GTGShapley(RoundScore):
    """Guided truncation as published: skip quiet rounds, end orderings early, stop when converged.

    between   a round is skipped, with values 0, if its gain |v(N) - v(empty)| is at most this
    within    an ordering ends once |v(N) - v(S)| is at most this; the remaining clients add 0
    unit      of these two: "gain", shares of the largest gain so far and of the round's gain; or
              "worth", absolute numbers as published (the paper prints none; its authors' code has
              .01 and .001 of accuracy). Gains shrink while the model is trained, so a number that
              suits the first rounds skips the last rounds
    `settled` a round stops once each of the last ``window`` running means of the orderings is
              this near the last one, as a mean relative change over clients
    least     a round stops only after more than so many orderings
    samples   most orderings of a round, except for the first sweep; the paper has no such limit

    A sweep is a group of orderings in which every client is first once; only whole sweeps count.
    A coalition is evaluated only once, so m clients cost at most 2^m evaluations per round.
    source    [Liu et al. 2022, Algorithm 1]; ``least`` and ``window`` from its authors' code
    """

    between: NotNegative = 0.05
    within: NotNegative = 0.05
    unit: Literal["gain", "worth"] = "gain"
    settled: NotNegative = 0.05
    window: Count = 10
    least: Natural = 30
    samples: Count = 1_000

    def init(self, server: Server) -> State:
        """The state before round 1: RoundScore's, and the largest gain so far."""
        return super().init(server) | {"largest": torch.zeros(()).double()}

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """Truncated guided values of the round, [m]; all 0 in a quiet round."""
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
        """The mean of guided orderings; sweeps are added until it converges."""
        gains = torch.empty(0, game.n, dtype=torch.float64)
        while True:
            sweep = self._sweep(game.n, seed, t, len(gains) // game.n)
            gains = torch.cat([gains, sampling.gains_in(game, sweep, tolerance)])
            orders = torch.arange(1, len(gains) + 1)
            # [orderings so far, m]: the mean of all orderings up to each
            means = gains.cumsum(0) / orders[:, None]
            if len(gains) > self.least and self._has_settled(means[-self.window :]):
                return means[-1]
            if len(gains) + game.n > self.samples:
                return means[-1]

    def _sweep(self, players: int, seed: int, t: int, index: int) -> Tensor:
        """Orderings [m, m] with the first places 0, 1, ..., m - 1 and the others at random."""
        # Every sweep has its own stream, so more sweeps do not change the earlier ones.
        chance = stream(seed, "GTG orders", t, index)
        orders = torch.rand(players, players, generator=chance, dtype=torch.float64).argsort(1)
        leaders = torch.arange(players)[:, None]
        # [m, m] -> [m, m - 1]: each row without its leader, in the order drawn
        followers = orders[orders != leaders].view(players, players - 1)
        return torch.cat([leaders, followers], 1)

    def _has_settled(self, means: Tensor) -> bool:
        change, last = (means - means[-1]).abs(), means[-1].abs()
        # A client with values of 0 in all of these orderings has not changed; this avoids 0 / 0.
        shares = change / torch.where(change > 0, last, 1)
        return float(shares.mean(1).max()) <= self.settled
