"""Settings: frozen dataclasses whose annotations are the checks of their fields.

``bool``, ``int``, ``float``, ``Literal`` and ``Annotated[float, parser]`` are checked, and None
where an annotation allows it; other annotations are not. Strategies, splits, corruptions, attacks
and ``LocalSGD`` are settings. Builds on checks.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from .checks import choice, flag, number, store, whole

Parser = Callable[[str, Any], Any]  # (name, value) -> the value to keep; or an error
PLAIN: dict[Any, Parser] = {bool: flag, int: partial(whole, low=None), float: number}


def between(low: float, high: float = math.inf, ends: str = "[]") -> Parser:
    """A parser of numbers from low to high; ``ends`` "(]" excludes low and includes high."""
    return partial(number, low=low, high=high, ends=ends)


Count = Annotated[int, whole]
Natural = Annotated[int, partial(whole, low=0)]
Share = Annotated[float, between(0, 1)]
Positive = Annotated[float, between(0, ends="(]")]
NotNegative = Annotated[float, between(0)]


@dataclass(frozen=True, repr=False)
class Both:
    """The default of an option: the book's value, and the paper's for ``literal=True``."""

    ours: Any
    printed: Any

    def __repr__(self) -> str:
        return repr(self.ours)  # what signatures show


def ours(value: Any, *, printed: Any) -> Any:
    """A default for which the paper has another value; None: the paper has no such option."""
    return Both(value, printed)


class Settings:
    """The base of frozen dataclasses that check their fields when they are made.

    A subclass with a field ``literal`` takes, if that is True, the paper's values of those options
    that the caller did not give.
    raises  TypeError or ValueError naming the field
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        literal = flag("literal", getattr(self, "literal", False))
        kind: Any = type(self)
        both, parsers = options_of(kind) if literal else {}, parsers_of(kind)
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            # An option that the paper does not have is removed, even if the caller gave it.
            if name in both and (both[name].printed is None or not self.given(name)):
                value = both[name].printed
            elif isinstance(value, Both):
                value = value.ours
            parser, allows_none = parsers.get(name, (None, False))
            if parser and not (value is None and allows_none):
                value = parser(name, value)
            store(self, **{name: value})

    def given(self, name: str) -> bool:
        """Did the caller give this option? Known only until ``Settings.__post_init__``."""
        return getattr(self, name) is not self.__dataclass_fields__[name].default


def options_of(kind: type[Settings]) -> dict[str, Both]:
    """The options of a class for which it, or a base, names the paper's value."""
    found: dict[str, Both] = {}
    for base in reversed(kind.__mro__):
        found |= {name: value for name, value in vars(base).items() if isinstance(value, Both)}
    for name, both in found.items():
        default = kind.__dataclass_fields__[name].default
        # A subclass may give another default; the paper's value stays.
        found[name] = default if isinstance(default, Both) else Both(default, both.printed)
    return found


@functools.cache
def parsers_of(settings: type[Settings]) -> dict[str, tuple[Parser, bool]]:
    """For each field that is checked: its parser, and whether it may be None."""
    found: dict[str, tuple[Parser, bool]] = {}
    for base in reversed(settings.__mro__):
        try:
            hints = inspect.get_annotations(base, eval_str=True)
        except Exception:  # annotations of a reader's class may name what only its author knows
            continue
        for name, hint in hints.items():
            origin: Any = get_origin(hint)
            kinds = get_args(hint) if origin in (Union, types.UnionType) else (hint,)
            kind, *others = [one for one in kinds if one is not types.NoneType]
            parser = None if others else parser_of(kind)
            # A subclass may give another default, as in ``memory: float = 0.7``; the range stays.
            if parser and not (name in found and isinstance(kind, type)):
                found[name] = parser, types.NoneType in kinds
    return found


def parser_of(hint: Any) -> Parser | None:
    """The parser that an annotation stands for; None: nothing is checked."""
    parts = get_args(hint)
    if get_origin(hint) is Annotated:
        return next(filter(callable, parts[1:]), None)
    if get_origin(hint) is Literal and all(isinstance(part, str) for part in parts):
        return partial(choice, accepted=parts)
    return PLAIN.get(hint) if isinstance(hint, type) else None
