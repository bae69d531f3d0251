"""Records: recorded rounds, out of memory or out of files that may be damaged. Below: checks.

A refusal names the record, its file, and the key. ``score`` above says what a record holds.
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
import zipfile
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import array, dims, distinct_ids, home, reals, shown, wholes
from ..engine.local import finite_rows
from ..engine.model import Model
from ..engine.rounds import Round
from .ids import client_ids, told_apart

KEYS = ("t", "theta", "updates", "models", "clients", "sizes")
# A compressed array may unpack to this much, or to so many times its size in the file: real
# updates hardly shrink, so what claims more was made to fill the memory.
UNPACKED, EXPANSION = 2**28, 100
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
MOST_SAMPLES = 2**53  # of a round: beyond, a sum of sizes is no longer exact


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an .npz file, each read when it is asked for.

    raises  ValueError naming the file, and the array, where it cannot be read
    """

    def __init__(self, label: str, path: str | os.PathLike):
        path = home(path)
        self.label = f"{label}: {path}"
        # A pipe has no end, and the open call itself would wait for its other side.
        refused = f"{label}: cannot read {path} as an .npz file, which numpy.savez writes"
        if not os.path.isfile(path):
            reason = "it is no file" if os.path.exists(path) else "there is no such file"
            raise ValueError(f"{refused} ({reason})")
        try:
            self.zip = zipfile.ZipFile(path)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{refused} ({type(error).__name__}: {error})") from error
        self.members = {
            info.filename.removesuffix(".npy"): info for info in self.zip.infolist()
        }

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self.zip.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, key: object) -> bool:
        return key in self.members  # without reading it

    def __getitem__(self, key: str) -> np.ndarray:
        with self._named(key) as member:
            self._header(member)
            with self.zip.open(member) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)

    def shape(self, key: str) -> tuple[int, ...]:
        """The lengths of an array, from its header: nothing of it is unpacked."""
        with self._named(key) as member:
            return self._header(member)

    @contextlib.contextmanager
    def _named(self, key: str) -> Iterator[zipfile.ZipInfo]:
        try:
            yield self.members[key]
        except Exception as error:  # a damaged zip raises a dozen kinds
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{self.label}: {key}: cannot be read ({reason})") from error

    def _header(self, member: zipfile.ZipInfo) -> tuple[int, ...]:
        """The shape that an array claims, once the claim fits what is there."""
        size, packed = member.file_size, member.compress_size
        if member.compress_type not in PACKED:
            raise ValueError("it is packed in a way that numpy.savez does not know")
        if size > max(UNPACKED, EXPANSION * packed):
            raise ValueError(f"{packed:,} bytes claim to unpack to {size:,}")
        with self.zip.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            if version not in HEADERS:
                raise ValueError(
                    f"version {version} of NumPy's format holds no plain numbers"
                )
            shape, _, dtype = HEADERS[version](stream)
            claimed = stream.tell() + math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise ValueError("it holds objects, not numbers")
        if claimed != size:
            raise ValueError(f"its header claims {claimed:,} bytes, {size:,} are there")
        return shape


@dataclass(frozen=True)
class Record:
    """A round as it was recorded, and how a refusal names it."""

    label: str
    fields: Mapping[str, Any]

    @property
    def rows_key(self) -> str:
        """Which of the two holds the clients' rows."""
        return "updates" if "updates" in self.fields else "models"

    def value(self, key: str, *shapes: list[int | str]) -> Any:
        """What stands under a key; in a file an array of one of these shapes."""
        if isinstance(self.fields, Archive):
            self._lengths(self.fields, key, *shapes)
        return self.fields[key]

    def _lengths(
        self, archive: Archive, key: str, *shapes: list[int | str]
    ) -> tuple[int, ...]:
        """The lengths of a file's array, refused by its header before it is unpacked."""
        lengths = archive.shape(key)
        if not any(_fits(lengths, shape) for shape in shapes):
            given = f"{dims(shapes[0])}, got {list(lengths)}"
            raise ValueError(f"{self.label}: {key}: expected an array {given}")
        return lengths

    def rows(self) -> int:
        """How many clients' rows it holds; a file's are not unpacked for that."""
        if isinstance(self.fields, Archive):
            return self._lengths(self.fields, self.rows_key, ["m", "P"])[0]
        updates = self.fields[self.rows_key]
        if not isinstance(updates, list | tuple):
            updates = array(f"{self.label}: {self.rows_key}", updates, ["m", "P"])
        return len(updates)

    def ids(self) -> list[Hashable]:
        """The ids of a round's rows, as Python's numbers and words."""
        if unknown := [key for key in self.fields if key not in KEYS]:
            listed = ", ".join(KEYS)
            raise ValueError(
                f"{self.label}: unknown keys {shown(unknown)}; known are {listed}"
            )
        if ("updates" in self.fields) == ("models" in self.fields):
            present = list(self.fields)
            raise ValueError(
                f"{self.label}: expected either updates or models, got {present}"
            )
        if "clients" in self.fields:
            return client_ids(
                f"{self.label}: clients", self.value("clients", [self.rows()])
            )
        return list(range(self.rows()))

    def number(self, last: int) -> int:
        """The round's own number, which must be above the last one's; without one, the last."""
        if "t" not in self.fields:
            return last
        label, given = f"{self.label}: t", self.value("t", [], [1])
        # NumPy stores a single number as an array without a shape.
        number = int(wholes(label, [given] if np.ndim(given) == 0 else given, [1])[0])
        if number <= last:
            raise ValueError(
                f"{label}: {number} after {last}; give the rounds in their order"
            )
        return number

    def theta(self, net: Model, computed: Tensor | None, like: Tensor) -> Tensor:
        """The model before the round: the one recorded, else the one computed."""
        label = f"{self.label}: theta"
        recorded = self.value("theta", [net.P]) if "theta" in self.fields else None
        theta = computed
        if recorded is not None:
            theta = flat(net, label, recorded).to(like, copy=True)
        if theta is None:
            raise ValueError(
                "theta: the first round holds none; give theta=, the model before it"
            )
        if not torch.isfinite(theta).all():
            raise ValueError(f"{label}: holds NaN or infinite values")
        return theta

    def round(
        self, t: int, net: Model, theta: Tensor, places: Mapping[Hashable, int]
    ) -> Round:
        """The record as a ``Round``, ids as places in the table; broken updates are missing."""
        client_names = self.ids()
        if unknown := [client for client in client_names if client not in places]:
            raise ValueError(
                f"{self.label}: {shown(unknown)} are not among the clients named"
            )
        named_places = [places[client] for client in client_names]
        clients = distinct_ids(f"{self.label}: clients", named_places, len(places))
        label, count = f"{self.label}: {self.rows_key}", len(clients)
        rows = self.value(self.rows_key, [count, net.P])
        updates = parameter_rows(net, label, rows, count).to(theta)
        if self.rows_key == "models":
            updates = updates - theta
        elif not isinstance(self.fields, Archive):
            updates = updates.clone()
        sizes = self.value("sizes", [count]) if "sizes" in self.fields else [1] * count
        most = MOST_SAMPLES // max(1, count)
        sizes = wholes(f"{self.label}: sizes", sizes, [count], 1, most).cpu()
        usable = finite_rows(updates).cpu()
        if not usable.all():
            usable_clients = zip(client_names, usable.tolist(), strict=True)
            broken = [client for client, is_usable in usable_clients if not is_usable]
            message = f"round {t}: the update of {shown(broken)} is not finite; left out"
            warnings.warn(message, stacklevel=3)
            # Choosing rows copies them all, so it is done only where it must be.
            updates = updates[usable.to(updates.device)]
        return Round(t, theta, clients[usable], sizes[usable], updates, clients[~usable])


