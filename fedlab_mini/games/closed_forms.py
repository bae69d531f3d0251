"""Closed forms: games with a known Shapley value, to test every estimator.

Chapter 2 derives them; each game holds its value as ``.shapley``. A worth is a function of this
module with its numbers, so that a game can be pickled and sent to another process. Below: game.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from .. import checks
from .game import Game

MOST_GLOVES = 100  # of each kind, because the value is a double sum of factorials
MOST_STEPS = 10**8  # of the dynamic program for votes; they take one or two minutes


def additive(w: Sequence[float] | Tensor) -> Game:
    """v(S) = sum of w over S; Shapley value w."""
    worths = _by_player("w", w)
    total = partial(_sums, worths)
    return Game(len(worths), total, shapley=worths, name=f"additive {worths.tolist()}")


def _sums(worths: Tensor, coalitions: Tensor) -> Tensor:
    return coalitions.double() @ worths


def _by_player(name: str, value: Sequence[float] | Tensor) -> Tensor:
    """One number for each player 0..n-1, [n]."""
    ordered = checks.in_order(name, value)
    return checks.reals(name, ordered, ["n"], dtype=torch.float64).clone()


def glove(left: int, right: int) -> Game:
    """Players 0..left-1 each own a left glove, the others a right one; a pair is worth 1."""
    left = checks.whole("left", left, high=MOST_GLOVES)
    right = checks.whole("right", right, high=MOST_GLOVES)
    shares = [_pairing_chance(left, right)] * left + [_pairing_chance(right, left)] * right
    phi = torch.tensor(shares, dtype=torch.float64)
    name = f"glove {left} left, {right} right"
    return Game(left + right, partial(_pairs, left), shapley=phi, name=name)


def _pairs(left: int, coalitions: Tensor) -> Tensor:
    left_gloves = coalitions[:, :left].sum(1)
    right_gloves = coalitions[:, left:].sum(1)
    return torch.minimum(left_gloves, right_gloves).double()


def _pairing_chance(own: int, other: int) -> float:
    """Chance that fewer own than other gloves came before, so that the player completes a pair."""
    players = own + other
    chance = 0.0
    for own_before in range(own):
        for other_before in range(own_before + 1, other + 1):
            before = own_before + other_before
            choices = math.comb(own - 1, own_before) * math.comb(other, other_before)
            # Chapter 2, step 2: exactly these players come before, all others after, in any order.
            orders = math.factorial(before) * math.factorial(players - 1 - before)
            chance += choices * orders / math.factorial(players)
    return chance


def airport(costs: Sequence[float] | Tensor) -> Game:
    """v(S) = the longest runway S needs; its users share every piece [Littlechild & Owen 1973]."""
    lengths = _by_player("costs", costs)
    if (lengths < 0).any():
        raise ValueError("costs: expected numbers of at least 0")
    players = len(lengths)
    # In order of length, each further piece has one user less.
    by_length = lengths.argsort()
    pieces = torch.diff(lengths[by_length], prepend=lengths.new_zeros(1))
    users = torch.arange(players, 0, -1)  # of each piece
    phi = torch.empty_like(lengths)
    phi[by_length] = (pieces / users).cumsum(0)
    longest = partial(_longest, lengths)
    return Game(players, longest, shapley=phi, name=f"airport {lengths.tolist()}")


def _longest(lengths: Tensor, coalitions: Tensor) -> Tensor:
    # Players outside the coalition count as 0, the shortest runway.
    return (coalitions * lengths).amax(1)


def majority(weights: Sequence[int] | Tensor, quota: int) -> Game:
    """v(S) = 1 if the votes of S reach the quota; its Shapley value by dynamic programming."""
    votes = checks.wholes("weights", checks.in_order("weights", weights), ["n"]).tolist()
    players = len(votes)
    quota = checks.whole("quota", quota, high=sum(votes))
    if players**3 * quota > MOST_STEPS:
        raise ValueError(f"weights: expected few votes and players, n^3 x quota <= {MOST_STEPS:,}")
    shares = [_pivotal_chance(votes, player, quota) for player in range(players)]
    vote_counts = torch.tensor(votes, dtype=torch.float64)
    wins = partial(_wins, vote_counts, quota)
    phi = torch.tensor(shares, dtype=torch.float64)
    return Game(players, wins, shapley=phi, name=f"majority {votes} quota {quota}")


def _wins(vote_counts: Tensor, quota: int, coalitions: Tensor) -> Tensor:
    return (coalitions.double() @ vote_counts >= quota).double()


def _pivotal_chance(votes: list[int], player: int, quota: int) -> float:
    """Chance that the votes reach the quota when this player joins."""
    players = len(votes)
    # ways[size][total]: how many coalitions of ``size`` other players have ``total`` votes
    ways = [[0] * quota for _ in range(players)]
    ways[0][0] = 1
    for vote in votes[:player] + votes[player + 1 :]:
        for members in range(players - 1, 0, -1):
            # Downwards, so that a player's votes are added at most once.
            for vote_sum in range(quota - 1, vote - 1, -1):
                ways[members][vote_sum] += ways[members - 1][vote_sum - vote]
    # The others' votes are below the quota, but with the player's votes they reach it.
    short_by = max(0, quota - votes[player])
    pivotal = [sum(totals[short_by:quota]) for totals in ways]
    # Chapter 2, step 2: every size has weight 1 / n, which the coalitions of this size share.
    return sum(
        pivotal_count / (players * math.comb(players - 1, members))
        for members, pivotal_count in enumerate(pivotal)
    )


def quadratic(updates: Tensor, weights: Tensor, g: Tensor, H: Tensor) -> Game:
    """Minus the loss g.x + x'Hx/2 at x_S = sum of w_i delta_i over S (weights not renormalised).

    updates [n, P], weights [n], g [P], H [P, P] symmetric; Shapley value
    phi_i = -w_i delta_i.(g + H U / 2) with U = sum_j w_j delta_j
    """
    updates = checks.reals("updates", updates, ["n", "P"], dtype=torch.float64)
    players, P = updates.shape
    weights = checks.reals("weights", weights, [players], dtype=torch.float64)
    g = checks.reals("g", g, [P], dtype=torch.float64).clone()
    H = checks.reals("H", H, [P, P], dtype=torch.float64).clone()
    if not torch.allclose(H, H.T):
        raise ValueError("H: expected a symmetric matrix")
    steps = weights[:, None] * updates
    # A player gets its own dividend and half of each pair's; larger dividends are 0.
    phi = -steps @ (g + H @ steps.sum(0) / 2)
    minus_loss = partial(_minus_loss, steps, g, H)
    return Game(players, minus_loss, shapley=phi, name="quadratic")


def _minus_loss(steps: Tensor, g: Tensor, H: Tensor, coalitions: Tensor) -> Tensor:
    # [C, n] @ [n, P] -> [C, P]: the step of each coalition's model
    x = coalitions.double() @ steps
    return -(x @ g) - ((x @ H) * x).sum(1) / 2
