"""Checkpoints: half-finished work on disk, written atomically and never pickled.

A checkpoint is an ``.npz`` of plain arrays and the mark of the work that they belong to, so that
other work is refused with the parts that differ. Below: marks. Above: everything that takes long.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..checks import home, shown
from .marks import HASH_LENGTH, Mark, Memo, fingerprint, mark

__all__ = ["Mark", "Memo", "begin", "fingerprint", "load", "mark", "save", "whole_file"]
WRITES = itertools.count()  # two threads of a process never write to the same file
PROCESSES = Path("/proc")
ADVICE = "give another path or delete the file"


def save(path: str | os.PathLike, mark: Mark | str, **arrays: np.ndarray) -> None:
    """Write the arrays and their mark to ``path``: whole or not at all.

    raises  ValueError if the file there belongs to other work or is no checkpoint; OSError naming
            the checkpoint if it cannot be written
    """
    path = _target(path)
    if path.exists():
        # Refuses to overwrite other work; the mark alone says whose it is.
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
    # As `whole_file` calls them; what a user has called alike stays.
    ours = re.compile(rf"\.(\d+)\.\d+\.{re.escape(path.name)}")
    leftovers = (ours.fullmatch(hidden.name) for hidden in path.parent.glob(".*.*"))
    for leftover in filter(None, leftovers):
        # Without a list of processes nobody knows whether one still writes: the file stays.
        if (PROCESSES / "self").exists() and not (PROCESSES / leftover[1]).exists():
            (path.parent / leftover[0]).unlink(missing_ok=True)
    _write(path, mark, {}, keep=False)
    return arrays


@contextlib.contextmanager
def whole_file(path: Path, *, keep: bool = True, voice: str = "") -> Iterator[Path]:
    """A file beside ``path`` to write to, which then takes its place: nobody reads half of it.

    keep    False: it does not, and only shows whether it could be written
    raises  OSError naming ``path``, begun with ``voice``; what was half written is gone then
    """
    # The name ends as the path does, since pandas and NumPy read the kind of file from it.
    partial = path.with_name(f".{os.getpid()}.{next(WRITES)}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        # On the disk before it takes the other's place: else a power cut might leave neither.
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        if keep:
            os.replace(partial, path)
    except OSError as error:
        raise OSError(f"{voice}cannot write {path} ({error})") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _target(path: str | os.PathLike) -> Path:
    """The file that ``path`` stands for, links followed; refuses folders, pipes and the like."""
    try:
        # The file behind a link: a file renamed to ``path`` would replace the link itself.
        target = Path(os.path.realpath(home(path)))
    except (TypeError, ValueError):
        raise TypeError(
            f"checkpoint: expected the path of a file, got {shown(path)}"
        ) from None
    if target.exists() and not target.is_file():
        raise ValueError(f"checkpoint: expected the path of a file, got {shown(path)}")
    return target


def _words(mark: Mark | str) -> Mark:
    return {"work": mark} if isinstance(mark, str) else mark


def _write(
    path: Path, mark: Mark | str, arrays: dict[str, np.ndarray], *, keep: bool = True
) -> None:
    # Names beside the mark tell what was there, so that a file that lost an array is no checkpoint.
    label = np.array([json.dumps(_words(mark)), *arrays])
    with (
        whole_file(path, keep=keep, voice="checkpoint: ") as partial,
        open(partial, "wb") as file,
    ):
        np.savez(file, fingerprint=label, **arrays)  # type: ignore[arg-type]


def _read(path: Path, mark: Mark | str, *, whole: bool = True) -> dict[str, np.ndarray]:
    expected = _words(mark)
    try:
        # A pickle could run code as it is read; plain arrays cannot.
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            text, *names = file["fingerprint"].tolist()
            stored = {name: str(word) for name, word in dict(json.loads(text)).items()}
            arrays = {name: file[name] for name in names if whole and stored == expected}
    except Exception as error:  # a damaged zip raises a dozen kinds
        raise ValueError(
            f"checkpoint: {path} is not a checkpoint, or one of an older version "
            f"({type(error).__name__}: {error}); {ADVICE}"
        ) from error
    if stored != expected:
        differing = ", ".join(_differing(stored, expected))
        raise ValueError(
            f"checkpoint: {path} belongs to other work: {differing}; {ADVICE}"
        )
    return arrays


def _differing(stored: Mark, expected: Mark) -> Iterator[str]:
    """The parts in which two marks differ, with the values that are short."""
    for name in {**stored, **expected}:
        before, now = stored.get(name, "none"), expected.get(name, "none")
        if before != now:
            hashed = HASH_LENGTH in (len(before), len(now))
            yield name if hashed else f"{name} ({before}, now {now})"
            if name == "work":
                return  # other work has other parts
