"""Checkpoints: half-finished work on disk, written atomically and never pickled.

A checkpoint is an ``.npz`` of plain arrays and a mark: what decides the result, part by part, so
that other work is refused with the parts that differ. Used by everything that takes long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import glob
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from ..checks import shown

Mark = Mapping[str, str]  # part of the work -> its value if that is short, else a hash
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
PLAIN += (torch.dtype, torch.device, torch.Size)
HASH = 32  # digits of a part's hash; what is shorter is the part itself
WRITES = itertools.count()  # two threads of a process never write to the same file


def fingerprint(*parts: object) -> str:
    """SHA-256 over all that decides a result: the parts, and the version of this package.

    Arrays count by all their bytes; functions by their code, defaults and what they refer to;
    objects by the code of their class and by what they hold, or by what their ``__fingerprint__``
    gives. Standard library, torch and all that is installed count by name. No address enters: the
    same in every process, under one version of Python.
    """
    return hashlib.sha256(json.dumps(mark("", parts=parts), sort_keys=True).encode()).hexdigest()


def mark(work: str, known: Mark | None = None, /, **parts: object) -> Mark:
    """What tells a piece of work from others: its parts by name, dataclasses field by field.

    work   what is done; known: a mark that this one extends
    What functions from outside the package refer to in their module is a part, too: "global NAME"
    """
    from .. import __version__

    reader, words = _Reader(), {**(known or {}), "work": work, "version": __version__}
    for name, value in parts.items():
        simple = isinstance(value, type | Mapping) or hasattr(type(value), "__fingerprint__")
        if dataclasses.is_dataclass(value) and not simple and hasattr(value, "__dict__"):
            words[name] = reader.word(type(value))
            words |= {f"{name}.{field}": reader.word(x) for field, x in vars(value).items()}
        else:
            words[name] = reader.word(value)
    return words | reader.globals


class Memo(dict):
    """What was computed and may be computed again: no part of a fingerprint or of a copy."""

    def __fingerprint__(self) -> None:
        return None

    def __reduce__(self) -> tuple[type, tuple]:
        return Memo, ()


class _Reader:
    """Digests of objects, each read once; what refers to itself is read up to there."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[object, bytes]] = {}
        self.globals: dict[str, str] = {}

    def word(self, value: object) -> str:
        """A short value itself, and the digest of others."""
        short = isinstance(value, PLAIN) and len(repr(value)) < HASH
        return repr(value) if short else self.digest(value).hex()[:HASH]

    def digest(self, value: object) -> bytes:
        if id(value) not in self.known:
            self.known[id(value)] = value, b"inside itself"
            digest = hashlib.sha256()
            for part in self.parts(value):
                content = part if isinstance(part, bytes | memoryview) else self.digest(part)
                digest.update(len(content).to_bytes(8, "little"))
                digest.update(content)
            self.known[id(value)] = value, digest.digest()  # held, so that its id stays its own
        return self.known[id(value)][1]

    def parts(self, value: Any) -> Iterator[object]:
        """What an object consists of: bytes, or objects to read in turn."""
        yield type(value).__qualname__.encode()
        if isinstance(value, PLAIN):
            yield repr(value).encode()
        elif isinstance(value, torch.Tensor):
            yield f"{value.dtype}{tuple(value.shape)}".encode()
            # A view may skip bytes and a conjugate defers them: only a fresh copy has them in line.
            copied = torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())
            yield memoryview(copied.flatten().view(torch.uint8).numpy().data)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            yield f"{value.dtype}{value.shape}".encode()
            yield value.tobytes()
        elif hasattr(type(value), "__fingerprint__"):
            yield from (type(value), value.__fingerprint__())
        elif isinstance(value, Set):
            yield from sorted(self.digest(part) for part in value)
        elif isinstance(value, ModuleType | BuiltinFunctionType) or _installed(value):
            yield f"{getattr(value, '__module__', '')} {value.__name__}".encode()
        elif isinstance(value, FunctionType):
            cells = [cell for cell in value.__closure__ or () if cell != CellType()]  # not empty
            yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
            yield from (cell.cell_contents for cell in cells)
            yield from self.referred(value)
        elif isinstance(value, CodeType):
            yield from (value.co_code, value.co_names, value.co_varnames, value.co_consts)
        elif isinstance(value, type):
            yield from (value.__qualname__, value.__bases__)
            for name, member in sorted(vars(value).items()):
                if not name.startswith("__") or isinstance(member, FunctionType):
                    yield from (name, member)
        elif isinstance(value, MethodType | staticmethod | classmethod | property):
            inside = ("__func__", "__self__", "fget", "fset")
            yield from (getattr(value, name, None) for name in inside)
        elif type(value) in (tuple, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from (type(value), *value.items(), getattr(value, "__dict__", None))
        else:
            yield from (type(value), *_state(value))

    def referred(self, function: FunctionType) -> Iterator[object]:
        """What a function refers to in its module; data of a user's own become parts of the mark.

        A notebook's list that has grown is then named, where work cannot go on because of it
        """
        package, code = __name__.partition(".")[0], (FunctionType, type, ModuleType)
        for name in sorted(_globals(function.__code__) & function.__globals__.keys()):
            value, module = function.__globals__[name], function.__module__ or ""
            if isinstance(value, code) or module.partition(".")[0] == package:
                yield from (name, value)
            else:
                self.globals[f"global {module}.{name}"] = self.word(value)


def _state(value: object) -> list[object]:
    """What an object would be rebuilt from; what it holds if it cannot be."""
    try:
        rebuilt = value.__reduce_ex__(2)
    except Exception:  # locks, weak references, somebody's own refusal
        return [getattr(value, "__dict__", None)]
    if isinstance(rebuilt, str):
        return [rebuilt]
    return [list(part) if isinstance(part, Iterator) else part for part in rebuilt]


@functools.cache
def _globals(code: CodeType) -> frozenset[str]:
    """Names that a function, and the functions inside it, look up in their module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = [_globals(part) for part in code.co_consts if isinstance(part, CodeType)]
    return frozenset(names.union(*inner))


def _installed(value: object) -> bool:
    """Whether a function or class is the standard library's, or lies where packages are."""
    if not isinstance(value, FunctionType | type):
        return False
    top = (value.__module__ or "").partition(".")[0]
    folders = Path(getattr(sys.modules.get(top), "__file__", None) or "").parts
    packaged = {"site-packages", "dist-packages"} & {*folders}
    # A user's own code is run by an installed program, such as pytest, under the name of __main__.
    return top in sys.stdlib_module_names or (bool(packaged) and top != "__main__")


def save(path: str | os.PathLike, mark: Mark | str, **arrays: np.ndarray) -> None:
    """Write the arrays and their mark to ``path``: whole or not at all.

    raises  ValueError if the file there belongs to other work or is no checkpoint; OSError naming
            the checkpoint if it cannot be written
    """
    path = _target(path)
    if path.exists():
        _read(path, mark, whole=False)
    _write(path, mark, arrays)


def load(path: str | os.PathLike, mark: Mark | str) -> dict[str, np.ndarray] | None:
    """The arrays saved under the same mark; None if there is no file yet.

    raises  ValueError if the file belongs to other work, naming the parts that differ (another
            seed, data set, model ...), or is not a checkpoint
    """
    path = _target(path)
    return _read(path, mark) if path.exists() else None


def begin(path: str | os.PathLike, mark: Mark | str) -> dict[str, np.ndarray] | None:
    """``load``, for work that is going to ``save``: an OSError now if it could not.

    What killed runs left beside the file is removed.
    """
    path = _target(path)
    arrays = load(path, mark)
    for left in path.parent.glob(f".*.*.{glob.escape(path.name)}"):
        # Where there is no /proc, nobody knows whether its process still writes: it stays.
        if Path("/proc/self").exists() and not Path("/proc", left.name.split(".")[1]).exists():
            left.unlink(missing_ok=True)
    _write(path, mark, {}, keep=False)
    return arrays


@contextlib.contextmanager
def whole_file(path: Path, *, keep: bool = True, who: str = "") -> Iterator[Path]:
    """A file beside ``path`` to write to, which then takes its place: nobody reads half of it.

    keep    False: it does not, and only shows whether it could be written
    raises  OSError naming ``path``, in the voice of ``who``; what was half written is gone then
    """
    part = path.with_name(f".{os.getpid()}.{next(WRITES)}.{path.name}")  # its suffix says its kind
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        if keep:
            os.replace(part, path)
    except OSError as error:
        raise OSError(f"{who}cannot write {path} ({error})") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _write(path: Path, mark: Mark | str, arrays: dict[str, Any], keep: bool = True) -> None:
    label = np.array([json.dumps(_words(mark)), *arrays])
    with whole_file(path, keep=keep, who="checkpoint: ") as part, open(part, "wb") as file:
        np.savez(file, fingerprint=label, **arrays)


def _words(mark: Mark | str) -> Mark:
    return {"work": mark} if isinstance(mark, str) else mark


def _target(path: str | os.PathLike) -> Path:
    """The file that ``path`` stands for, links followed; refuses folders, pipes and the like."""
    try:
        target = Path(os.path.realpath(path))
    except (TypeError, ValueError):
        raise TypeError(f"checkpoint: expected the path of a file, got {shown(path)}") from None
    if target.exists() and not target.is_file():
        raise ValueError(f"checkpoint: expected the path of a file, got {shown(path)}")
    return target


def _read(path: Path, mark: Mark | str, *, whole: bool = True) -> dict[str, np.ndarray]:
    advice, expected = "give another path or delete the file", _words(mark)
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            label, *names = file["fingerprint"].tolist()
            found = {name: str(word) for name, word in dict(json.loads(label)).items()}
            arrays = {name: file[name] for name in names if whole and found == expected}
    except Exception as error:  # a damaged zip raises a dozen kinds
        raise ValueError(
            f"checkpoint: {path} is not a checkpoint, or one of an older version "
            f"({type(error).__name__}: {error}); {advice}"
        ) from error
    changes = []
    for name in {**found, **expected}:
        old, new = found.get(name, "none"), expected.get(name, "none")
        if old != new:
            changes.append(name if HASH in (len(old), len(new)) else f"{name} ({old}, now {new})")
    if changes:
        changed = ", ".join(changes[:1] if changes[0].startswith("work") else changes)
        raise ValueError(f"checkpoint: {path} belongs to other work: {changed}; {advice}")
    return arrays
