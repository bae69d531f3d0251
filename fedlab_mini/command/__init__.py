"""Command: what the command lines share: an object of the user's by its name, files to write."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checks import unread
from ..engine.files import whole_file
from ..judge.own import HOUSE
from ..worlds.data import DataUnavailable

if TYPE_CHECKING:
    import pandas

# What is raised there is ours, and not a reader's.
OURS = tuple(str(Path(__file__).parents[2] / name) + os.sep for name in HOUSE)
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
PICTURES = (".svg", ".png", ".pdf")  # endings of figures
# What a spreadsheet takes for the start of one.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def imported(option: str, text: str) -> Any:
    """The object that ``package.module:NAME`` names; modules of the working folder are found.

    raises  ValueError naming the option, also where the module itself fails
    """
    module_name, _, object_name = text.partition(":")
    # First, so that a reader's module is found before an installed one of the same name.
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module_name), object_name)
    except Exception as error:  # whatever the user's own lines raise
        reason = f"{type(error).__name__}: {error}{_place(error)}"
        raise ValueError(
            f"{option}: expected module:NAME, got {text} ({reason})"
        ) from error


def own_method(option: str, text: str) -> tuple[str, Any]:
    """A method of the user's and its name, ``module:NAME``: an object, or a class to call."""
    imported_object = imported(option, text)
    method = imported_object() if isinstance(imported_object, type) else imported_object
    return text.partition(":")[2], method


def explained(error: Exception) -> str:
    """One line for an error of a user's, by what was asked or by their code; ours are raised."""
    # Asked first: a ValueError of their code would pass for a refusal of ours.
    if error_place := _place(error):
        return f"{type(error).__name__}: {error}{error_place}"
    if isinstance(error, OSError | ValueError | TypeError | DataUnavailable):
        return str(error)
    raise error


def _place(error: Exception) -> str:
    """The last line of a user's own code that an error has passed, if it passed any."""
    stack_frames = traceback.extract_tb(error.__traceback__)
    # "<" begins what is no file, such as <string> and <frozen importlib._bootstrap>.
    not_theirs = (*OURS, *INSTALLED, "<")
    their_frames = [
        frame for frame in stack_frames if not frame.filename.startswith(not_theirs)
    ]
    if not their_frames:
        return ""
    return f"; {their_frames[-1].filename}, line {their_frames[-1].lineno}"


def module_files(texts: Iterable[str]) -> Iterator[Path]:
    """The files of the working folder that ``module:NAME`` would read."""
    for text in texts:
        module_name, is_object, _ = text.partition(":")
        if is_object:
            module_path = Path(*module_name.split("."))
            yield from (module_path.with_suffix(".py"), module_path / "__init__.py")


def writable(
    outputs: Mapping[str, Path | None],
    read: Iterable[str | os.PathLike],
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
        # A missing folder is refused: `whole_file` would make one even for a typing error.
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(
                f"{option}: expected a file in a folder that is there, got {path}"
            )
        if path.is_file() or not path.exists():  # a pipe takes more than one table
            unread(option, path, taken)
            taken.append(path)


def write_csv(path: str | Path, frame: pandas.DataFrame, **options: Any) -> None:
    """A table as CSV; words that a spreadsheet would run as a formula begin with an apostrophe."""
    quoted_frame = frame.rename(columns=_quoted, index=_quoted)
    # Numbers may begin with a minus sign: no spreadsheet takes them for a formula.
    for column in quoted_frame.select_dtypes(exclude="number"):
        quoted_frame[column] = quoted_frame[column].map(_quoted)
    # a pipe: nothing to take the place of
    if Path(path).exists() and not Path(path).is_file():
        quoted_frame.to_csv(path, **options)
    else:
        # Resolved: a link stays a link, and the file that it leads to is replaced.
        with whole_file(Path(path).resolve()) as partial_path:
            quoted_frame.to_csv(partial_path, **options)
    print(f"written: {path}")


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
