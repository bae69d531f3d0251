"""Checkpoints: half-finished work on disk, written atomically and never pickled.

A checkpoint is an ``.npz`` of plain arrays and a fingerprint that says which work it belongs to.
Used by ``rounds``, ``simulation`` and ``game``.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import glob
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from ..checks import shown

PLAIN = (bool, int, float, complex, str, bytes, np.generic, torch.dtype, torch.device, torch.Size)


def fingerprint(*parts: object) -> str:
    """SHA-256 over all that decides a result: the parts, and the version of this package.

    Arrays count by all their bytes; functions by their code, defaults and what they refer to;
    objects by the code of their class and by what they hold, or by what their ``__fingerprint__``
    gives. Standard library, torch and all that is installed count by name. No address enters: the
    same in every process, under one version of Python.
    """
    from .. import __version__

    return _Reader().digest((__version__, parts)).hex()


class _Reader:
    """Digests of objects, each read once; what refers to itself is read up to there."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[object, bytes]] = {}

    def digest(self, value: object) -> bytes:
        if id(value) not in self.known:
            self.known[id(value)] = value, b"inside itself"
            digest = hashlib.sha256()
            for part in self.parts(value):
                part = part if isinstance(part, bytes | memoryview) else self.digest(part)
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
            self.known[id(value)] = value, digest.digest()  # held, so that its id stays its own
        return self.known[id(value)][1]

    def parts(self, value: object) -> Iterator[object]:
        """What an object consists of: bytes, or objects to read in turn."""
        yield type(value).__qualname__.encode()
        if value is None or value is ... or isinstance(value, PLAIN):
            yield repr(value).encode()
        elif isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            yield f"{value.dtype}{tuple(value.shape)}".encode()
            yield memoryview(value.contiguous().flatten().view(torch.uint8).numpy().data)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            yield f"{value.dtype}{value.shape}".encode()
            yield value.tobytes()
        elif isinstance(value, Set):
            yield from sorted(self.digest(part) for part in value)
        elif isinstance(value, ModuleType | BuiltinFunctionType):
            yield value.__name__.encode()
        elif isinstance(value, FunctionType | type) and _installed(value.__module__):
            yield f"{value.__module__}.{value.__qualname__}".encode()
        elif isinstance(value, FunctionType):
            yield from (value.__code__, value.__defaults__, value.__kwdefaults__, value.__closure__)
            names = sorted(_globals(value.__code__) & value.__globals__.keys())
            yield from ((name, value.__globals__[name]) for name in names)
        elif isinstance(value, CodeType):
            yield from (value.co_code, value.co_names, value.co_varnames, value.co_consts)
        elif isinstance(value, CellType):
            yield from [value.cell_contents] if value != CellType() else []
        elif isinstance(value, type):
            yield from (value.__qualname__, value.__bases__)
            for name, member in sorted(vars(value).items()):
                if not name.startswith("__") or isinstance(member, FunctionType):
                    yield from (name, member)
        elif isinstance(value, MethodType | staticmethod | classmethod):
            yield from (value.__func__, getattr(value, "__self__", None))
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif hasattr(type(value), "__fingerprint__"):
            yield from (type(value), getattr(type(value), "__fingerprint__")(value))  # noqa: B009
        elif isinstance(value, tuple | list) and type(value) in (tuple, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from (type(value), *value.items(), getattr(value, "__dict__", None))
        else:
            yield type(value)
            yield from _state(value)


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
    found = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = [_globals(part) for part in code.co_consts if isinstance(part, CodeType)]
    return frozenset(found.union(*inner))


@functools.cache
def _installed(module: str | None) -> bool:
    """Whether a module is the standard library's, or lies where packages are installed."""
    top = (module or "").partition(".")[0]
    file = Path(getattr(sys.modules.get(top), "__file__", None) or "")
    return top in sys.stdlib_module_names or not {"site-packages", "dist-packages"}.isdisjoint(
        file.parts
    )


def save(path: str | os.PathLike, mark: str, **arrays: np.ndarray) -> None:
    """Write the arrays and their mark to ``path``: whole or not at all.

    raises  ValueError if the file there belongs to other work or is no checkpoint; OSError naming
            the checkpoint if it cannot be written
    """
    path = _target(path)
    if path.exists():
        _read(path, mark, whole=False)
    _write(path, path, {"fingerprint": np.array([mark, *arrays]), **arrays})


def load(path: str | os.PathLike, mark: str) -> dict[str, np.ndarray] | None:
    """The arrays saved under the same mark; None if there is no file yet.

    raises  ValueError if the file belongs to other work (another seed, data set, model ...),
            or is not a checkpoint
    """
    path = _target(path)
    return _read(path, mark) if path.exists() else None


def begin(path: str | os.PathLike, mark: str) -> dict[str, np.ndarray] | None:
    """``load``, for work that is going to ``save``: an OSError now if it could not.

    What killed runs left beside the file is removed.
    """
    path = _target(path)
    found = load(path, mark)
    for left in glob.glob(f"{glob.escape(str(path))}.*.part"):
        if not _alive(left.split(".")[-3]):
            Path(left).unlink(missing_ok=True)
    _write(path, None, {"fingerprint": np.array(mark)})
    return found


def _target(path: str | os.PathLike) -> Path:
    """The file that ``path`` stands for, links followed; refuses folders, pipes and the like."""
    try:
        target = Path(os.path.realpath(path))
    except (TypeError, ValueError):
        raise TypeError(f"checkpoint: expected the path of a file, got {shown(path)}") from None
    if target.exists() and not target.is_file():
        raise ValueError(f"checkpoint: expected the path of a file, got {shown(path)}")
    return target


def _read(path: Path, mark: str, *, whole: bool = True) -> dict[str, np.ndarray]:
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            found, *names = file["fingerprint"].tolist()
            arrays = {name: file[name] for name in names if whole and found == mark}
    except Exception as error:  # a damaged zip raises a dozen kinds
        raise ValueError(
            f"checkpoint: {path} is not a checkpoint ({type(error).__name__}: {error}); "
            "give another path or delete the file"
        ) from error
    if found != mark:
        raise ValueError(
            f"checkpoint: {path} belongs to other work (fingerprint {found[:12]}, "
            f"expected {mark[:12]}); give another path or delete the file"
        )
    return arrays


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write to, which then takes its place: nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    yield part
    with open(part, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _write(path: Path, to: Path | None, arrays: dict[str, Any]) -> None:
    """Write beside ``path``, then move ``to`` there; None: only see whether it can be written."""
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f"{path.name}.{os.getpid()}."
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        if to is not None:
            os.replace(name, to)
            name = None
    except OSError as error:
        raise OSError(f"checkpoint: cannot write {path} ({error})") from error
    finally:
        if name is not None:
            Path(name).unlink(missing_ok=True)


def _alive(pid: str) -> bool:
    """Whether a process of this number runs; where that cannot be asked, it is taken to."""
    if os.name != "posix" or not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
