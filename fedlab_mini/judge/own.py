"""Own: the methods that readers bring. Each gets its own copy of a round.

Used by score. Builds on engine's rounds and on round_scores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..engine.rounds import Round, Server, State
from ..keep.files import HOUSE
from ..methods.round_scores import RoundScore, Scored


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionScore(RoundScore):
    """A function (round, server) -> [m] as a strategy."""

    function: Callable[..., Any] = lambda round, server: round.sizes

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The function's scores of the round, [m]."""
        return self.function(round, server)


def takes_round(function: Callable[..., Any]) -> bool:
    """Does a function take (round, server), and not only a game?

    raises  ValueError for a function of a game that needs more, such as ``fm.permutation``
    """
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    required = [one for one in parameters if one.kind in positional and one.default is one.empty]
    names = [one.name for one in required]
    if names[:1] == ["game"] and len(names) > 1:
        needs = ", ".join(f"{name}=..." for name in names[1:])
        called = getattr(function, "__name__", "this")
        raise ValueError(f"methods: write functools.partial({called}, {needs}), not {called} alone")
    return len(required) == 2


CARRIED = ("value", "function", "strategy", "detector")


def is_guest(method: Any) -> bool:
    """Is a method, or what it is made of, code from outside the book?"""
    function = method.func if isinstance(method, partial) else method
    code = type(method) if hasattr(method, "step") else function
    carried = [getattr(method, name, None) for name in CARRIED]
    module = getattr(code, "__module__", None) or type(code).__module__
    return module.partition(".")[0] not in HOUSE or any(
        is_guest(one) for one in carried if one is not None
    )
