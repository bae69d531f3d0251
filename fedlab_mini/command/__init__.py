"""Command: what command lines share: a terminal, an object of the user's by its name, files."""

from __future__ import annotations

import contextlib
import errno
import glob
import importlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checks import unread
from ..engine.files import whole_file
from ..worlds.data import DataUnavailable

if TYPE_CHECKING:
    import pandas

PICTURES = (".svg", ".png", ".pdf")  # endings of figures
# What writing to a pipe fails with when its reader has left; Windows has another number for it.
UNREAD = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Around a command line: a letter that the console lacks is written as \\uXXXX.

    A reader who has left the pipe ends it with status 141 and no word, Ctrl-C with 130 and one
    """
    # A notebook's stream has every letter, and no way to be set.
    stream = sys.stdout if isinstance(sys.stdout, io.TextIOWrapper) else None
    if stream:
        stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            # Now, and not when Python ends, where nothing could be caught any more.
            print(end="", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(128 + 2)
    except OSError as error:
        if stream is None or error.errno not in (*UNREAD, errno.ENOSPC):
            raise
        # What is left in the stream goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        unread = error.errno in UNREAD
        sys.exit(128 + 13 if unread else f"cannot print: {error.strerror}")


def imported(option: str, text: str) -> Any:
    """The object that ``package.module:NAME`` names; modules of the working folder are found.

    raises  ValueError naming the option, also where the module itself fails
    """
    module_name, _, object_name = text.partition(":")
    # First, so that a reader's module is found before an installed one of the same name.
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module_name), object_name)
    except (Exception, SystemExit) as error:  # whatever the user's own lines raise
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{option}: expected module:NAME, got {text} ({reason})"
        ) from error


def own_method(option: str, text: str) -> tuple[str, Any]:
    """A method of the user's and its name, ``module:NAME``: an object, or a class to call."""
    imported_object = imported(option, text)
    method = imported_object() if isinstance(imported_object, type) else imported_object
    return text.partition(":")[2], method


def explained(error: Exception) -> str:
    """One line for what was asked wrongly; any other error is raised with its traceback."""
    known = isinstance(error, OSError | ValueError | TypeError | DataUnavailable)
    if known and getattr(error, "errno", None) not in UNREAD:
        return str(error)
    raise error


def matched(option: str, paths: Iterable[Path]) -> Iterator[Path]:
    """The files that are meant: of ``round_*.npz``, which some shells leave to us, all that match.

    raises  ValueError naming the option where none does
    """
    for path in paths:
        if path.exists() or not set("*?[") & set(str(path)):
            yield path
            continue
        # A folder that is there may have brackets in its name.
        known = path.parent.is_dir()
        folder, pattern = (path.parent, path.name) if known else (Path(), str(path))
        names = sorted(glob.glob(pattern, root_dir=folder))
        if not names:
            raise ValueError(f"{option}: expected files, got {path}, which none matches")
        yield from (folder / name for name in names)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Files as given; those that a shell has listed by letters, round_2 before round_10."""
    given = list(paths)
    if [*map(str, given)] != sorted(map(str, given)):
        return given
    parts = {path: re.split(r"(\d+)", str(path)) for path in given}
    # Every second part is a number.
    key = {
        path: [*zip(p[::2], map(int, [*p[1::2], 0]), strict=True)]
        for path, p in parts.items()
    }
    return sorted(given, key=lambda path: key[path])


def module_files(texts: Iterable[str]) -> Iterator[Path]:
    """The files of the working folder that ``module:NAME`` would read."""
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
    """Refuse files that could not be written, or are read, before anything is computed.

    outputs  {option: file}; endings  {option: what its file may end in}
    """
    taken = list(read)
    for option, path in outputs.items():
        if path is None:
            continue
        allowed = (endings or {}).get(option, ())
        if allowed and path.suffix.lower() not in allowed:
            raise ValueError(
                f"{option}: expected a file {', '.join(allowed)}, got {path}"
            )
        # A missing folder is refused: `whole_file` would make one even for a typing error. So is
        # a device, such as /dev/null, whose place a file would take.
        special = path.exists() and not path.is_file()
        if special or not path.absolute().parent.is_dir():
            raise ValueError(
                f"{option}: expected a plain file in a folder that is there, got {path}"
            )
        unread(option, path, taken)
        taken.append(path)


def write_csv(path: str | Path, frame: pandas.DataFrame, **options: Any) -> None:
    """A table as CSV, whole or not at all; a link stays a link to the file that it leads to."""
    with whole_file(Path(path).resolve()) as partial_path:
        # A name may hold what no text in UTF-8 can.
        frame.to_csv(partial_path, errors="backslashreplace", **options)


def tell(text: object, *written: Path | None) -> None:
    """Print what came out, and which files hold it: after these, as a console may fail."""
    print(text)
    for path in written:
        if path:
            print(f"written: {path}")
