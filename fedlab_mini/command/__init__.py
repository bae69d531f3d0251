"""Command: what the command lines share: the terminal, imports by name, and files."""

from __future__ import annotations

import contextlib
import errno
import glob
import importlib
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..keep.files import whole_file
from ..worlds.data import DataUnavailable

if TYPE_CHECKING:
    import pandas

PICTURES = (".svg", ".png", ".pdf")  # file endings of figures
# Errors of writing to a pipe whose reader has ended; Windows has one more number for it.
UNREAD = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Context of a command line: characters that the console lacks are written as \\uXXXX.

    If a pipe has no reader any more, exit silently with 141; after Ctrl-C, with 130 and a message
    """
    # A notebook's stream has all characters and cannot be configured.
    stream = sys.stdout if isinstance(sys.stdout, io.TextIOWrapper) else None
    if stream:
        stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            # Flushed now, because errors at the end of Python could not be caught.
            print(end="", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(128 + 2)
    except OSError as error:
        if stream is None or error.errno not in (*UNREAD, errno.ENOSPC):
            raise
        # Discard what is left in the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        unread = error.errno in UNREAD
        sys.exit(128 + 13 if unread else f"cannot print: {error.strerror}")


def own_method(option: str, text: str) -> tuple[str, Any]:
    """The name and the method of ``package.module:NAME``; if it is a class, it is called.

    raises  ValueError naming the option, also if the module itself fails
    """
    module_name, _, name = text.partition(":")
    # The working folder comes first, so that the user's module is found before an installed one.
    sys.path.insert(0, os.getcwd())
    try:
        method = getattr(importlib.import_module(module_name), name)
        return name, method() if isinstance(method, type) else method
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{option}: expected module:NAME, got {text} ({reason})") from error


def explained(error: Exception) -> str:
    """The message of an error that the user can correct; any other error is raised again."""
    known = isinstance(error, OSError | ValueError | TypeError | DataUnavailable)
    if known and getattr(error, "errno", None) not in UNREAD:
        return str(error)
    raise error


def matched(option: str, paths: Iterable[Path]) -> Iterator[Path]:
    """The paths, with a pattern such as ``mine_*.csv`` replaced by all files that match it.

    raises  ValueError naming the option if no file matches
    """
    for path in paths:
        if path.exists() or not set("*?[") & set(str(path)):
            yield path
            continue
        # An existing folder may have brackets in its name.
        known = path.parent.is_dir()
        folder, pattern = (path.parent, path.name) if known else (Path(), str(path))
        names = sorted(glob.glob(pattern, root_dir=folder))
        if not names:
            raise ValueError(f"{option}: expected files, got {path}, which matches none")
        yield from (folder / name for name in names)


def module_files(texts: Iterable[str]) -> Iterator[Path]:
    """The files in the working folder that ``module:NAME`` would read."""
    for text in texts:
        module_name, is_object, _ = text.partition(":")
        if is_object:
            module_path = Path(*module_name.split("."))
            yield from (module_path.with_suffix(".py"), module_path / "__init__.py")


def writable(
    outputs: Mapping[str, Path | None],
    read: Iterable[str | os.PathLike[str]],
    endings: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Refuse output files that cannot be written or are also inputs, before the computation.

    outputs  {option: file}; endings  {option: accepted file endings}
    """
    taken = list(read)
    for option, path in [(option, path) for option, path in outputs.items() if path]:
        allowed = (endings or {}).get(option, ())
        if allowed and path.suffix.lower() not in allowed:
            raise ValueError(f"{option}: expected a file {', '.join(allowed)}, got {path}")
        # A missing folder is refused, because `whole_file` would make one even for a typing error.
        # A device such as /dev/null is refused, because a file would replace it.
        special = path.exists() and not path.is_file()
        place = path.absolute().parent
        if special or not (place.is_dir() and os.access(place, os.W_OK)):
            raise ValueError(f"{option}: expected a plain file in an existing folder, got {path}")
        if any(_same_file(path, other) for other in taken):
            raise ValueError(f"{option}: expected a file of its own, got {path}, in another use")
        taken.append(path)


def _same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        # Not by name, because links, dots and capital letters give a file several names.
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def folder(option: str, path: Path | None) -> None:
    """Refuse a folder that cannot be made or written into, before the computation."""
    if path is not None:
        there = next(part for part in (path, *path.absolute().parents) if part.exists())
        if not (there.is_dir() and os.access(there, os.W_OK)):
            raise ValueError(f"{option}: expected a folder to write into, got {path}")


def write_csv(path: str | Path, frame: pandas.DataFrame, **options: Any) -> None:
    """Write a table as CSV, completely or not at all; a link is kept, and its target is written."""
    with whole_file(Path(path).resolve()) as partial_path:
        # A name may contain characters that UTF-8 cannot encode.
        frame.to_csv(partial_path, errors="backslashreplace", **options)


def tell(text: object, *written: Path | None) -> None:
    """Print a result and its files; call it after the files are written, as printing may fail."""
    print(text)
    for path in written:
        if path:
            print(f"written: {path}")
