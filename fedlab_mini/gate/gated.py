"""Gated: a function of the core with a parser for each argument that people bring.

The core trusts its arguments, so it reads like the chapters. What people call is this: a parser for
each parameter, and then the core's function, whose signature and docstring ``help`` shows.
Parsers are named functions, because a saved history describes the functions in its settings.
Below: parse, engine, games. Above: the other modules of the gate.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..games.game import Game
from ..parse.checks import choice, instance, number, processes, whole
from ..parse.metric import check_metric
from ..worlds.federation import Federation

Function = TypeVar("Function", bound=Callable[..., Any])
Parser = Callable[[str, Any], Any]  # (name, value) -> what the core takes; TypeError, ValueError
Parsed = dict[str, Any]


def a_local(name: str, value: Any) -> LocalSGD:
    """Settings of local training; None: the default ones."""
    return LocalSGD() if value is None else instance(name, value, LocalSGD, "fm.LocalSGD(...)")


# A parameter with one of these names is parsed alike in all functions.
PARSERS: dict[str, Parser] = {
    "fed": partial(instance, kind=Federation, such_as="a Federation"),
    "form": partial(choice, accepted=("linear", "hidden")),
    "game": partial(instance, kind=Game, such_as="a Game"),
    "local": a_local,
    "lr": partial(number, low=0, high=1e3, ends="(]"),
    "metric": check_metric,
    "n_jobs": processes,
    "net": partial(instance, kind=Model, such_as="fm.Model(module)"),
    "on": partial(choice, accepted=("validation", "test")),
    "rounds": whole,
    "seed": partial(whole, low=None),
    "starts": whole,
}


def gated(
    function: Function, together: Callable[..., Parsed] | None = None, /, **parsers: Parser
) -> Function:
    """The function behind parsers by parameter: those given here, and those in ``PARSERS``.

    Defaults are trusted: None is parsed only where it is not the default
    together  for arguments that depend on others, such as two arrays of one length: it is called
              with all arguments by name, parsed ones and defaults, and returns those that it parses
    """
    signature, parsers = inspect.signature(function), PARSERS | parsers

    @documented_by(function)
    def public(*args: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*args, **options)
        except TypeError:  # a misspelt or missing argument: Python says it best
            return function(*args, **options)
        for name, value in given.arguments.items():
            if name in parsers and not (value is None is signature.parameters[name].default):
                given.arguments[name] = parsers[name](name, value)
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
