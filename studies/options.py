"""Options: what ``row --set`` can change, the settings of a study and the options of its methods.

A method's option is written with its class, ``SFedAvg.temperature=0.5``, and is changed in every
training run of that class. Below: study. Above: ledger.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

import fedlab_mini as fm
from fedlab_mini.gate import answers, training
from fedlab_mini.parse.settings import Settings, parsers_of

from .study import Study

Changes = Mapping[type, Mapping[str, Any]]


def methods_of(study: Study) -> dict[str, type[Settings]]:
    """The strategies that the code of a study's rows names, by name; nothing is run."""
    seen, found, open_ = set[int](), dict[str, type[Settings]](), list[Any]([study.rows])
    while open_:
        part = open_.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, type):
            if issubclass(part, Settings) and hasattr(part, "step"):
                found[part.__name__] = part
            elif part.__module__.startswith("studies."):
                open_ += vars(part).values()
        elif isinstance(part, Settings):
            open_.append(type(part))
        elif isinstance(part, partial):
            open_.append(part.func)
        elif isinstance(part, Mapping):
            open_ += part.values()
        elif isinstance(part, list | tuple):
            open_ += part
        elif isinstance(part, FunctionType) and part.__module__.startswith("studies."):
            known = {**vars(fm.methods), **part.__globals__}
            open_ += [known[name] for name in _names(part.__code__) if name in known]
            open_ += [cell.cell_contents for cell in part.__closure__ or ()]
    return dict(sorted(found.items()))


def _names(code: CodeType) -> set[str]:
    """All names in a function, and in the functions inside it."""
    inside = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*inside)


def options_of(kind: Any) -> str:
    """The options of a method that can be set, as NAME=VALUE with the values of today."""
    checked = parsers_of(kind)
    found = {one.name: one.default for one in fields(kind) if one.name in checked}
    today = {name: getattr(value, "ours", value) for name, value in found.items()}
    return "; ".join(f"{name}={value}" for name, value in today.items() if value is not MISSING)


def page(study: Study) -> str:
    """All that ``row --set`` can change, a line for the study and one for each of its methods."""
    lines = [f"`row ID --set NAME=VALUE` changes: {'; '.join(study.told()) or 'nothing'}"]
    for name, kind in methods_of(study).items():
        lines.append(f"  and with {name}.NAME=VALUE: {options_of(kind)}")
    return "\n".join(lines)


def parted(study: Study, texts: Sequence[str]) -> tuple[dict[str, object], Changes]:
    """Texts NAME=VALUE as changed settings of a study and changed options of its methods.

    raises  ValueError that lists what can be set, or says what an option accepts
    """
    dotted = [text for text in texts if "." in text.partition("=")[0]]
    found = study.changed([text for text in texts if text not in dotted])
    methods, changes = methods_of(study), dict[type, dict[str, Any]]()
    for text in dotted:
        place, _, word = text.partition("=")
        name, _, option = place.partition(".")
        kind: Any = methods.get(name)
        parser, optional = parsers_of(kind).get(option, (None, False)) if kind else (None, False)
        if kind is None:
            known = ", ".join(methods) or "none"
            raise ValueError(f"set: {study.name} trains by {known}; got {text!r}")
        if parser is None:
            raise ValueError(f"set: {name} has the options {options_of(kind)}; got {text!r}")
        value = _value(word)
        try:
            value = None if value is None and optional else parser(option, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"set: {study.name}: {name}.{error}") from None
        changes.setdefault(kind, {})[option] = value
    return found, changes


def _value(word: str) -> object:
    """A typed value: a number, True, False, None, or a word."""
    for read in (ast.literal_eval, float):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(word)
    return word


@contextlib.contextmanager
def trained_with(changes: Changes) -> Iterator[None]:
    """Training runs of these classes, and of no subclass, have these options."""
    door: Callable[..., Any] = answers.a_strategy
    used = set[type]()

    def changed(name: str, strategy: Any) -> Any:
        kind = type(strategy)
        used.add(kind)
        return door(name, replace(strategy, **changes[kind]) if kind in changes else strategy)

    with mock.patch.object(training, "a_strategy", changed):
        yield
    if idle := ", ".join(kind.__name__ for kind in changes if kind not in used):
        raise ValueError(f"set: no training run of this row is by {idle}")
