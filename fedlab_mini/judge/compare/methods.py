"""Methods of the comparison: the book's, their neighbours, and how anybody's becomes one.

Below: methods, shapley, values.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from ... import checks
from ...engine.rounds import Round, Strategy
from ...games import shapley, values
from ...games.game import Game
from ...methods.cgsv import CGSV
from ...methods.fedavg import FedAvg
from ...methods.neighbours import (
    ClassCosine,
    GTGShapley,
    RoundScore,
    RoundValue,
    ShapleyFL,
    Taylor,
    TrustCosine,
)
from ...methods.reinforce import FRCCE


@dataclass(frozen=True)
class Retrained:
    """An estimator of the retraining game, not of the rounds: ``Retrained(fm.leave_one_out)``."""

    estimator: Callable[[Game], shapley.Estimate]


Method = Strategy | Retrained | Callable

METHODS: dict[str, Method] = {
    "size": FedAvg(),
    "alone": RoundValue(shapley.alone),
    "leave one out": RoundValue(shapley.leave_one_out),
    "Shapley": RoundValue(shapley.exact),
    "Shapley, silent": RoundValue(shapley.exact, absent="silent"),
    "Shapley, accuracy": RoundValue(shapley.exact, metric="accuracy"),
    "lambda-MR": RoundValue(shapley.exact, discount=0.9),
    "Banzhaf": RoundValue(shapley.banzhaf),
    "beta-Shapley": RoundValue(values.beta_shapley),
    "least core": RoundValue(values.least_core),
    "nucleolus": RoundValue(values.nucleolus),
    "GTG-Shapley": GTGShapley(),
    "ShapleyFL": ShapleyFL(),
    "S-FedAvg's relevance": RoundValue(shapley.exact, metric="accuracy", memory=0.75),
    "first order": Taylor(1),
    "second order": Taylor(2),
    "CGSV": CGSV(),
    "class cosine": ClassCosine(),
    "trust cosine": TrustCosine(),
    "F-RCCE": FRCCE(),
    "retrained: alone": Retrained(shapley.alone),
    "retrained: leave one out": Retrained(shapley.leave_one_out),
    "retrained: 10 orders": Retrained(partial(shapley.permutation, samples=10)),
}


@dataclass(eq=False)
class Told(RoundScore):
    """A function (round, server) -> [m] as a strategy."""

    function: Callable = lambda round, server: round.sizes

    def score(self, round: Round) -> Tensor:
        """What the function says of the round, [m]."""
        return self.function(round, self.server)


def watcher(method: Method) -> Any:
    """A method as a strategy of its own, ready to start."""
    if hasattr(method, "aggregate"):
        return copy.deepcopy(method)
    required = [
        p
        for p in inspect.signature(method).parameters.values()  # type: ignore[arg-type]
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return RoundValue(method) if len(required) == 1 else Told(function=method)  # type: ignore


def named(methods: Any) -> dict[str, Method]:
    if not isinstance(methods, Mapping):
        if not isinstance(methods, list | tuple):
            raise TypeError(f"methods: expected {{name: method}} or a list, got {methods!r}")
        names = [getattr(m, "__name__", type(m).__name__) for m in methods]
        if len(set(names)) != len(names):
            raise ValueError(f"methods: two of one name; write {{name: method}}, got {names}")
        methods = dict(zip(names, methods, strict=True))
    if not methods:
        raise ValueError("methods: expected at least one, such as fm.exact")
    for name, method in methods.items():
        if isinstance(method, type):
            raise TypeError(f"methods: {name} is a class; write {method.__name__}()")
        if not (hasattr(method, "aggregate") or isinstance(method, Retrained) or callable(method)):
            raise TypeError(
                f"methods: {name}: expected a strategy, a function of a game or of (round, server),"
                f" or Retrained(...), got {checks.shown(method)}"
            )
    return dict(methods)
