"""Registry: the cards of the data sets, read from `cards.toml`; `data/README.md` describes them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import checks


@dataclass(frozen=True)
class Download:
    """Something at an address, of at most ``size`` bytes: a file, or an archive of several."""

    url: str
    size: int
    sha256: str


@dataclass(frozen=True)
class File:
    """A file below a data folder, with the hash that every load checks.

    download  where `fetch` gets it, None if it cannot be downloaded
    member    its name inside the archive, None if the download is the file itself
    """

    path: str
    size: int
    sha256: str
    download: Download | None = None
    member: str | None = None


@dataclass(frozen=True)
class Card:
    """One data set: counts of its parts (a single part "all" where there is no official split)."""

    name: str
    counts: Mapping[str, int]
    labels: tuple[str, ...]
    licence: str
    source: str
    shape: tuple[int, int, int] | None = None
    files: tuple[File, ...] = ()
    instead: str | None = None  # an embedded set to take where this one is absent
    content: str | None = None  # fingerprint of the set as loaded: Dataset.sha256()
    accepts: tuple[File, ...] = ()  # files that may stand for `files`
    # SHA-256 of the arrays' bytes.
    arrays: Mapping[str, str] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        """Whether the set comes with the package."""
        return all(file.download is None for file in self.files)

    @property
    def samples(self) -> int:
        """Number of samples, all parts together."""
        return sum(self.counts.values())


def read(text: str) -> dict[str, Card]:
    """The cards in a TOML text, by name."""
    return {name: _card(name, entry) for name, entry in tomllib.loads(text).items()}


def _card(name: str, entry: dict[str, Any]) -> Card:
    archive = None
    if "archive" in entry:
        archive = Download(**entry.pop("archive"))
    for field_name in ("files", "accepts"):
        entries = entry.get(field_name, ())
        entry[field_name] = tuple(_file(file_entry, archive) for file_entry in entries)
    for field_name in {"labels", "shape"} & entry.keys():
        entry[field_name] = tuple(entry[field_name])
    return Card(name=name, **entry)


def _file(entry: dict[str, Any], archive: Download | None) -> File:
    address = entry.pop("url", None)
    # A member of an archive has the archive's address, other files their own.
    if "member" in entry:
        return File(**entry, download=archive)
    download = (
        None if address is None else Download(address, entry["size"], entry["sha256"])
    )
    return File(**entry, download=download)


CARDS = read((Path(__file__).parent / "cards.toml").read_text(encoding="utf-8"))


def card(name: str) -> Card:
    """The card of a data set; ValueError that lists the names for an unknown one."""
    return CARDS[checks.choice("name", name, list(CARDS))]