def _fits(lengths: tuple[int, ...], shape: list[int | str]) -> bool:
    """Are these the lengths of a shape, in which a word stands for any of at least 1?"""
    if len(lengths) != len(shape):
        return False
    pairs = zip(lengths, shape, strict=True)
    return all(
        have >= 1 if isinstance(want, str) else have == want for have, want in pairs
    )


@contextlib.contextmanager
def opened(record: Any, place: int) -> Iterator[Record]:
    """One entry of ``updates``; a file stays open, its arrays unread, while it is used."""
    label = f"updates[{place}]"
    if isinstance(record, str | os.PathLike):
        with Archive(label, record) as archive:
            yield Record(archive.label, archive)
    elif isinstance(record, Mapping):
        yield Record(label, record)
    else:
        yield Record(label, {"updates": array(label, record, ["m", "P"])})


def all_clients(updates: Iterable) -> list[Hashable]:
    """Every id of the records; numbers in order, names as they come."""
    try:
        read_once = iter(updates) is updates
    except TypeError:
        read_once = None
    if read_once is None or isinstance(updates, Mapping | str | bytes):
        raise TypeError(f"updates: expected one record a round, got {shown(updates)}")
    if read_once:
        raise TypeError(
            "clients: this iterator is read only once; name all clients, clients=[...]"
        )
    seen: dict[Hashable, None] = {}
    for position, entry in enumerate(updates):
        with opened(entry, position) as record:
            seen.update(dict.fromkeys(record.ids()))
            told_apart(f"{record.label}: clients", seen)
    # Numbers have an order of their own; names keep the one in which they came.
    only_numbers = all(isinstance(client, int) for client in seen)
    return sorted(seen) if only_numbers else list(seen)  # type: ignore[type-var]


def flat(net: Model, label: str, value: Any) -> Tensor:
    """All parameters as one vector [P], from a vector, a state dict, or a list of arrays.

    Entries of a state dict that are no parameters of ``net`` are ignored
    """
    if isinstance(value, Mapping):
        if lacking := [parameter for parameter in net.shapes if parameter not in value]:
            raise ValueError(f"{label}: lacks the parameters {', '.join(lacking)}")
        arrays = [value[parameter] for parameter in net.shapes]
    elif isinstance(value, list | tuple) and not all(map(_is_number, value)):
        arrays = list(value)
    else:
        return reals(label, value, [net.P], finite=False)
    if len(arrays) != len(net.shapes):
        shapes = [f"{parameter} {dims(shape)}" for parameter, shape in net.shapes.items()]
        wanted = ", ".join(shapes)
        raise ValueError(
            f"{label}: expected {len(net.shapes)} arrays, {wanted}, got {len(arrays)}"
        )
    parameters = [
        reals(f"{label}: {parameter}", array, shape, finite=False).flatten()
        for (parameter, shape), array in zip(net.shapes.items(), arrays, strict=True)
    ]
    return torch.cat(parameters)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) or getattr(value, "ndim", 1) == 0


def parameter_rows(net: Model, label: str, value: Any, clients: int) -> Tensor:
    """Rows [m, P], from such an array or from a list of m sets of parameters."""
    if not isinstance(value, list | tuple):
        return reals(label, value, [clients, net.P], finite=False)
    if len(value) != clients:
        raise ValueError(
            f"{label}: expected one entry a client, {clients}, got {len(value)}"
        )
    vectors = [
        flat(net, f"{label}[{client}]", entry) for client, entry in enumerate(value)
    ]
    return torch.stack(vectors) if vectors else torch.empty(0, net.P)
