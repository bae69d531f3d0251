"""Closed forms: games with a known Shapley value, to test every estimator.

Chapter 2 derives them: sums, gloves, and a quadratic loss whose weights are not renormalised. Each
game holds its value as ``.shapley``. A worth is a function of this module with its numbers, and no
lambda, so that a game can be sent to another process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from .game import Game

MOST_GLOVES = 100  # of each kind, because the value sums factorials over two counts


def additive(w: Sequence[float] | Tensor) -> Game:
    """v(S) = sum of w over S; Shapley value w."""
    worths = torch.as_tensor(w, dtype=torch.float64)
    total = partial(_sums, worths)
    return Game(len(worths), total, shapley=worths, name=f"additive {worths.tolist()}")


def _sums(worths: Tensor, coalitions: Tensor) -> Tensor:
    return coalitions.double() @ worths


def glove(left: int, right: int) -> Game:
    """Players 0..left-1 each own a left glove, the others a right one; a pair is worth 1."""
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


def quadratic(updates: Tensor, weights: Tensor, g: Tensor, H: Tensor) -> Game:
    """Minus the loss g.x + x'Hx/2 at x_S = sum of w_i delta_i over S (weights not renormalised).

    updates [n, P], weights [n], g [P], H [P, P] symmetric; Shapley value
    phi_i = -w_i delta_i.(g + H U / 2) with U = sum_j w_j delta_j
    """
    steps = weights[:, None] * updates
    # A player gets its own dividend and half of each pair's; larger dividends are 0.
    phi = -steps @ (g + H @ steps.sum(0) / 2)
    minus_loss = partial(_minus_loss, steps, g, H)
    return Game(len(steps), minus_loss, shapley=phi, name="quadratic")


def _minus_loss(steps: Tensor, g: Tensor, H: Tensor, coalitions: Tensor) -> Tensor:
    # [C, n] @ [n, P] -> [C, P]: the step of each coalition's model
    x = coalitions.double() @ steps
    return -(x @ g) - ((x @ H) * x).sum(1) / 2
