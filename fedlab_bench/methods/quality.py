"""Quality inference: which clients participated when the aggregate improved the model.

It reads no single update, so it suits secure aggregation, where a server sees only sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.methods.fedavg import FedAvg, Weighting
from fedlab_mini.parse.metric import Metric
from fedlab_mini.parse.settings import Count


@dataclass(frozen=True, eq=False, kw_only=True)
class QualityInference(FedAvg):
    """Marks for the participants, by the effect of their aggregate on the validation quality.

    With the improvement of round t, w_t = quality after it - quality before it:

        the good  w_t > w_{t-1}: +1 for each client of round t
        the bad   w_t > w_{t-1}: -1 for each client of round t - 1
        the ugly  w_t < 0:       -1 for each client of round t

    metric      "accuracy", as published, "loss", or a function of (outputs, labels)
    per_round   participants must differ between rounds; if all participate, all marks are equal

    scores [K]  the sum of a client's marks; mostly negative, and only their order has a meaning
    A round in which nobody sent anything does not count as a previous round.
    Departure: the paper averages models with equal weights, which is ``weighting="uniform"``.
    Cost        two evaluations per round
    source      [Pejo & Biczok 2023, section 3.2 and Algorithm 1]
    """

    per_round: Count | None = None
    weighting: Weighting = "size"
    metric: Metric = "accuracy"

    def init(self, server: Server) -> State:
        """The state before round 1: FedAvg's, the marks, and the previous round's participants."""
        zeros = torch.zeros(server.clients, dtype=torch.float64)
        # Infinite, so that nobody gets a mark for the first round's improvement.
        improvement = torch.tensor(math.inf, dtype=torch.float64)
        ours = {"marks": zeros, "present": zeros.clone(), "improvement": improvement}
        return super().init(server) | ours

    def scores(self, server: Server, state: State) -> Tensor:
        """The marks of the clients so far, [K]."""
        return state["marks"]

    def step(self, server: Server, state: State, round: Round) -> Step:
        """Federated averaging's model [P]; marks the clients of this round and the previous one."""
        done = super().step(server, state, round)
        models = torch.stack([round.theta, done.theta])
        before, after = server.net.evaluate(models, *server.validation, self.metric)
        gained = before - after if self.metric == "loss" else after - before
        present = torch.zeros_like(state["present"])
        present[round.clients] = 1
        if gained > state["improvement"]:
            # The good and the bad at once: a client in both rounds gets +1 - 1.
            state["marks"] += present - state["present"]
        if gained < 0:
            state["marks"] -= present
        seen = {"present": present, "improvement": gained.double().cpu()}
        return done._replace(state=state | seen, evaluated=2)
