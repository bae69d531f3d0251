"""Exact: claims that need no seeds: algebra, tested on a small case, and the papers' arithmetic.

Each function returns whether the claim is true, and what was found. Above: ledger.
"""

from __future__ import annotations

import math
from itertools import permutations, product

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.methods.sfedavg import algorithm_2

Found = tuple[bool, str]

TABLE_1 = {"LOO": (249.5, 464.6, 699.6, 806.1, 1135.9), "F-RCCE": (62.6, 63.0, 64.2, 64.9, 66.9)}
TABLE_2 = {  # FedCCEA: seconds for 4, 8, 12, 16, 32, 64 clients
    "simulation": (8.78, 10.50, 12.60, 14.35, 22.50, 38.58),
    "TMC": (40.37, 72.14, 107.21, 140.53, 279.48, 568.93),
    "LOO": (41.16, 72.75, 107.85, 141.04, 284.50, 584.37),
}
SIMULATIONS = 100


def six_per_cent() -> Found:
    """F-RCCE, Section 3.4: the growth that Table 1 prints."""
    growth = TABLE_1["F-RCCE"][-1] / TABLE_1["F-RCCE"][0] - 1
    return round(100 * growth) == 6, f"{100 * growth:.1f} %"


def almost_linear() -> Found:
    """F-RCCE, Section 3.4: LOO's time over 100 to 500 clients, as a power of their number."""
    power = math.log(TABLE_1["LOO"][-1] / TABLE_1["LOO"][0]) / math.log(5)
    return 0.9 < power < 1.1, f"time grows as clients to the power {power:.2f}"


def ascent_learns() -> Found:
    """F-RCCE, Eqs. 2 and 8: how one exact step changes the probability of a client that helps."""
    chances = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
    loss: dict[tuple[int, ...], float]
    loss = {(0, 0): 1.0, (1, 0): 0.5, (0, 1): 1.5, (1, 1): 1.0}  # client 0 helps, client 1 harms
    expected = torch.zeros((), dtype=torch.float64)
    for chosen in product((0, 1), repeat=2):
        drawn = torch.stack([c if s else 1 - c for s, c in zip(chosen, chances, strict=True)])
        expected = expected + drawn.prod() * (loss[chosen] - 1.0)
    helps, harms = torch.autograd.grad(expected, chances)[0].tolist()
    return helps > 0 > harms, f"slope {helps:+.2f} for who helps, {harms:+.2f} for who harms"


def gamma_falls() -> Found:
    """CGSV, equation of gamma: its values over 100 rounds from gamma_0 = .5."""
    gamma = _gammas(0.5)
    return bool((gamma.diff() < 0).all()), f"from {gamma[0]:.2f} to {gamma[-1]:.3f}"


def late_rounds_count() -> Found:
    """CGSV: the final weight of the later half of 100 rounds, for gamma_0 = .5 and .95."""
    small, large = (float(_counts(gamma0)[50:].sum()) for gamma0 in (0.5, 0.95))
    return large > small, f"the later half counts {small:.2f} for .5, {large:.2f} for .95"


def sizes_count_less() -> Found:
    """CGSV: the weight of data sizes after 100 rounds, for gamma_0 = .5 and .95."""
    small, large = (float(_gammas(gamma0).prod()) for gamma0 in (0.5, 0.95))
    return small > large, f"sizes count {small:.2f} for .5, {large:.2f} for .95"


def _gammas(gamma0: float) -> Tensor:
    return 1 - (1 - gamma0) / torch.arange(1, 101).double()


def _counts(gamma0: float) -> Tensor:
    """The share of each of 100 rounds in the final weights, without rescaling."""
    gamma = _gammas(gamma0)
    kept = torch.cat([gamma.flip(0).cumprod(0).flip(0)[1:], torch.ones(1).double()])
    return (1 - gamma) * kept


def gamma_one_is_fedavg() -> Found:
    """CGSV: gamma_0 = 1 keeps the weights. Is the step then that of FedAvg?"""
    updates, weights = torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.tensor([0.5, 0.5])
    units = updates / updates.norm(dim=1, keepdim=True)
    apart = float((weights @ units - weights @ updates).norm())
    return apart < 1e-6, f"steps {apart:.2f} apart: (1.5, 0.5) against (0.5, 0.5)"


