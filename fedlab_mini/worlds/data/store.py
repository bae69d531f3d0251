"""Store: where files of data sets are looked for, and the check that they are the right ones.

Reading only. Nothing is downloaded or written here; `fetch` does that, when asked.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

import pooch

from ...checks import home
from .registry import Card, File

EMBEDDED = Path(__file__).resolve().parent / "files"  # what comes with the package


class DataUnavailable(RuntimeError):
    """A file of a data set is missing or is not the right one; the message names the ways out."""


def roots() -> list[Path]:
    """The folders that are searched, in this order.

    The package's own; every folder in the environment variable FEDLAB_DATA; the user's cache
    folder, which `fetch` fills.
    """
    entries = os.environ.get("FEDLAB_DATA", "").split(os.pathsep)
    from_environment = [home(entry) for entry in entries if entry]
    folders = [EMBEDDED, *from_environment, cache()]
    return list(dict.fromkeys(folders))  # each once, at its first place


def cache() -> Path:
    """The user's cache folder for data of this package."""
    return Path(pooch.os_cache("fedlab_mini"))


def locate(file: File) -> Path | None:
    """The first place on the search path that has this file, unchecked; None if no place has it."""
    places = (root / file.path for root in roots())
    return next((place for place in places if os.path.isfile(place)), None)


def verified(card: Card, file: File) -> Path:
    """The path of a file whose SHA-256 has been checked; `DataUnavailable` otherwise."""
    path = locate(file)
    if path is None:
        searched = "\n".join(f"  {root}" for root in roots())
        raise DataUnavailable(
            f"{card.name}: {file.path} not found.\n  expected SHA-256  {file.sha256}\n"
            f"Searched:\n{searched}\nWays out:\n{_ways_out(card, file)}"
        )
    check(card, file, path)
    return path


def check(card: Card, file: File, path: Path) -> None:
    """Raise `DataUnavailable` unless the file at ``path`` has the registry's SHA-256."""
    try:
        digest = sha256(path)
    except OSError as error:
        raise DataUnavailable(f"{card.name}: {path} cannot be read: {error}") from error
    if digest != file.sha256:
        raise DataUnavailable(
            f"{card.name}: {path} is not the right file.\n"
            f"  expected SHA-256  {file.sha256}\n"
            f"  found SHA-256     {digest}\n"
            f"Move this file away, or search another folder first; then:\n{_ways_out(card, file)}"
        )


def sha256(path: Path) -> str:
    """SHA-256 of a file; remembered in this process while its size and time stay the same."""
    state = path.stat()
    return _sha256(str(path), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256(path: str, size: int, mtime_ns: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ways_out(card: Card, file: File) -> str:
    get_it = f"python -m fedlab_mini data fetch {card.name}    downloads it"
    if file.download is None:
        get_it = "install the package anew, from a clone: the file comes with it"
    ways_out = [get_it, f"set FEDLAB_DATA to a folder that holds {file.path}"]
    if card.instead is not None:
        ways_out.append(f'load("{card.instead}") needs no download')
    return "\n".join(f"  - {way_out}" for way_out in ways_out)


def in_use(card: Card) -> tuple[File, ...]:
    """The files that a load reads here: files that stand for the set if found, else its own."""
    # All or none: parts of two sources may not fit together.
    accepted = card.accepts and all(locate(file) for file in card.accepts)
    return card.accepts if accepted else card.files
