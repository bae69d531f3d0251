"""Files: a file is written completely or not at all; its name or a hash says what it holds.

Below: parse. Above: history, simulate, and everything that is stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import itertools
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType

import joblib
import numpy as np
import torch
from torch import Tensor, nn

from ..parse.checks import home, instance

HOUSE = ("fedlab_mini", "fedlab_bench", "fedlab_flower")  # the book's own code
WRITES = itertools.count()  # each write gets its own file, in threads, too


@contextlib.contextmanager
def whole_file(path: Path, *, voice: str = "") -> Iterator[Path]:
    """A temporary file to write to, which then replaces ``path``: nobody reads half a file.

    raises  OSError that names ``path`` after the prefix ``voice``; the temporary file is removed
    """
    # Same ending as the path, because pandas and NumPy infer the kind of file from it.
    partial_path = path.with_name(f".{os.getpid()}.{next(WRITES)}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial_path
        # Flushed to disk before it replaces the old file, or a power cut might lose both.
        with open(partial_path, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial_path, path)
    except OSError as error:
        raise OSError(f"{voice}cannot write {path} ({error})") from error
    finally:
        with contextlib.suppress(OSError):
            partial_path.unlink(missing_ok=True)


def read_arrays(name: str, path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; ValueError that begins with ``name`` for any other content."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return {part: arrays[part] for part in arrays.files}
        except Exception as error:  # a damaged zip file raises many types of errors
            raise ValueError(
                f"{name}: {path} is damaged or not a file of this kind ({error})"
            ) from error


def described(value: object) -> str:
    """A setting as text, the same in every process: arrays by hash, own code by its source.

    raises  ValueError for a lambda, because it has no name
    """
    if isinstance(value, Tensor | np.ndarray):
        array = np.ascontiguousarray(torch.as_tensor(value).detach().cpu().numpy())
        return f"{array.dtype}{list(array.shape)} {_hash(array.tobytes())}"
    if isinstance(value, FunctionType):
        return _function(value)
    if isinstance(value, MethodType):
        return f"{value.__func__.__qualname__} of {described(value.__self__)}"
    if isinstance(value, partial):
        return f"partial({described((value.func, value.args, value.keywords))})"
    if isinstance(value, type):
        return _class(value)
    if isinstance(value, nn.Module):
        return described(dict(map(_layer, value.named_modules())))
    if hasattr(value, "__wrapped__"):  # by functools.cache, for instance
        return f"{type(value).__name__} of {described(value.__wrapped__)}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k!r}: {described(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, set | frozenset):
        return f"[{', '.join(sorted(map(described, value)))}]"
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return f"{described(type(value))}{described(fields)}"
    if type(value).__repr__ is object.__repr__ and hasattr(value, "__dict__"):
        return f"{described(type(value))}{described(vars(value))}"
    return repr(value)


def _layer(named: tuple[str, nn.Module]) -> tuple[str, str]:
    """A layer's name, and its type, attributes, buffers, hooks and forward as text."""
    name, layer = named
    held = {key: part for key, part in vars(layer).items() if key[0] != "_" and key != "training"}
    hooks = [*layer._forward_hooks.values(), *layer._forward_pre_hooks.values()]
    forward = getattr(type(layer), "forward", None)
    own = [] if type(layer).__module__.startswith("torch.") else [forward]
    return name, described((type(layer), held, layer._buffers, hooks, own))


def _class(kind: type) -> str:
    """A class's name; one that no library holds also has a hash of its methods."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    held = [part for own in kind.__mro__ if _is_own(own) for part in vars(own).values()]
    plain = [getattr(part, "__func__", getattr(part, "fget", part)) for part in held]
    methods = [part for part in plain if isinstance(part, FunctionType)]
    return f"{name} {_hash(_source(*methods).encode())}" if methods else name


def _is_own(code: type | FunctionType) -> bool:
    """Is it a reader's code, and not that of this version of the book or of a library?"""
    module = code.__module__.partition(".")[0]
    file = getattr(sys.modules.get(code.__module__), "__file__", None)
    libraries = tuple(sysconfig.get_paths()[path] for path in ("stdlib", "purelib", "platlib"))
    if module in HOUSE or module in sys.builtin_module_names:
        return False
    return file is None or not file.startswith(libraries)


def _source(*functions: FunctionType) -> str:
    """The source of functions, and of all own functions that they call by name."""
    found = dict.fromkeys(functions)
    waiting = list(functions)
    for function in waiting:
        codes = [function.__code__]
        for code in codes:
            codes += [part for part in code.co_consts if isinstance(part, CodeType)]
            for name in code.co_names:
                called = function.__globals__.get(name)
                if isinstance(called, FunctionType) and called not in found and _is_own(called):
                    found[called] = None
                    waiting.append(called)
    return "\n".join(map(_text, found))


def _text(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # typed at a prompt
        code = function.__code__
        return repr((code.co_code, code.co_consts, code.co_names))


def _function(function: FunctionType) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__name__ == "<lambda>":
        raise ValueError(f"a lambda ({name}) has no name to recognise it by later; write a def")
    # Its closure and its defaults decide what it does, just as its source does.
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    inside = [described(part) for part in contents if part is not function]
    inside += map(described, function.__defaults__ or ())
    inside += map(described, sorted((function.__kwdefaults__ or {}).items()))
    text = _source(function).encode()
    return f"{name} {_hash(text)} {inside if inside else ''}".strip()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class Cache:
    """A folder of finished blocks, one .npz file each; a run that was killed continues from them.

    A block's name is a hash of ``work`` and of the block's arrays. So other work can use the same
    folder, and its blocks are never confused with these.
    raises  TypeError if ``folder`` is no path, ValueError if it is a file
    """

    def __init__(self, folder: str | os.PathLike[str], work: object):
        self.folder = home(instance("cache", folder, str | os.PathLike, "a folder"))  # type: ignore[arg-type]
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"cache: expected a folder, got the file {folder}")
        try:
            self.work = described(work)
        except ValueError as error:
            raise ValueError(f"cache: {error}") from None

    def path(self, *arrays: Tensor) -> Path:
        """The file of the block that these arrays identify."""
        # NumPy arrays, because a tensor's hash differs from process to process.
        key = joblib.hash([self.work, *(array.numpy() for array in arrays)])
        return self.folder / f"{key}.npz"

    def load(self, *arrays: Tensor) -> dict[str, np.ndarray] | None:
        """The results saved for these arrays; None if there are none."""
        path = self.path(*arrays)
        return read_arrays("cache", path) if path.exists() else None

    def save(self, found: Mapping[str, np.ndarray], *arrays: Tensor) -> None:
        """Save the results for these arrays; OSError that names the file if this fails."""
        with whole_file(self.path(*arrays), voice="cache: ") as part, open(part, "wb") as file:
            np.savez(file, **found)  # type: ignore[arg-type]