def updates_or_models() -> Found:
    """CGSV: the mean of the models is the old model plus the mean of the updates."""
    old, weights = torch.tensor([1.0, 2.0]), torch.tensor([0.25, 0.75])
    models = torch.tensor([[4.0, 2.0], [1.0, 3.0]])
    apart = float((weights @ models - (old + weights @ (models - old))).abs().max())
    return apart < 1e-6, f"difference {apart:.0g}, before updates are scaled to length 1"


def expansion() -> Found:
    """S-FedAvg, Eq. 6 against Eq. 5 and Algorithm 1: three rounds with the value 1."""
    alpha, beta, start = 0.75, 0.25, 0.1
    relevance = start
    for _ in range(3):
        relevance = alpha * relevance + beta * 1.0
    printed = beta + alpha + alpha**2
    return math.isclose(relevance, printed), f"{relevance:.2f} by Eq. 5, {printed:.2f} by Eq. 6"


def printed_sets() -> Found:
    """S-FedAvg, Algorithm 2: the mean over many orderings of a game in which all three add 1."""
    game = fm.Game(3, lambda coalitions: coalitions.double().sum(1))
    values = algorithm_2(game, 6000, seed=0)
    told = ", ".join(f"{value:.2f}" for value in values.tolist())
    return bool((values - 1).abs().max() < 0.05), f"{told} instead of 1, 1, 1"


def needs_all_orders() -> Found:
    """S-FedAvg: are 120 orderings needed for exact values of five, or 32 coalitions?"""
    worth = torch.rand(32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bits = 2 ** torch.arange(5)
    game = fm.Game(5, lambda s: worth[(s * bits).sum(1)])
    by_orders = torch.zeros(5, dtype=torch.float64)
    for order in permutations(range(5)):
        place = torch.tensor(order)
        coalitions = torch.eye(5, dtype=torch.bool)[place].cumsum(0).bool()
        with_empty = torch.cat([torch.zeros(1, 5, dtype=torch.bool), coalitions])
        by_orders[place] += game(with_empty).diff() / 120
    estimate = fm.exact(game)
    same = torch.allclose(estimate.values, by_orders)
    return not same, "32 coalitions give the values of all 120 orderings"


def empty_is_nothing() -> Found:
    """S-FedAvg: does it matter if the empty coalition is worth 0? Ten orderings, both ways."""
    base = 0.8
    with_it = fm.Game(5, lambda s: base + 0.01 * s.double().sum(1))
    without = fm.Game(5, lambda s: torch.where(s.any(1), base + 0.01 * s.double().sum(1), 0.0))
    values = [fm.permutation(game, 10, seed=1).values for game in (with_it, without)]
    spread = [float(each.max() - each.min()) for each in values]
    return spread[1] < 0.01, f"five equal clients part by {spread[0]:.2f} with it, {spread[1]:.2f}"


def hundred_are_cheaper() -> Found:
    """FedCCEA, C.1: cost of the hundred simulations that it asks for, from its own Table 2."""
    ratio = [SIMULATIONS * s / t for s, t, _ in zip(*TABLE_2.values(), strict=True)]
    return max(ratio) < 1, f"{ratio[0]:.0f} times TMC for 4 clients, {ratio[-1]:.1f} for 64"


def grows_more_slowly() -> Found:
    """FedCCEA, C.1: growth from 4 to 64 clients in its own Table 2."""
    growth = {name: seconds[-1] / seconds[0] for name, seconds in TABLE_2.items()}
    told = f"{growth['simulation']:.1f}-fold, TMC {growth['TMC']:.1f}-fold"
    return growth["simulation"] < growth["TMC"], told


def doubled_beyond_sixteen() -> Found:
    """FedCCEA, footnote 10: the time of all three methods grows twofold from 16 to 32 clients."""
    growth = [seconds[4] / seconds[3] for seconds in TABLE_2.values()]
    return min(growth) > 1.9, f"{growth[0]:.2f}-fold, TMC {growth[1]:.2f}-fold"
