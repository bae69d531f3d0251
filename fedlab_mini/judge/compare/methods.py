"""Methods of the comparison: the registry's, and how anybody's becomes one.

Below: registry, neighbours.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ... import checks
from ...engine.rounds import Round
from ...methods.neighbours import RoundScore, RoundValue
from ..registry import Method, Retrained, by_name, compared

CEILING = "(the truth itself)"
METHODS = compared()


@dataclass(eq=False)
class FunctionScore(RoundScore):
    """A function (round, server) -> [m] as a strategy."""

    function: Callable = lambda round, server: round.sizes

    def score(self, round: Round) -> Tensor:
        """What the function says of the round, [m]."""
        return self.function(round, self.server)


def watcher(method: Method) -> Any:
    """A method as a strategy of its own, ready to start."""
    if hasattr(method, "aggregate"):
        return copy.deepcopy(method)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()  # type: ignore[arg-type]
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind in positional
    ]
    # A value of a game has one argument, a score of a round has two: (round, server).
    if len(required) == 1:
        return RoundValue(method)  # type: ignore[arg-type]
    return FunctionScore(function=method)  # type: ignore[arg-type]


def watchable(methods: Any) -> dict[str, Method]:
    """Methods by name, each of a kind that ``compare`` takes; others are refused by their name."""
    methods_by_name = by_name(methods)
    if CEILING in methods_by_name:
        raise ValueError(f"methods: {CEILING} is the row of the ceiling; take another name")
    kinds = "a strategy, a function of a game or of (round, server), or Retrained(...)"
    for method_name, method in methods_by_name.items():
        known = hasattr(method, "aggregate") or isinstance(method, Retrained) or callable(method)
        if not known:
            raise TypeError(f"methods: {method_name}: expected {kinds}, got {checks.shown(method)}")
    return methods_by_name
