"""Shapley: the value itself and its relatives, each an average of marginal contributions.

Chapter 2 derives them. Estimators that sample orders stand in ``sampling``, the regression on
sampled coalitions in ``kernel``, other ways to share a gain in ``values``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..streams import stream
from .estimate import Estimate, asking, unless_alike
from .game import MOST_ENUMERATED, Game, all_coalitions

MOST_SAMPLES = 1_000_000  # orders or coalitions that one estimate may draw


def exact(game: Game) -> Estimate:
    """The Shapley value itself, from all 2^n coalitions.

    raises  ValueError for more than 24 players: use ``permutation`` or ``kernel`` then
    source  [Shapley 1953]; chapter 2
    """
    with asking(game, MOST_ENUMERATED) as asked:
        players = game.n
        # Chapter 2, step 2: every size has the weight 1 / n, shared by the coalitions of that size.
        chances = [
            1 / (players * math.comb(players - 1, joined)) for joined in range(players)
        ]
        values = semivalue(game, np.array(chances))
    return asked.estimate("exact by subsets", values)


def semivalue(game: Game, chances: np.ndarray) -> Tensor:
    """Marginal contributions [n], weighed by how many joined before: ``chances`` [n]."""
    worth = game.all().numpy()
    sizes = np.bitwise_count(np.arange(len(worth), dtype=np.uint32))
    values = []
    for player in range(game.n):
        # Bit i of the index says whether player i is in: a reshape parts the two.
        pairs = worth.reshape(-1, 2, 1 << player)  # [.., without / with the player, ..]
        joined_before = sizes.reshape(pairs.shape)[:, 0]
        gains = pairs[:, 1] - pairs[:, 0]
        values.append(float((chances[joined_before] * gains).sum()))
    return torch.tensor(values, dtype=torch.float64)


def leave_one_out(game: Game) -> Estimate:
    """v(N) - v(N without i): n + 1 evaluations; its sum is not the gain."""
    with asking(game) as asked:
        everybody = torch.ones(1, game.n, dtype=torch.bool)
        all_but_one = ~torch.eye(game.n, dtype=torch.bool)
        worth = game(torch.cat([everybody, all_but_one]))
    return asked.estimate("leave one out", worth[0] - worth[1:])


def alone(game: Game) -> Estimate:
    """v({i}) - v(empty): n + 1 evaluations; its sum is not the gain."""
    with asking(game) as asked:
        nobody = torch.zeros(1, game.n, dtype=torch.bool)
        singles = torch.eye(game.n, dtype=torch.bool)
        worth = game(torch.cat([nobody, singles]))
    return asked.estimate("alone", worth[1:] - worth[0])


def banzhaf(game: Game, samples: int | None = None, seed: int = 0) -> Estimate:
    """Mean marginal contribution over all coalitions, each equally likely.

    samples  None: exact, 2^n evaluations; else that many uniform coalitions, each used for every
             player (maximum sample reuse); standard errors are NaN where they tell nothing
    source   [Banzhaf 1965; Wang & Jia 2023]; chapter 2
    """
    if samples is not None:
        samples = checks.whole("samples", samples, 2, MOST_SAMPLES)
    generator = stream(seed, "banzhaf")
    with asking(game) as asked:
        if samples is None:
            coalitions = all_coalitions(game.n)
        else:
            uniform = torch.rand(
                samples, game.n, generator=generator, dtype=torch.float64
            )
            coalitions = uniform < 0.5
        worth = game(coalitions)
    member = coalitions.double()
    absent = 1 - member
    # [C, n] -> [n]: every coalition tells of all players, as one that holds them or does not
    inside, outside = member.sum(0), absent.sum(0)
    # A player whom no coalition holds divides by 1; the mean is not used then.
    mean_inside = worth @ member / inside.clamp(min=1)
    mean_outside = worth @ absent / outside.clamp(min=1)
    values = mean_inside - mean_outside
    if samples is None:
        return asked.estimate("Banzhaf", values)
    deviation_inside = (worth[:, None] - mean_inside) ** 2
    deviation_outside = (worth[:, None] - mean_outside) ** 2
    # The difference of two means over different coalitions: their variances add up.
    variance = (member * deviation_inside).sum(0) / inside / (inside - 1)
    variance += (absent * deviation_outside).sum(0) / outside / (outside - 1)
    # Of a player drawn always or never nothing is known: 0, with an error of NaN.
    well_known = (inside > 0) & (outside > 0)
    stderr = unless_alike(variance.sqrt(), worth)
    return asked.estimate("Banzhaf", values.where(well_known, 0), stderr)
