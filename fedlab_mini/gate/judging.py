"""Judging: what people call to judge scores by training again.

Below: judge. Beside: training.
"""

from __future__ import annotations

from typing import Any

import torch

from ..judge import removal
from ..judge.metrics import as_scores
from ..parse.checks import by_id, number, reals, refusal
from .gated import Parsed, gated
from .training import starting_model


def _fractions(name: str, value: Any) -> list[float]:
    shares = reals(name, value, ["F"], dtype=torch.float64).tolist()
    return [number(name, share, 0, 1, ends="[)") for share in shares]


def _removal_arguments(fed: Any, net: Any, scores: Any, **given: Any) -> Parsed:
    scores = as_scores("scores", by_id("scores", scores, range(fed.clients)))
    if len(scores) != fed.clients:
        raise refusal("scores", f"one for each of {fed.clients} clients", len(scores))
    net, _ = starting_model(fed, net, given["rounds"], given["local"], given["seed"])
    return {"net": net, "scores": scores}


removal_curves = gated(removal.removal_curves, _removal_arguments, fractions=_fractions)
