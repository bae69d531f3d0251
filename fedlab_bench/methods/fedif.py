"""FedIF: does a client's direction lower the validation loss, round by round? Below: neighbours."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.games.round_tables import gradient
from fedlab_mini.methods.fedavg import of_usual_size, strategy
from fedlab_mini.methods.round_scores import RoundScore, Scored

from .neighbours import rounding


@strategy
class FedIF(RoundScore):
    """Influence of a direction: -(delta_i / |delta_i|) . g, scaled to [0, 1] and smoothed.

    memory  share of the past that the moving average keeps; the paper's gamma is 1 minus it

    Departures: the paper's average starts at 0, so that a client that is seldom asked stays low;
    ours takes the first score whole. The paper weighs the aggregate by it; here it is watched.
    Cost    one gradient a round, no evaluation
    source  [Tang et al. 2025, FedIF, Eq. 6-8]; its gamma is .3 or .4
    """

    memory: float = 0.7

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The round's influences between 0, the lowest, and 1, [m]; 1/2 if all are equal."""
        slope = gradient(round, server)
        # [m, P] @ [P] -> [m]; an update of zeros stays zeros, and its influence 0
        influence = -(F.normalize(of_usual_size(round.updates), dim=1) @ slope)
        span = influence.max() - influence.min()
        # Where all point alike, influences differ by rounding, which is not worth a score.
        if not span > rounding(influence.dtype, 16) * slope.norm():
            return torch.full_like(influence, 0.5)
        return (influence - influence.min()) / span
