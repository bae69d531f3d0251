"""Gated: a function of the core with a parser for each argument that people bring.

The core trusts its arguments, so it reads like the chapters. What people call is this: a table of
parameters and parsers, and then the core's function, whose signature and docstring ``help`` shows.
Parsers are named functions, because a saved history describes the functions in its settings.
Below: parse. Above: the other modules of the gate.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Parser = Callable[[str, Any], Any]  # (name, value) -> what the core takes; TypeError, ValueError
Parsed = dict[str, Any]


def gated(
    function: Function, together: Callable[..., Parsed] | None = None, /, **parsers: Parser
) -> Function:
    """The function behind a table of parsers, one for each parameter that is parsed.

    Defaults are trusted: only arguments that the caller gives are parsed, in the table's order
    together  for arguments that depend on others, such as two arrays of one length: it is called
              with all arguments by name, parsed ones and defaults, and returns those that it parses
    """
    signature = inspect.signature(function)

    @documented_by(function)
    def public(*args: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*args, **options)
        except TypeError:  # a misspelt or missing argument: Python says it best
            return function(*args, **options)
        for name, parse in parsers.items():
            if name in given.arguments:
                given.arguments[name] = parse(name, given.arguments[name])
        if together is not None:
            given.apply_defaults()
            given.arguments.update(together(**given.arguments))
        return function(*given.args, **given.kwargs)

    # Other processes find the function by its module, as they do for a class of namedtuple.
    public.__module__ = sys._getframe(1).f_globals["__name__"]
    return public  # type: ignore[return-value]


def documented_by(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Give a public function the name, docstring and signature of the core's function."""
    # Not its module: other processes would find the core's function there.
    named: Any = functools.wraps(function, assigned=("__name__", "__qualname__", "__doc__"))
    return named
