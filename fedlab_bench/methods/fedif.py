"""FedIF: does a client's direction lower the validation loss, round by round?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games.round_tables import gradient
from fedlab_mini.methods.numerics import of_usual_size
from fedlab_mini.methods.round_scores import RoundScore, Scored

from .neighbours import rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class FedIF(RoundScore):
    """Influence of a direction: -(delta_i / |delta_i|) . g, scaled to [0, 1] and smoothed.

    memory  share of the past that the moving average keeps; the paper's gamma is 1 minus it

    Departures: the paper's average starts at 0, so a client that is rarely selected stays low; ours
    starts at the first score. The paper also weights the aggregate by the score; here it does not.
    Cost    one gradient per round, no evaluation
    source  [Tang et al. 2025, FedIF, Eq. 6-8]; its gamma is .3 or .4
    """

    memory: float = 0.7

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The round's influences, scaled from 0, the lowest, to 1, [m]; 1/2 if all are equal."""
        slope = gradient(round, server)
        # [m, P] @ [P] -> [m]; an update of zeros stays zeros, and its influence is 0
        influence = -(F.normalize(of_usual_size(round.updates), dim=1) @ slope)
        span = influence.max() - influence.min()
        # With equal directions, influences differ only by rounding, which must not count.
        if not span > rounding(influence.dtype, 16) * slope.norm():
            return torch.full_like(influence, 0.5)
        return (influence - influence.min()) / span
