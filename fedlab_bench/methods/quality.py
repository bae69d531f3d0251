"""Quality inference: who was there when the aggregate helped. Single updates are never read.

For a server behind secure aggregation, which sees sums only. Below: fedavg.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from fedlab_mini.checks import choice
from fedlab_mini.engine.rounds import Round
from fedlab_mini.methods.fedavg import FedAvg, strategy


@strategy
class QualityInference(FedAvg):
    """Marks for those who took part, by what their aggregate did to the validation samples.

    With the improvement of round t, w_t = quality after it - quality before it:

        the good  w_t > w_{t-1}: +1 for each client of round t
        the bad   w_t > w_{t-1}: -1 for each client of round t - 1
        the ugly  w_t < 0:       -1 for each client of round t

    metric      "accuracy", as published, or "loss"
    per_round   who takes part must differ between rounds: where all do, all have the same marks

    scores [K]  the sum of a client's marks; mostly negative, only their order says something
    A round in which nobody sent anything does not count as the round before.
    Departure: the paper averages models with equal weights, which is ``weighting="uniform"``.
    Cost        two evaluations a round
    source      [Pejo & Biczok 2023, section 3.2 and Algorithm 1]
    """

    per_round: int | None = None
    weighting: str = "size"
    metric: str = "accuracy"
    improvement: float = field(default=math.inf, init=False, repr=False)

    KEPT: ClassVar = (*FedAvg.KEPT, "marks", "present", "improvement")
    CHECKS: ClassVar = FedAvg.CHECKS | {
        "metric": partial(choice, accepted=("accuracy", "loss")),
    }

    def start(self, server) -> None:
        """Called once before the first round; forgets everything."""
        super().start(server)
        self.marks = torch.zeros(server.clients, dtype=torch.float64)
        # Who took part in the round before.
        self.present = torch.zeros(server.clients, dtype=torch.float64)
        self.improvement = math.inf  # so that nobody is good for coming first

    @property
    def scores(self) -> Tensor:
        """The marks of the clients so far, [K]."""
        return self.marks

    def aggregate(self, round: Round) -> Tensor:
        """Federated averaging's model [P]; marks the round's clients, and those of the last."""
        model = super().aggregate(round)
        models = torch.stack([round.theta, model])
        before, after = self.server.net.evaluate(
            models, *self.server.validation, self.metric
        )
        self.evaluations += 2
        improvement = float(
            after - before if self.metric == "accuracy" else before - after
        )
        present = torch.zeros_like(self.present)
        present[round.clients] = 1
        marks = self.marks.clone()  # histories keep the old one
        if improvement > self.improvement:
            # The good and the bad at once: who is in both rounds has +1 - 1.
            marks += present - self.present
        if improvement < 0:
            marks -= present
        self.marks, self.present, self.improvement = marks, present, improvement
        return model
