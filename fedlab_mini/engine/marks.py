"""Marks: what decides a result, as a hash or part by part, to tell a piece of work from others.

Below: nothing. Above: checkpoint, and everything that is stored or compared.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch

Mark = Mapping[str, str]  # part of the work -> its value if that is short, else a hash
HASH_LENGTH = 32  # digits of a part's hash; a part that is shorter stands for itself
PACKAGE = __name__.partition(".")[0]
SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
CONSTANTS = (*SCALARS, torch.dtype, torch.device, torch.Size)


def fingerprint(*parts: object) -> str:
    """SHA-256 over all that decides a result: the parts, and the version of this package.

    Arrays count by all their bytes; functions by their code, defaults and what they refer to;
    objects by the code of their class and by what they hold, or by what their ``__fingerprint__``
    gives. Standard library, torch and all that is installed count by name. No address enters: the
    same in every process, under one version of Python.
    """
    words = mark("", parts=parts)
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


def mark(work: str, known: Mark | None = None, /, **parts: object) -> Mark:
    """What tells a piece of work from others: its parts by name, dataclasses field by field.

    work   what is done; known: a mark that this one extends
    What functions from outside the package refer to in their module is a part, too: "global NAME"
    """
    from .. import __version__

    reader = _Reader()
    words = {**(known or {}), "work": work, "version": __version__}
    for name, value in parts.items():
        if not _has_fields(value):
            words[name] = reader.word(value)
            continue
        words[name] = reader.word(type(value))
        for field, content in vars(value).items():
            words[f"{name}.{field}"] = reader.word(content)
    return words | reader.user_globals


class Memo(dict):
    """What was computed and may be computed again: no part of a fingerprint or of a copy."""

    def __fingerprint__(self) -> None:
        return None

    def __reduce__(self) -> tuple[type, tuple]:
        return Memo, ()


class _Reader:
    """Digests of objects, each read once; what refers to itself is read up to there."""

    def __init__(self) -> None:
        self.digests: dict[int, tuple[object, bytes]] = {}
        self.user_globals: dict[str, str] = {}

    def word(self, value: object) -> str:
        """A short value itself, and the digest of others."""
        if isinstance(value, CONSTANTS) and len(repr(value)) < HASH_LENGTH:
            return repr(value)
        return self.digest(value).hex()[:HASH_LENGTH]

    def digest(self, value: object) -> bytes:
        if id(value) not in self.digests:
            # The value is held beside its digest, so that no other is ever found at its address.
            self.digests[id(value)] = value, b"inside itself"
            total = hashlib.sha256()
            for part in self.parts(value):
                # Each with its length, since ("ab", "c") and ("a", "bc") are different parts.
                content = (
                    part if isinstance(part, bytes | memoryview) else self.digest(part)
                )
                total.update(len(content).to_bytes(8, "little"))
                total.update(content)
            self.digests[id(value)] = value, total.digest()
        return self.digests[id(value)][1]

    def parts(self, value: Any) -> Iterator[object]:
        """What an object consists of: bytes, or objects to read in turn."""
        kind = type(value)
        yield kind.__qualname__.encode()
        if isinstance(value, CONSTANTS):
            yield repr(value).encode()
        elif isinstance(value, torch.Tensor):
            # A view may skip bytes, a conjugate puts them off: only a fresh copy has all in line.
            in_line = torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())
            yield f"{value.dtype}{tuple(value.shape)}".encode()
            yield memoryview(in_line.flatten().view(torch.uint8).numpy().data)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            yield f"{value.dtype}{value.shape}".encode()
            yield value.tobytes()
        elif hasattr(kind, "__fingerprint__"):
            yield from (kind, value.__fingerprint__())
        elif isinstance(value, Set):
            # Texts have other hashes in every process, and so their sets have other orders.
            yield from sorted(self.digest(member) for member in value)
        elif isinstance(value, ModuleType | BuiltinFunctionType) or _is_installed(value):
            yield f"{getattr(value, '__module__', '')} {value.__name__}".encode()
        elif isinstance(value, FunctionType):
            yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
            # An empty cell, of a name that has no value yet, raises when it is asked.
            yield from (
                c.cell_contents for c in value.__closure__ or () if c != CellType()
            )
            yield from self.referred(value)
        elif isinstance(value, CodeType):
            # No line numbers and no file: comments and places may change.
            yield from (value.co_code, value.co_names, value.co_varnames, value.co_consts)
        elif isinstance(value, type):
            yield from (value.__qualname__, value.__bases__)
            for name, member in sorted(vars(value).items()):
                if not name.startswith("__") or isinstance(member, FunctionType):
                    yield from (name, member)
        elif isinstance(value, MethodType | staticmethod | classmethod | property):
            functions = ("__func__", "__self__", "fget", "fset")
            yield from (getattr(value, name, None) for name in functions)
        elif kind in (tuple, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from (kind, *value.items(), getattr(value, "__dict__", None))
        else:
            yield from (kind, *_state(value))

    def referred(self, function: FunctionType) -> Iterator[object]:
        """What a function refers to in its module; data of a user's own become parts of the mark.

        A notebook's list that has grown is then named, where work cannot go on because of it
        """
        module = function.__module__ or ""
        ours = module.partition(".")[0] == PACKAGE
        for name in sorted(
            _global_names(function.__code__) & function.__globals__.keys()
        ):
            value = function.__globals__[name]
            if ours or isinstance(value, FunctionType | type | ModuleType):
                yield from (name, value)
            else:
                self.user_globals[f"global {module}.{name}"] = self.word(value)


def _has_fields(value: object) -> bool:
    """Is it an instance of a dataclass that says nothing else of itself?"""
    if isinstance(value, type | Mapping) or hasattr(type(value), "__fingerprint__"):
        return False
    return dataclasses.is_dataclass(value) and hasattr(value, "__dict__")


def _state(value: object) -> list[object]:
    """What an object would be rebuilt from; what it holds if it cannot be."""
    try:
        recipe = value.__reduce_ex__(2)
    except Exception:  # locks, weak references, somebody's own refusal
        return [getattr(value, "__dict__", None)]
    if isinstance(recipe, str):
        return [recipe]
    return [list(part) if isinstance(part, Iterator) else part for part in recipe]


@functools.cache
def _global_names(code: CodeType) -> frozenset[str]:
    """Names that a function, and the functions inside it, look up in their module."""
    instructions = dis.get_instructions(code)
    looked_up = {step.argval for step in instructions if step.opname == "LOAD_GLOBAL"}
    inner_codes = [
        constant for constant in code.co_consts if isinstance(constant, CodeType)
    ]
    return frozenset(looked_up.union(*map(_global_names, inner_codes)))


def _is_installed(value: object) -> bool:
    """Whether a function or class is the standard library's, or lies where packages are."""
    if not isinstance(value, FunctionType | type):
        return False
    top = (value.__module__ or "").partition(".")[0]
    folders = Path(getattr(sys.modules.get(top), "__file__", None) or "").parts
    in_packages = "site-packages" in folders or "dist-packages" in folders
    # A user's own code runs as __main__ inside an installed program, such as pytest.
    return top in sys.stdlib_module_names or (in_packages and top != "__main__")
