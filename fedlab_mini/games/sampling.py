"""Sampling: Shapley values estimated from random orderings of the players.

Chapter 2 derives the estimators, chapter 3 truncates them. The basic one is the mean marginal
contribution over orderings [Castro et al. 2009]. ``permutation`` can draw pairs of an ordering and
its reverse, ``truncated`` leaves an ordering early [Ghorbani & Zou 2019], and in ``guided`` every
player leads one ordering of each sweep [Liu et al. 2022].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..streams import stream
from .estimate import Estimate, asking, unless_alike
from .game import Game

ASKED_AT_ONCE = 1 << 14  # coalitions that a game gets in one call


def permutation(game: Game, samples: int, seed: int = 0, *, antithetic: bool = False) -> Estimate:
    """Mean marginal contribution over ``samples`` random orderings of the players.

    antithetic  draw pairs of an ordering and its reverse (``samples`` even): exact after one
                pair if players interact in pairs only
    returns     unbiased values; standard errors from the spread over orderings (over pairs); NaN
                if there is no spread
    source      [Castro et al. 2009; Mitchell et al. 2022]; chapter 2
    """
    with asking(game) as estimate:
        drawn_orders = samples // 2 if antithetic else samples
        orders = _random_orders(game.n, drawn_orders, stream(seed, "orders"))
        gains = _marginal_gains(game, orders)
        if antithetic:
            # An ordering and its reverse are one sample, because they depend on each other.
            gains = (gains + _marginal_gains(game, orders.flip(1))) / 2
    method = "antithetic permutations" if antithetic else "permutations"
    return estimate(method, gains.mean(0), _standard_error(game, gains))


def truncated(game: Game, samples: int, tolerance: float = 0.0, seed: int = 0) -> Estimate:
    """Truncated Monte Carlo: stop an ordering once |v(N) - v(S)| <= tolerance.

    tolerance  in units of v; 0 truncates nothing. Players after the stop add 0. A worth that
               only passes v(N) also stops its ordering. Then values are biased, and standard
               errors do not show it (if v(N) is v(empty), all values are 0)
    source     [Ghorbani & Zou 2019, Algorithm 1]; chapter 3
    """
    with asking(game) as estimate:
        orders = _random_orders(game.n, samples, stream(seed, "orders"))
        gains = gains_in(game, orders, tolerance)
    stderr = _standard_error(game, gains)
    return estimate("truncated permutations", gains.mean(0), stderr)


def guided(game: Game, samples: int, tolerance: float = 0.0, seed: int = 0) -> Estimate:
    """Orderings in sweeps of n: each player leads one of them; truncated as in ``truncated``.

    samples    number of orderings (the last sweep may be incomplete)
    returns    standard errors from the spread over whole sweeps; NaN if there is no spread
    source     [Liu et al. 2022, GTG-Shapley]; chapter 2
    """
    generator = stream(seed, "guided orders")
    with asking(game) as estimate:
        players = game.n
        sweeps = -(-samples // players)
        # [sweeps, n] -> [samples]: the leaders of each sweep are a random ordering
        leaders = _random_orders(players, sweeps, generator).flatten()[:samples]
        orders = _random_orders(players, samples, generator)
        # After its leader an ordering keeps the other players as they were drawn.
        followers = orders[orders != leaders[:, None]].view(samples, players - 1)
        orders = torch.cat([leaders[:, None], followers], 1)
        gains = gains_in(game, orders, tolerance)
    # Orderings of one sweep depend on each other, so errors come from means of whole sweeps.
    whole_sweeps = samples // players
    # [sweeps * n orderings, n] -> [sweeps, n]
    sweep_means = gains[: whole_sweeps * players].view(whole_sweeps, players, players).mean(1)
    stderr = _standard_error(game, sweep_means)
    return estimate("guided permutations", gains.mean(0), stderr)


def _random_orders(n: int, samples: int, generator: torch.Generator) -> Tensor:
    """``samples`` uniformly random orderings of n players: [samples, n]."""
    return torch.rand(samples, n, generator=generator, dtype=torch.float64).argsort(1)


def _marginal_gains(game: Game, orders: Tensor) -> Tensor:
    """What every player adds in every ordering: [samples, n]."""
    # In parts, because the prefixes of all orderings may not fit into memory.
    at_once = max(1, ASKED_AT_ONCE // (game.n + 1))
    return torch.cat([_gains_of_orders(game, part) for part in orders.split(at_once)])


def _gains_of_orders(game: Game, orders: Tensor) -> Tensor:
    samples, players = orders.shape
    ranks = orders.argsort(1)  # position of player i in the ordering
    places = torch.arange(players + 1)
    # [samples, n + 1, n], empty to full
    prefixes = ranks[:, None, :] < places[None, :, None]
    worth = game(prefixes.flatten(0, 1)).view(samples, players + 1)
    gains = torch.zeros(samples, players, dtype=torch.float64)
    return gains.scatter_(1, orders, worth.diff(dim=1))


def gains_in(game: Game, orders: Tensor, tolerance: float = 0.0) -> Tensor:
    """What every player adds in every ordering, [samples, n]; 0 after a worth close to v(N)."""
    # Without this line an ordering would stop if a worth happens to equal v(N).
    if tolerance == 0:
        return _marginal_gains(game, orders)
    samples, players = orders.shape
    empty_worth, full_worth = game(torch.tensor([[False] * players, [True] * players]))
    worth_before = empty_worth.expand(samples).clone()
    gains = torch.zeros(samples, players, dtype=torch.float64)
    ranks = orders.argsort(1)
    for place in range(players):
        # An ordering that has stopped never continues, because its worth is not updated any more.
        worth_following = (full_worth - worth_before).abs() > tolerance
        followed = worth_following.nonzero().flatten()
        if len(followed) == 0:
            break
        worth_now = game(ranks[followed] <= place)
        gains[followed, orders[followed, place]] = worth_now - worth_before[followed]
        worth_before[followed] = worth_now
    return gains


def _standard_error(game: Game, samples: Tensor) -> Tensor:
    """Standard error of the mean over rows; NaN for fewer than two rows, or if rows agree."""
    if len(samples) < 2:
        return torch.full(samples.shape[1:], torch.nan, dtype=torch.float64)
    # Every ordering contains these two coalitions, so their worth is known.
    ends = game(torch.tensor([[False] * game.n, [True] * game.n]))
    worth = torch.cat([ends, samples.flatten()])
    return unless_alike(samples.std(0) / math.sqrt(len(samples)), worth)
