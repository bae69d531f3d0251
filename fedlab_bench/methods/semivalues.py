"""Semivalues: beta-Shapley, which weighs small or large coalitions more than Shapley does."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from fedlab_mini import checks
from fedlab_mini.games.estimate import Estimate, asking
from fedlab_mini.games.game import MOST_ENUMERATED, Game
from fedlab_mini.games.shapley import semivalue


def beta_shapley(game: Game, alpha: float = 16.0, beta: float = 1.0) -> Estimate:
    """The semivalue that joins coalitions with a probability drawn from Beta(beta, alpha).

    alpha, beta  1, 1 is the Shapley value; a larger alpha weighs small coalitions more, a larger
                 beta large ones. The values need not sum to the gain
    raises       ValueError for more than 24 players         source  [Kwon & Zou 2022]; chapter 2
    """
    alpha = checks.number("alpha", alpha, low=0, ends="()")
    beta = checks.number("beta", beta, low=0, ends="()")
    with asking(game, MOST_ENUMERATED) as asked:
        joined = np.arange(game.n)
        still_out = game.n - 1 - joined
        # In logarithms: beta functions of large parameters underflow, their quotient does not.
        log_chances = betaln(joined + beta, still_out + alpha) - betaln(alpha, beta)
        if not np.isfinite(log_chances).all():
            raise ValueError(
                f"alpha, beta: too near 0 or too large, got {alpha:g} and {beta:g}"
            )
        values = semivalue(game, np.exp(log_chances))
    return asked.estimate(f"beta-Shapley({alpha:g}, {beta:g})", values)
