"""Methods of the comparison: the registry's, and how anybody's becomes one.

Below: registry, own.
"""

from __future__ import annotations

from typing import Any

from fedlab_mini import checks
from fedlab_mini.judge.own import FunctionScore as FunctionScore
from fedlab_mini.judge.own import takes_round
from fedlab_mini.judge.registry import by_name
from fedlab_mini.methods.round_scores import RoundValue

from ..registry import Method, Retrained, compared

CEILING = "(the truth itself)"
METHODS = compared()


def watcher(method: Method) -> Any:
    """A method as a strategy."""
    if hasattr(method, "step"):
        return method
    # A value of a game has one argument, a score of a round has two: (round, server).
    if takes_round(method):  # type: ignore[arg-type]
        return FunctionScore(function=method)  # type: ignore[arg-type]
    return RoundValue(method)  # type: ignore[arg-type]


def watchable(methods: Any) -> dict[str, Method]:
    """Methods by name, each of a kind that ``compare`` takes; others are refused by their name."""
    methods_by_name = by_name(methods)
    if CEILING in methods_by_name:
        raise ValueError(
            f"methods: {CEILING} is the row of the ceiling; take another name"
        )
    kinds = "a strategy, a function of a game or of (round, server), or Retrained(...)"
    for method_name, method in methods_by_name.items():
        known = (
            hasattr(method, "step") or isinstance(method, Retrained) or callable(method)
        )
        if not known:
            raise TypeError(
                f"methods: {method_name}: expected {kinds}, got {checks.shown(method)}"
            )
    return methods_by_name
