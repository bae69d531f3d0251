"""Shapley: the Shapley value [Shapley 1953] and similar averages of marginal contributions.

Chapter 2 derives them. They are sums over the 2^n coalitions, not over the n! orderings, and each
coalition is evaluated once. Estimators from sampled orderings are in ``sampling``, the regression
on sampled coalitions is in ``kernel``, and other ways to share a gain are in ``values``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..streams import stream
from .estimate import Estimate, asking, unless_alike
from .game import MOST_ENUMERATED, Game, all_coalitions

MOST_SAMPLES = 1_000_000  # orderings or coalitions that one estimate may draw


def exact(game: Game) -> Estimate:
    """The exact Shapley value, from all 2^n coalitions.

    raises  ValueError for more than 24 players; use ``permutation`` or ``kernel`` for these
    source  [Shapley 1953]; chapter 2
    """
    # The block counts coalitions; ``estimate`` then makes the result with this cost.
    with asking(game, MOST_ENUMERATED) as estimate:
        players = game.n
        # Chapter 2, step 2: every size has weight 1 / n, which the coalitions of this size share.
        weights = [1 / (players * math.comb(players - 1, joined)) for joined in range(players)]
        values = semivalue(game, np.array(weights))
    return estimate("exact by subsets", values)


def semivalue(game: Game, weights: np.ndarray) -> Tensor:
    """Marginal contributions [n], summed with weight ``weights[s]`` if s players joined before."""
    worth = game.all().numpy()
    sizes = np.bitwise_count(np.arange(len(worth), dtype=np.uint32))
    values = []
    for player in range(game.n):
        # Bit i of the index says whether player i is a member; a reshape separates the two cases.
        pairs = worth.reshape(-1, 2, 1 << player)  # [.., without / with the player, ..]
        joined_before = sizes.reshape(pairs.shape)[:, 0]
        gains = pairs[:, 1] - pairs[:, 0]
        values.append(float((weights[joined_before] * gains).sum()))
    return torch.tensor(values, dtype=torch.float64)


def leave_one_out(game: Game) -> Estimate:
    """v(N) - v(N without i), from n + 1 evaluations; the sum is not the gain."""
    with asking(game) as estimate:
        everybody = torch.ones(1, game.n, dtype=torch.bool)
        all_but_one = ~torch.eye(game.n, dtype=torch.bool)
        worth = game(torch.cat([everybody, all_but_one]))
    return estimate("leave one out", worth[0] - worth[1:])


def alone(game: Game) -> Estimate:
    """v({i}) - v(empty), from n + 1 evaluations; the sum is not the gain."""
    with asking(game) as estimate:
        nobody = torch.zeros(1, game.n, dtype=torch.bool)
        singles = torch.eye(game.n, dtype=torch.bool)
        worth = game(torch.cat([nobody, singles]))
    return estimate("alone", worth[1:] - worth[0])


def banzhaf(game: Game, samples: int | None = None, seed: int = 0) -> Estimate:
    """Mean marginal contribution over all coalitions, each equally likely.

    samples  None: exact, 2^n evaluations; otherwise so many uniform coalitions, each used for all
             players (maximum sample reuse); standard errors are NaN if they cannot be estimated
    source   [Banzhaf 1965; Wang & Jia 2023]; chapter 2
    """
    generator = stream(seed, "banzhaf")
    with asking(game) as estimate:
        if samples is None:
            coalitions = all_coalitions(game.n)
        else:
            uniform = torch.rand(samples, game.n, generator=generator, dtype=torch.float64)
            coalitions = uniform < 0.5
        worth = game(coalitions)
    member = coalitions.double()
    absent = 1 - member
    # [C, n] -> [n]: how many coalitions contain each player, and how many do not
    inside, outside = member.sum(0), absent.sum(0)
    # If no coalition contains a player, divide by 1; this mean is not used below.
    mean_inside = worth @ member / inside.clamp(min=1)
    mean_outside = worth @ absent / outside.clamp(min=1)
    values = mean_inside - mean_outside
    if samples is None:
        return estimate("Banzhaf", values)
    deviation_inside = (worth[:, None] - mean_inside) ** 2
    deviation_outside = (worth[:, None] - mean_outside) ** 2
    # The two means are over different coalitions, so the variance of their difference is the sum.
    variance = (member * deviation_inside).sum(0) / inside / (inside - 1)
    variance += (absent * deviation_outside).sum(0) / outside / (outside - 1)
    # If a player is in all coalitions or in none, its value is unknown: 0 with an error of NaN.
    well_known = (inside > 0) & (outside > 0)
    stderr = unless_alike(variance.sqrt(), worth)
    return estimate("Banzhaf", values.where(well_known, 0), stderr)
