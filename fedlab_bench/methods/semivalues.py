"""Semivalues: beta-Shapley, which weights small or large coalitions more than Shapley does."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from fedlab_mini.games.estimate import Estimate, asking
from fedlab_mini.games.game import MOST_ENUMERATED, Game
from fedlab_mini.games.shapley import semivalue
from fedlab_mini.parse import checks


def beta_shapley(game: Game, alpha: float = 16.0, beta: float = 1.0) -> Estimate:
    """The semivalue in which others join a coalition with a probability from Beta(beta, alpha).

    alpha, beta  1, 1 is the Shapley value; a larger alpha weights small coalitions more, a larger
                 beta large ones. The values may not sum to the gain
    raises       ValueError for more than 24 players         source  [Kwon & Zou 2022]; chapter 2
    """
    checks.instance("game", game, Game, "a Game")
    alpha = checks.number("alpha", alpha, low=0, ends="()")
    beta = checks.number("beta", beta, low=0, ends="()")
    with asking(game, MOST_ENUMERATED) as estimate:
        joined = np.arange(game.n)
        still_out = game.n - 1 - joined
        # In logarithms, because beta functions of large parameters underflow, but not their ratio.
        log_chances = betaln(joined + beta, still_out + alpha) - betaln(alpha, beta)
        if not np.isfinite(log_chances).all():
            raise ValueError(f"alpha, beta: too near 0 or too large, got {alpha:g} and {beta:g}")
        values = semivalue(game, np.exp(log_chances))
    return estimate(f"beta-Shapley({alpha:g}, {beta:g})", values)
