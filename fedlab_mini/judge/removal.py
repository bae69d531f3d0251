"""Removal curves: quality after retraining without the best- or the worst-scored clients.

Chapter 3 introduces them. Builds on engine.simulate and metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..engine.history import frame
from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.simulate import simulate
from ..parse.metric import Metric
from ..streams import stream
from ..worlds.federation import Federation
from .metrics import ranks

if TYPE_CHECKING:
    import pandas

ORDERS = 8  # of clients with tied scores, an even number


@dataclass(frozen=True)
class RemovalCurves:
    """Quality after retraining without the highest- and without the lowest-scored clients.

    removed [F] numbers of clients; highest, lowest [F] the metric on the test set
    """

    removed: Tensor
    highest: Tensor
    lowest: Tensor

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table: a row for every fraction, columns removed, highest and lowest."""
        return frame(removed=self.removed, highest=self.highest, lowest=self.lowest)


def removal_curves(
    fed: Federation,
    net: Model,
    scores: Tensor,
    fractions: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    *,
    rounds: int,
    local: LocalSGD = LocalSGD(),  # noqa: B008
    seed: int = 0,
    metric: Metric = "accuracy",
) -> RemovalCurves:
    """Retrain without the best or without the worst clients; a good score separates the curves.

    scores [K]; fractions in [0, 1) of the clients, rounded down to whole clients; all runs
    are one ``simulate`` call of 2 F runs, judged on the server's test set. Where a fraction removes
    some of several clients with tied scores, the curves are means over eight orderings of such
    clients, which the seed draws, and need eight times as many runs
    """
    # A little is added, so that 0.3 of ten clients is three in spite of rounding.
    removed = torch.tensor([math.floor(share * fed.clients + 1e-9) for share in fractions])
    present = _present(scores, removed, seed)
    # The remaining clients participate in every round.
    participation = present.flatten(0, 2)[:, None].expand(-1, rounds, -1)
    final = simulate(
        fed, net, participation, local=local, seed=seed, metric=metric, on="test", last=True
    )
    # [orderings, 2, F] -> [2, F]
    highest, lowest = final.view(present.shape[:3]).mean(0)
    return RemovalCurves(removed, highest, lowest)


def _present(scores: Tensor, removed: Tensor, seed: int) -> Tensor:
    """The remaining clients, [orderings, 2, F, K] of 0 and 1: without the highest, the lowest.

    One ordering if no fraction divides clients with tied scores
    """
    clients, rank, generator = len(scores), ranks(scores), stream(seed, "removal ties")
    drawn = torch.stack([torch.randperm(clients, generator=generator) for _ in range(ORDERS // 2)])
    # With each ordering also its reverse, so that a constant score has two equal curves.
    drawn = torch.cat([drawn, drawn.flip(1)])
    # A stable sort keeps tied clients as they were drawn, because their ids carry no meaning.
    worst_first = drawn.gather(1, rank[drawn].argsort(stable=True))  # [orderings, K]
    place = worst_first.argsort()  # of each client, 0 for the worst
    count = removed[:, None]
    kept = torch.stack([place[:, None] < clients - count, place[:, None] >= count], 1).float()
    return kept[:1] if (kept == kept[0]).all() else kept
