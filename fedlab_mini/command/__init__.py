"""Command: what the command lines share: an object of the user's by its name, files to write."""

from __future__ import annotations

import importlib
import os
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
    if isinstance(error, OSError | ValueError | TypeError | DataUnavailable):
        return str(error)
    raise error


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
        # A missing folder is refused: `whole_file` would make one even for a typing error.
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(
                f"{option}: expected a file in a folder that is there, got {path}"
            )
        unread(option, path, taken)
        taken.append(path)


def write_csv(path: str | Path, frame: pandas.DataFrame, **options: Any) -> None:
    """A table as CSV, whole or not at all; a link stays a link to the file that it leads to."""
    with whole_file(Path(path).resolve()) as partial_path:
        frame.to_csv(partial_path, **options)
    print(f"written: {path}")
