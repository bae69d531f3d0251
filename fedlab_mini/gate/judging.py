"""Judging: what people call to judge scores by training again.

Below: judge. Beside: training.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..judge import removal
from ..judge.metrics import Scores, as_scores
from ..parse.checks import by_id, instance, number, reals, whole
from ..parse.metric import Metric, check_metric
from ..worlds.federation import Federation
from .gated import documented_by
from .training import starting_model


@documented_by(removal.removal_curves)
def removal_curves(
    fed: Federation,
    net: Model,
    scores: Scores,
    fractions: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    metric: Metric = "accuracy",
) -> removal.RemovalCurves:
    instance("fed", fed, Federation, "a Federation")
    scores = as_scores("scores", by_id("scores", scores, range(fed.clients)))
    if len(scores) != fed.clients:
        wanted = f"one for each of {fed.clients} clients"
        raise ValueError(f"scores: expected {wanted}, got {len(scores)}")
    shares = reals("fractions", fractions, ["F"], dtype=torch.float64).tolist()
    shares = [number("fractions", share, 0, 1, ends="[)") for share in shares]
    rounds = whole("rounds", rounds)
    local = LocalSGD() if local is None else local
    check_metric("metric", metric)
    net, _ = starting_model(fed, net, rounds, local, seed)
    return removal.removal_curves(
        fed, net, scores, shares, rounds=rounds, local=local, seed=seed, metric=metric
    )
