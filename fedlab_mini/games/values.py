"""Values: other ways to share a game's gain, the least core and the nucleolus.

Chapter 2 compares them with the Shapley value [Schmeidler 1969; Yan & Procaccia 2021]. Both use the
worth of all 2^n coalitions and first subtract that of the empty one, which the textbooks take to be
0. Of all shares in the least core, those with the least sum of squares are returned.
"""

from __future__ import annotations

import numpy as np
import torch

from .estimate import Estimate, asking
from .game import Game, all_coalitions

MOST_PLAYERS = 12  # for which a linear program has 4,096 constraints
TIGHT = 1e-9  # of the largest worth: a smaller multiplier or slack counts as 0


def least_core(game: Game) -> Estimate:
    """Shares of the whole gain that make the largest shortfall of a coalition as small as can be.

    Every coalition S gets at least v(S) - epsilon, with the smallest possible epsilon
    (``core_shortfall``). Of all such shares these have the least sum of squares. If epsilon <= 0,
    they lie in the core
    raises  ValueError for more than 12 players        source  [Yan & Procaccia 2021]; chapter 2
    """
    with asking(game, MOST_PLAYERS) as estimate:
        members, worth, gain = _constraints(game)
        shortfall = _shortfall(members, worth, gain)
        # Without this slack no shares might meet all constraints, because of rounding.
        slack = TIGHT * _largest(worth, gain)
        shares = _shortest(members, worth - shortfall - slack, gain)
    return estimate("least core", torch.tensor(shares))


def core_shortfall(game: Game) -> float:
    """The least core's epsilon: the smallest possible value of the largest shortfall.

    It is at most 0 if and only if the core is not empty: some shares then give each S at least v(S)
    raises  ValueError for more than 12 players
    """
    with asking(game, MOST_PLAYERS):
        members, worth, gain = _constraints(game)
    return _shortfall(members, worth, gain)


def nucleolus(game: Game) -> Estimate:
    """The shares that make the largest shortfall as small as possible, then the second largest, ...

    It solves at most n - 1 linear programs. After each, coalitions with the same shortfall in every
    optimum are fixed at it, and coalitions that the fixed ones determine are removed
    raises  ValueError for more than 12 players
    source  [Schmeidler 1969; Maschler, Peleg & Shapley 1979]; chapter 2
    """
    with asking(game, MOST_PLAYERS) as estimate:
        members, worth, gain = _constraints(game)
    fixed_rows = np.ones((1, game.n))
    fixed_sums = np.array([gain])
    rank = 1
    while rank < game.n:
        _, shortfall, prices = _program(members, worth, fixed_rows, fixed_sums)
        # A price above 0 means that this coalition has the same shortfall in every optimum.
        settled = prices > TIGHT
        fixed_rows = np.concatenate([fixed_rows, members[settled]])
        fixed_sums = np.concatenate([fixed_sums, worth[settled] - shortfall])
        rank, previous = np.linalg.matrix_rank(fixed_rows), rank
        if rank == previous:
            raise ArithmeticError("nucleolus: the solver's prices fix no new coalition")
        # Coalitions that the fixed rows determine cannot change any more.
        fixed_basis = np.linalg.svd(fixed_rows, full_matrices=False)[2][:rank]
        residuals = members - members @ fixed_basis.T @ fixed_basis
        undecided = np.linalg.norm(residuals, axis=1) > 1e-7
        members, worth = members[undecided], worth[undecided]
    shares = np.linalg.lstsq(fixed_rows, fixed_sums, rcond=None)[0]
    return estimate("nucleolus", torch.tensor(shares))


def _constraints(game: Game) -> tuple[np.ndarray, np.ndarray, float]:
    """All coalitions except the empty and the grand one [2^n - 2, n], their worth, and the gain."""
    worth = game.all().double()
    gains = (worth - worth[0]).numpy()
    members = all_coalitions(game.n).double().numpy()
    return members[1:-1], gains[1:-1], float(gains[-1])


def _largest(worth: np.ndarray, gain: float) -> float:
    return max(abs(gain), float(np.abs(worth).max(initial=0.0)), 1e-300)


def _program(
    members: np.ndarray, worth: np.ndarray, fixed: np.ndarray, sums: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """Minimise e with members x >= worth - e and fixed x = sums; x [n], e, each row's price."""
    from scipy.optimize import linprog  # here, because the import takes half a second

    worth_scale = _largest(worth, float(sums[0]))  # the solver's tolerances are absolute
    players = members.shape[1]
    solution = linprog(
        np.r_[np.zeros(players), 1.0],
        A_ub=np.c_[-members, -np.ones(len(members))],
        b_ub=-worth / worth_scale,
        A_eq=np.c_[fixed, np.zeros(len(fixed))],
        b_eq=sums / worth_scale,
        # By default, SciPy requires variables to be at least 0.
        bounds=(None, None),
        method="highs",
    )
    if solution.status != 0:
        raise ArithmeticError(f"linear program: {solution.message}")
    # Marginals: the change of the least e per unit of a right side, which is never positive.
    prices = -solution.ineqlin.marginals
    return (solution.x[:players] * worth_scale, float(solution.x[players]) * worth_scale, prices)


def _shortfall(members: np.ndarray, worth: np.ndarray, gain: float) -> float:
    if not len(members):  # with one player there are no constraints
        return 0.0
    everybody = np.ones((1, members.shape[1]))
    _, shortfall, _ = _program(members, worth, everybody, np.array([gain]))
    return shortfall


def _shortest(members: np.ndarray, least: np.ndarray, gain: float) -> np.ndarray:
    """The shortest x with sum gain and members x >= least, by non-negative least squares.

    source  [Lawson & Hanson 1974, chapter 23]
    """
    from scipy.optimize import nnls

    players = members.shape[1]
    equal_shares = np.full(players, gain / players)
    if players == 1:  # there is only one way to share
        return equal_shares
    # [n, n - 1], columns that sum to 0
    directions = np.linalg.svd(np.ones((1, players)))[2][1:].T
    worth_scale = _largest(least, gain)
    # With x = equal_shares + scale * directions y: the shortest y with slopes y >= heights.
    slopes = members @ directions
    heights = (least - members @ equal_shares) / worth_scale
    # The multipliers of this problem are at least 0 and solve a least-squares problem.
    stacked = np.vstack([slopes.T, heights])
    target = np.r_[np.zeros(players - 1), 1.0]
    multipliers, _ = nnls(stacked, target, maxiter=50 * len(heights) + 100)
    residual = stacked @ multipliers - target
    return equal_shares + worth_scale * directions @ (-residual[:-1] / residual[-1])
