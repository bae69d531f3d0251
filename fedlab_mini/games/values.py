"""Values: other ways to share a game's gain: beta-Shapley, the least core, the nucleolus.

Chapter 2 explains them beside the Shapley value. All take the whole table of 2^n coalitions, from
a ``Game``; the worth of the empty coalition is subtracted first. Below: game, shapley.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog, nnls
from scipy.special import betaln
from torch import Tensor

from .. import checks
from .game import Game, all_coalitions
from .shapley import Estimate, _estimate, semivalue

MOST = 12  # players; 4,096 constraints
TIGHT = 1e-9  # of the largest worth: below it a multiplier or a slack counts as 0


def beta_shapley(game: Game, alpha: float = 16.0, beta: float = 1.0) -> Estimate:
    """The semivalue that joins coalitions with a probability drawn from Beta(beta, alpha).

    alpha, beta  1, 1 is the Shapley value; a larger alpha weighs small coalitions more, a larger
                 beta large ones. The values need not sum to the gain
    raises       ValueError for more than 24 players         source  [Kwon & Zou 2022]; chapter 2
    """
    alpha, beta = (
        checks.number(name, value, low=0, ends="()")
        for name, value in (("alpha", alpha), ("beta", beta))
    )
    _few(game, 24)

    def run() -> tuple[Tensor, Tensor]:
        s = np.arange(game.n)
        before = betaln(s + beta, game.n - 1 - s + alpha) - betaln(alpha, beta)
        if not np.isfinite(before).all():
            raise ValueError(f"alpha, beta: too near 0 or too large, got {alpha:g} and {beta:g}")
        return semivalue(game, np.exp(before))

    return _estimate(f"beta-Shapley({alpha:g}, {beta:g})", game, run)


def least_core(game: Game) -> Estimate:
    """Shares of the whole gain that leave the worst-off coalition as little short as possible.

    No coalition S gets less than v(S) - epsilon, with the smallest epsilon there is
    (``core_shortfall``); among the shares that do so, those with the least sum of squares. Where
    epsilon <= 0 they lie in the core
    raises  ValueError for more than 12 players        source  [Yan & Procaccia 2021]; chapter 2
    """
    _few(game, MOST)

    def run() -> tuple[Tensor, Tensor]:
        sets, worth, gain = _table(game)
        shortfall = _shortfall(sets, worth, gain)
        x = _shortest(sets, worth - shortfall - TIGHT * _scale(worth, gain), gain)
        return torch.tensor(x), torch.zeros(game.n, dtype=torch.float64)

    return _estimate("least core", game, run)


def core_shortfall(game: Game) -> float:
    """The least core's epsilon: by how much the worst-off coalition stays short at best.

    At most 0 if and only if the core is not empty: then shares exist that no group can better
    raises  ValueError for more than 12 players
    """
    _few(game, MOST)
    return _shortfall(*_table(game))


def nucleolus(game: Game) -> Estimate:
    """The shares that make the worst-off coalition as well off as can be, then the next, and so on.

    A chain of at most n - 1 linear programs. After each, the coalitions whose shortfall is the same
    in every optimum are fixed at it, and those that the fixed ones determine are set aside
    raises  ValueError for more than 12 players
    source  [Schmeidler 1969; Maschler, Peleg & Shapley 1979]; chapter 2
    """
    _few(game, MOST)

    def run() -> tuple[Tensor, Tensor]:
        sets, worth, gain = _table(game)
        fixed, sums = np.ones((1, game.n)), np.array([gain])
        while (rank := np.linalg.matrix_rank(fixed)) < game.n:
            _, shortfall, price = _program(sets, worth, fixed, sums)
            held = price > TIGHT
            fixed = np.concatenate([fixed, sets[held]])
            sums = np.concatenate([sums, worth[held] - shortfall])
            basis = np.linalg.svd(fixed, full_matrices=False)[2][: np.linalg.matrix_rank(fixed)]
            loose = np.linalg.norm(sets - sets @ basis.T @ basis, axis=1) > 1e-7
            sets, worth = sets[loose], worth[loose]
            if np.linalg.matrix_rank(fixed) == rank:
                raise ArithmeticError("nucleolus: the solver's prices fix no coalition")
        x = np.linalg.lstsq(fixed, sums, rcond=None)[0]
        return torch.tensor(x), torch.zeros(game.n, dtype=torch.float64)

    return _estimate("nucleolus", game, run)


def _few(game: Game, most: int) -> None:
    checks.instance("game", game, Game, "a Game")
    if game.n > most:
        raise ValueError(f"game: needs all coalitions, n <= {most}; got {game.n} players")


def _table(game: Game) -> tuple[np.ndarray, np.ndarray, float]:
    """Coalitions but the empty and the grand one [2^n - 2, n], their worth, and the whole gain."""
    worth = game.all().double()
    v = (worth - worth[0]).numpy()
    return all_coalitions(game.n).double().numpy()[1:-1], v[1:-1], float(v[-1])


def _scale(worth: np.ndarray, gain: float) -> float:
    return max(abs(gain), float(np.abs(worth).max(initial=0.0)), 1e-300)


def _program(
    sets: np.ndarray, worth: np.ndarray, fixed: np.ndarray, sums: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """min e with sets x >= worth - e and fixed x = sums: x [n], e, and the price of each set."""
    scale = _scale(worth, float(sums[0]))  # the solver's tolerances are absolute
    n = sets.shape[1]
    found = linprog(
        np.r_[np.zeros(n), 1.0],
        A_ub=np.c_[-sets, -np.ones(len(sets))],
        b_ub=-worth / scale,
        A_eq=np.c_[fixed, np.zeros(len(fixed))],
        b_eq=sums / scale,
        bounds=(None, None),
        method="highs",
    )
    if found.status != 0:
        raise ArithmeticError(f"linear program: {found.message}")
    return found.x[:n] * scale, float(found.x[n]) * scale, -found.ineqlin.marginals


def _shortfall(sets: np.ndarray, worth: np.ndarray, gain: float) -> float:
    if not len(sets):  # one player: no coalition could object
        return 0.0
    return _program(sets, worth, np.ones((1, sets.shape[1])), np.array([gain]))[1]


def _shortest(sets: np.ndarray, least: np.ndarray, gain: float) -> np.ndarray:
    """The shortest x with sum gain and sets x >= least, by non-negative least squares.

    source  [Lawson & Hanson 1974, chapter 23]
    """
    n = sets.shape[1]
    equal = np.full(n, gain / n)
    if n == 1:  # there is nothing to choose
        return equal
    free = np.linalg.svd(np.ones((1, n)))[2][1:].T  # [n, n - 1], columns that sum to 0
    scale = _scale(least, gain)
    g, h = sets @ free, (least - sets @ equal) / scale  # g y >= h with y as short as can be
    stacked = np.vstack([g.T, h])
    u, _ = nnls(stacked, np.r_[np.zeros(n - 1), 1.0], maxiter=50 * len(h) + 100)
    r = stacked @ u - np.r_[np.zeros(n - 1), 1.0]
    return equal + scale * free @ (-r[:-1] / r[-1])
