"""Registry: the cards of the data sets, read from `cards.toml`; `data/README.md` describes them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ...parse import checks
from .dataset import Dataset


@dataclass(frozen=True)
class Archive:
    """A file at an address that contains files of a set; at most ``size`` bytes."""

    url: str
    size: int
    sha256: str


@dataclass(frozen=True)
class File:
    """A file in a data folder, with the hash that every load checks.

    url     the address of the file or of its archive, for `fetch`; None: it cannot be downloaded
    member  its name inside the card's archive, None if the address is that of the file itself
    """

    path: str
    size: int
    sha256: str
    url: str | None = None
    member: str | None = None


@dataclass(frozen=True)
class Card:
    """One data set, with the counts of its parts (one part "all" if there is no official split)."""

    name: str
    counts: Mapping[str, int]
    labels: tuple[str, ...]
    licence: str
    source: str
    shape: tuple[int, int, int] | None = None
    files: tuple[File, ...] = ()
    archive: Archive | None = None  # contains the files that have a member name
    instead: str | None = None  # an embedded set to use if this set is absent
    content: str | None = None  # fingerprint of the loaded set: Dataset.sha256()
    accepts: tuple[File, ...] = ()  # files that may replace `files`
    # SHA-256 of the arrays' bytes.
    arrays: Mapping[str, str] = field(default_factory=dict)

    def dataset(self, x: Tensor, y: Tensor, **more: Any) -> Dataset:
        """A data set with this card's name, source, licence, labels and shape."""
        about = (self.name, self.source, self.licence, self.labels, self.shape)
        return Dataset(x, y, len(self.labels), *about, **more)

    @property
    def embedded(self) -> bool:
        """Does the set come with the package?"""
        return all(file.url is None for file in self.files)

    @property
    def samples(self) -> int:
        """Number of samples in all parts together."""
        return sum(self.counts.values())


def _card(name: str, entry: dict[str, Any]) -> Card:
    if "archive" in entry:
        entry["archive"] = Archive(**entry["archive"])
        entry["files"] = [{"url": entry["archive"].url} | one for one in entry["files"]]
    for field_name in ("files", "accepts"):
        entry[field_name] = tuple(File(**one) for one in entry.get(field_name, ()))
    for field_name in {"labels", "shape"} & entry.keys():
        entry[field_name] = tuple(entry[field_name])
    return Card(name=name, **entry)


_TEXT = (Path(__file__).parent / "cards.toml").read_text(encoding="utf-8")
CARDS = {name: _card(name, entry) for name, entry in tomllib.loads(_TEXT).items()}


def card(name: str) -> Card:
    """The card of a data set; for an unknown name, a ValueError that lists all names."""
    return CARDS[checks.choice("name", name, list(CARDS))]
