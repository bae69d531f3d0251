"""Methods: the public functions of the methods that are no strategies, each with its parsers.

What they compute is in ``fedlab_mini.methods``, whose strategies check their own settings.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..engine.history import History
from ..methods.aam_fit import fit_aam as core_fit_aam
from ..methods.aam_fit import settle as core_settle
from ..methods.cgsv import cosine_game as core_cosine_game
from ..methods.cgsv import cosines as core_cosines
from ..methods.fedccea import contribution_index as core_index
from ..methods.fedccea import fedccea as core_fedccea
from ..methods.fedccea import simulator as core_simulator
from ..methods.sfedavg import class_relevance as core_relevance
from ..parse.checks import array, choice, instance, reals, refusal, whole
from .games import doubles, training_arguments
from .gated import Parsed, gated


def _cosines_arguments(updates: Any, step: Any) -> Parsed:
    updates = reals("updates", updates, ["m", "P"])
    step = reals("step", step, [updates.shape[1]], dtype=updates.dtype)
    return {"updates": updates, "step": step}


def _cosine_game_arguments(updates: Any, weights: Any) -> Parsed:
    updates = doubles("updates", updates, ["n", "P"])
    if weights is not None:
        weights = doubles("weights", weights, [len(updates)]).to(updates.device)
        if (weights < 0).any():
            raise refusal("weights", "numbers of at least 0", float(weights.min()))
    return {"updates": updates, "weights": weights}


cosines = gated(core_cosines, _cosines_arguments)
cosine_game = gated(core_cosine_game, _cosine_game_arguments)


def _history_with_classes(name: str, value: Any) -> History:
    history = instance(name, value, History, "a History, as fm.train returns it")
    relevance = history.state.get("class_scores")
    if relevance is None or relevance.shape[1] == 0:
        raise ValueError(
            f"{name}: expected one with class relevances; train with fm.SFedAvg(..., by_class=True)"
        )
    return history


class_relevance = gated(core_relevance, history=_history_with_classes)


def _by_client(name: str, value: Any) -> Tensor:
    return doubles(name, value, ["K"]).cpu()


def _fedccea_arguments(steps: int | None, form: str, **given: Any) -> Parsed:
    if steps is None and form == "hidden":
        raise ValueError(
            'form: "hidden" is fitted by Adam; give its number of steps, such as steps=3000'
        )
    return training_arguments(**given)


def _settle_arguments(sizes: Any, accuracy: Any, **_: Any) -> Parsed:
    """Sizes [S, R, K] and accuracy [S, R] in float64."""
    sizes = doubles("sizes", sizes, ["S", "R", "K"])
    return {"sizes": sizes, "accuracy": doubles("accuracy", accuracy, sizes.shape[:2])}


def _fit_arguments(used: Any, starts: int, **given: Any) -> Parsed:
    measured = _settle_arguments(**given)
    if used is None:
        return measured
    if starts > 1:
        raise ValueError("starts: expected 1 together with `used`; leave out one")
    used = array("used", used, ["F", len(measured["sizes"])]).double()
    if not ((used >= 0).all() and torch.isfinite(used).all() and (used.sum(1) > 0).all()):
        raise ValueError(
            "used: expected rows of finite weights >= 0, with a weight above 0 in each row"
        )
    return measured | {"used": used}


contribution_index = gated(core_index, v=_by_client)
simulator = gated(core_simulator, training_arguments, simulations=whole)
fedccea = gated(core_fedccea, _fedccea_arguments, simulations=whole, steps=whole)
settle = gated(core_settle, _settle_arguments)
fit_aam = gated(
    core_fit_aam,
    _fit_arguments,
    steps=whole,
    start=partial(choice, accepted=("equal", "random")),
    every=whole,
)
