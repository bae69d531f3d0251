"""Store: the files of data sets in one folder, checked whenever they are read.

Only `fetch` downloads files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pooch

from .registry import Archive, Card, File, card

EMBEDDED = Path(__file__).resolve().parent / "files"  # the sets in the package


class DataUnavailable(RuntimeError):
    """A file of a data set is missing or wrong; the message says what to do."""


def _shelf(files: Sequence[File] = ()) -> pooch.Pooch:
    return pooch.create(
        path=pooch.os_cache("fedlab_mini"),
        base_url="",
        registry={file.path: file.sha256 for file in files},
        urls={file.path: file.url for file in files},
        env="FEDLAB_DATA",
    )


def folder() -> Path:
    """The folder of the other sets' files: FEDLAB_DATA, or the user's cache if it is not set."""
    return _shelf().abspath


def place(card: Card, file: File) -> Path:
    """The path at which a file of a set must be, whether it exists or not."""
    return (EMBEDDED if card.embedded else folder()) / file.path


def in_use(card: Card) -> tuple[File, ...]:
    """The files that a load reads: the replacing files if they are all found, else `files`."""
    # All or none, because parts of two sources may not fit together.
    accepted = card.accepts and all(place(card, file).is_file() for file in card.accepts)
    return card.accepts if accepted else card.files


def verified(card: Card, file: File) -> Path:
    """The path of a file whose SHA-256 has been checked; `DataUnavailable` otherwise."""
    path = place(card, file)
    there = path.is_file()
    found = pooch.file_hash(str(path)) if there else "none"
    if found == file.sha256:
        return path
    wrong = "is not the right file; move it away" if there else "not found"
    ways_out = [
        f"python -m fedlab_mini data fetch {card.name}    downloads it",
        f"set FEDLAB_DATA to a folder that holds {file.path}",
    ]
    if card.embedded:
        ways_out = ["install the package anew, from a clone: the file comes with it"]
    if card.instead is not None:
        ways_out.append(f'load("{card.instead}") needs no download')
    raise DataUnavailable(
        f"{card.name}: {path} {wrong}.\n"
        f"  expected SHA-256  {file.sha256}\n  found SHA-256     {found}\n"
        "Ways out:\n" + "\n".join(f"  - {way_out}" for way_out in ways_out)
    )


def fetch(name: str) -> list[Path]:
    """Download the missing files of a set, with a progress bar; returns the paths of all files.

    raises  ValueError for an unknown or an embedded set; `DataUnavailable` if a download fails, or
            if a new or existing file has another hash than its card says (an existing one is kept)
    """
    data_card = card(name)
    if data_card.embedded:
        raise ValueError(f"name: {name} comes with the package, so there is nothing to fetch")
    paths = {file: place(data_card, file) for file in in_use(data_card)}
    # An existing wrong file raises an error before anything is downloaded.
    missing = [file for file in paths if not (paths[file].is_file() and verified(data_card, file))]
    if not missing:
        return list(paths.values())
    shelf = _shelf(missing)
    try:
        shelf.abspath.mkdir(parents=True, exist_ok=True)
        # The archive is kept only for now, on the files' disk, which has room for it.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=shelf.abspath) as scratch:
            for file in missing:
                downloader = _downloader(data_card.archive, file, scratch)
                shelf.fetch(file.path, downloader=downloader)
    # Network errors are OSErrors; pooch raises a ValueError for another hash.
    except (OSError, ValueError) as error:
        raise DataUnavailable(
            f"{name}: could not be downloaded to {shelf.abspath}: {error}\n"
            "No incomplete file was kept. Try again, or set FEDLAB_DATA to another folder."
        ) from error
    return list(paths.values())


def _downloader(archive: Archive | None, file: File, scratch: str) -> Callable[..., Any]:
    """The function that pooch calls to get a file, from its address or from its archive."""
    if archive is None:
        return pooch.HTTPDownloader(progressbar=True)
    unpack = pooch.Untar if archive.url.endswith(".tar.gz") else pooch.Unzip

    def from_archive(url: str, target: str, _: pooch.Pooch) -> None:
        # If one archive holds several files, pooch downloads it only for the first one.
        (unpacked,) = pooch.retrieve(
            url,
            archive.sha256,
            fname="archive",
            path=scratch,
            processor=unpack(members=[file.member]),
            progressbar=True,
        )
        shutil.copyfile(unpacked, target)

    return from_archive
