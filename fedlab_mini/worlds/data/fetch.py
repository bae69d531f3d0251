"""Fetch: download a data set, only when asked. Every byte is checked before it is put in place."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import pooch

from ... import checks
from .registry import Card, Download, File, card
from .store import DataUnavailable, cache, check, in_use, locate, sha256, verified


def fetch(
    name: str, *, to: str | Path | None = None, progress: bool = False
) -> list[Path]:
    """Download the files of a data set that are not there yet, and return where they lie.

    to        the folder to fill, in the layout of the search path; default: the user's cache, for
              what the search path does not have yet
    progress  show a bar
    raises    ValueError for an unknown or an embedded set; `DataUnavailable` if the download fails,
              is larger or has another hash than the registry says, if the folder cannot be
              written, or if a file with another hash is already there (it is left alone)
    """
    data_card = card(name)
    progress = checks.flag("progress", progress)
    if data_card.embedded:
        for data_file in data_card.files:
            verified(data_card, data_file)
        raise ValueError(
            f"name: {name} comes with the package; there is nothing to fetch"
        )
    target = cache() if to is None else checks.home(to)
    if to is None:
        # What the search path has need not be downloaded.
        places = {
            data_file: locate(data_file) or target / data_file.path
            for data_file in in_use(data_card)
        }
    else:
        places = {data_file: target / data_file.path for data_file in data_card.files}
    missing = [
        data_file
        for data_file, path in places.items()
        if not _present(data_card, data_file, path)
    ]
    # Several files may come in one archive: it is fetched once.
    downloads = dict.fromkeys(
        data_file.download for data_file in missing if data_file.download
    )
    try:
        for download in downloads:
            members = [
                data_file for data_file in missing if data_file.download == download
            ]
            _fetch_files(data_card, download, members, target, progress=progress)
    # Network errors are OSErrors; an archive without the file raises KeyError.
    except (OSError, KeyError) as error:
        raise DataUnavailable(
            f"{name}: could not be fetched to {target}: {error}\n"
            "What was incomplete has been removed. Try again, or choose another folder with --to."
        ) from error
    return list(places.values())


def _present(card: Card, file: File, path: Path) -> bool:
    if not os.path.lexists(path):
        return False
    check(card, file, path)
    return True


def _fetch_files(
    card: Card,
    download: Download,
    files: list[File],
    target: Path,
    *,
    progress: bool,
) -> None:
    target.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target) as folder:
        arrived = Path(folder) / "download"
        # Compressed on the way, the bytes would have another hash.
        as_stored = {"Accept-Encoding": "identity"}
        downloader = pooch.HTTPDownloader(progressbar=progress, headers=as_stored)
        with open(arrived, "wb") as out:
            bounded = cast(BinaryIO, _Bounded(out, download.size))
            downloader(download.url, bounded, None)
        _check_arrived(card, download.url, arrived, download.sha256)
        for data_file in files:
            unpacked = Path(folder) / "member"
            with _member(arrived, data_file) as stream, open(unpacked, "wb") as out:
                shutil.copyfileobj(stream, _Bounded(out, data_file.size))
            _check_arrived(
                card, f"{download.url} ({data_file.path})", unpacked, data_file.sha256
            )
            place = target / data_file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(unpacked, place)  # whole or not at all


def _check_arrived(card: Card, what: str, path: Path, expected: str) -> None:
    arrived = sha256(path)
    if arrived != expected:
        raise DataUnavailable(
            f"{card.name}: {what} arrived damaged or has changed ({path.stat().st_size} bytes).\n"
            f"  expected SHA-256  {expected}\n"
            f"  found SHA-256     {arrived}\n"
            "Nothing was kept. Try again, or get the file elsewhere and set FEDLAB_DATA."
        )


class _Bounded:
    """A file that takes no more than the registry's number of bytes, then stops the writer."""

    def __init__(self, out: IO[bytes], size: int) -> None:
        self.out, self.size, self.flush = out, size, out.flush

    def write(self, content: bytes) -> int:
        if self.out.tell() + len(content) > self.size:
            raise OSError(f"it is larger than the {self.size:,} bytes that were expected")
        return self.out.write(content)


@contextmanager
def _member(arrived: Path, file: File) -> Iterator[IO[bytes]]:
    """The wanted file as a stream: the download itself, or a member of a zip or tar archive."""
    if file.member is None:
        with open(arrived, "rb") as content:
            yield content
    elif zipfile.is_zipfile(arrived):
        with zipfile.ZipFile(arrived) as archive, archive.open(file.member) as content:
            yield content
    else:
        with tarfile.open(arrived) as tar_archive:
            member = tar_archive.extractfile(file.member)
            if member is None:
                raise KeyError(f"{file.member} is no file")
            yield member
