"""Kernel: the Shapley value as a weighted least-squares fit to sampled coalitions.

Chapter 2 shows that with these weights the fit is the Shapley value [Lundberg & Lee 2017]. Compared
with plain KernelSHAP, coalitions come in pairs with their complements [Covert & Lee 2021], a pair
is evaluated once however often it is drawn, the sum of the values is exact, and there are standard
errors.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..streams import stream
from .estimate import Estimate, asking, unless_alike
from .game import MOST_ENUMERATED, Game, decode, encode
from .shapley import MOST_SAMPLES, exact

METHOD = "paired kernel"
# After this many rounds of drawing, do not wait for pairs that are hardly ever drawn.
TRIES = 1000


def kernel(game: Game, budget: int, seed: int = 0) -> Estimate:
    """Paired KernelSHAP: weighted least squares on sampled coalitions and their complements.

    budget   the most distinct coalitions to evaluate, v(empty) and v(N) included (at least 2 n);
             with 2^n or more, all coalitions are evaluated and the value is exact
    returns  values that sum to v(N) - v(empty); standard errors by the sandwich formula over
             pairs; NaN if they cannot be estimated
    source   [Lundberg & Lee 2017; Covert & Lee 2021]; chapter 2
    """
    generator = stream(seed, "coalitions")
    with asking(game) as estimate:
        players = game.n
        if players < 3 or (players <= MOST_ENUMERATED and budget >= 1 << players):
            return estimate(METHOD, exact(game).values)
        if not 2 * players <= budget <= MOST_SAMPLES:
            raise ValueError(
                f"budget: expected 2 n = {2 * players} to {MOST_SAMPLES} evaluations, got {budget}"
            )
        coalitions, times = _paired_sample(players, (budget - 2) // 2, generator)
        empty, full = game(torch.tensor([[False] * players, [True] * players]))
        asked_worth = game(torch.cat([coalitions, ~coalitions]))
        worth, gain = asked_worth.view(2, -1) - empty, float(full - empty)
        values, stderr = _least_squares(coalitions.double(), worth, times, gain)
    largest = torch.stack([empty, full, asked_worth.abs().max()])
    return estimate(METHOD, values, unless_alike(stderr, largest))


def _paired_sample(n: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Distinct pairs {S, complement} drawn by the Shapley kernel, and how often each was drawn."""
    sizes = torch.arange(1, n)
    # Chapter 2, step 8: mu_s times the number of coalitions of size s is 1 / (s (n - s)).
    size_weights = 1.0 / (sizes * (n - sizes)).double()
    times: dict[int, int] = {}
    draw_count = 2 * pairs
    for _ in range(TRIES):
        # The kernel's weight depends on the size only.
        size_indices = torch.multinomial(
            size_weights, draw_count, replacement=True, generator=generator
        )
        random_keys = torch.rand(draw_count, n, generator=generator, dtype=torch.float64)
        # Two sorts turn keys into ranks; ranks below a size are a random coalition of this size.
        ranks = random_keys.argsort(1).argsort(1)
        coalitions = ranks < sizes[size_indices][:, None]
        # A pair is named by its coalition that contains player 0.
        coalitions = torch.where(coalitions[:, :1], coalitions, ~coalitions)
        if _count_draws(times, encode(coalitions).tolist(), pairs):
            break
    codes = np.array(list(times), dtype=np.int64 if n <= 62 else object)
    return decode(codes, n), torch.tensor(list(times.values()), dtype=torch.float64)


def _count_draws(times: dict[int, int], codes: list[int], pairs: int) -> bool:
    """Count samples until the next would be one pair too many; return whether this happened."""
    for code in codes:
        if code not in times and len(times) == pairs:
            return True
        times[code] = times.get(code, 0) + 1
    return False


def _least_squares(
    coalitions: Tensor, worth: Tensor, times: Tensor, gain: float
) -> tuple[Tensor, Tensor]:
    """Fit worth(S) = sum of phi over S with sum(phi) = gain; sandwich errors clustered by pair.

    coalitions [p, n], worth [2, p] of them and of their complements, times [p] how often drawn
    """
    pairs, players = coalitions.shape
    members = torch.stack([coalitions, 1 - coalitions])  # [2, p, n]
    # The last value is the gain minus the other values, so n - 1 values are free.
    last_member = members[..., players - 1 :]
    design = members[..., : players - 1] - last_member
    target = worth - last_member[..., 0] * gain
    normal_matrix = torch.einsum("p,cpi,cpj->ij", times, design, design)
    # A pseudoinverse, because few coalitions may not separate all players.
    inverse = torch.linalg.pinv(normal_matrix, hermitian=True)
    phi = inverse @ torch.einsum("p,cpi,cp->i", times, design, target)
    residual = target - design @ phi
    # The influence of a pair, [p, n - 1].
    influence = torch.einsum("cpi,cp->pi", design, residual) @ inverse
    # The sandwich sums squared influences of pairs, because the two coalitions are one sample.
    covariance = torch.einsum("p,pi,pj->ij", times, influence, influence)
    # The last value is the gain minus the others, so its variance is the sum of all covariances.
    variances = torch.cat([covariance.diagonal(), covariance.sum()[None]])
    stderr = variances.clamp(min=0).sqrt()
    if pairs < players or torch.linalg.matrix_rank(normal_matrix, hermitian=True) < players - 1:
        # There are too few pairs to estimate the errors of the fit.
        stderr = torch.full_like(stderr, torch.nan)
    count = float(times.sum())
    # Degrees of freedom: n - 1 values were fitted.
    stderr = stderr * math.sqrt(count / max(count - players + 1, 1.0))
    return torch.cat([phi, (gain - phi.sum())[None]]), stderr
