"""Records: recorded rounds, read from memory or from files.

An error names the record, its file, and the key. ``score`` says what a record holds.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pickle import UnpicklingError
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from .checks import array, by_id, dims, distinct_ids, home, ids_of, reals, refusal, shown, wholes
from .ids import client_ids, told_apart

KEYS = ("t", "theta", "updates", "models", "clients", "sizes")
# Statistics of normalising layers, which a state dict may hold besides the parameters of net.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
MOST_SAMPLES = 2**53  # of a round: above this, a sum of sizes is not exact


class Parameters(Protocol):
    """What a record is read for: the shapes of a model's parameters, and its module."""

    @property
    def P(self) -> int: ...
    @property
    def shapes(self) -> Mapping[str, torch.Size]: ...

    module: nn.Module


class Rows(NamedTuple):
    """A round's rows: ids of clients [m], samples [m], updates [m, P], ids without a usable one."""

    clients: Tensor
    sizes: Tensor
    updates: Tensor
    missing: Tensor


@dataclass(frozen=True)
class Record:
    """Arrays as they were recorded, and the label that errors use for them."""

    label: str
    fields: Mapping[str, Any]

    def value(self, key: str) -> Any:
        """The value under a key; only now is an array of a file read."""
        if key not in self.fields:
            raise ValueError(f"{self.label}: lacks {key}, has {shown([*self.fields])}")
        try:
            return self.fields[key]
        except Exception as error:  # damaged files raise a dozen kinds of error
            reason = f"{type(error).__name__}: {error}"
            if "allow_pickle" in reason:
                reason = "Python objects; write numpy.array(values.tolist())"
            raise ValueError(f"{self.label}: {key}: cannot be read ({reason})") from error

    @property
    def key(self) -> str:
        """The key of the clients' rows."""
        return "models" if "models" in self.fields else "updates"

    @cached_property
    def rows(self) -> Any:
        """The clients' updates or models: [m, P], or a list of m; [] if nobody replied."""
        if unknown := [key for key in self.fields if key not in KEYS]:
            listed = ", ".join(KEYS)
            raise ValueError(f"{self.label}: unknown keys {shown(unknown)}; known are {listed}")
        if ("updates" in self.fields) == ("models" in self.fields):
            raise refusal(self.label, "either updates or models", list(self.fields))
        rows, label = self.value(self.key), f"{self.label}: {self.key}"
        if isinstance(rows, Mapping):
            if rows and all(isinstance(row, Mapping) for row in rows.values()):
                expected = "a list of the clients' state dicts, their ids under clients"
                raise ValueError(f"{label}: expected {expected}, got one by {shown([*rows])}")
            return _row_by_row(label, rows)
        in_order_of_parameters(label, rows)
        if isinstance(rows, list | tuple):
            if any(isinstance(row, Mapping) and self.key in row for row in rows):
                raise ValueError(f"{label}: holds whole rounds; give one record a round")
            return rows
        nobody = getattr(rows, "shape", ())[:1] == (0,)
        return [] if nobody else array(label, rows, ["m", "P"])

    def ids(self) -> list[Hashable]:
        """The ids of the clients' rows, as Python's numbers and words."""
        own: Any = self.fields.get(self.key)
        index = client_ids(f"{self.label}: {self.key}", own.index) if named(own) else None
        if "clients" not in self.fields:
            return list(range(len(self.rows))) if index is None else index
        ids = client_ids(f"{self.label}: clients", self.value("clients"))
        if index not in (None, ids):
            raise refusal(f"{self.label}: clients", f"the index of {self.key}, {shown(index)}", ids)
        return ids

    def number(self, last: int) -> int:
        """The round's number, which must exceed the last one; without a number, the last one."""
        if "t" not in self.fields:
            return last
        label, given = f"{self.label}: t", self.value("t")
        # NumPy stores a single number as an array without a shape.
        number = int(wholes(label, [given] if np.ndim(given) == 0 else given, [1])[0])
        if number <= last:
            raise ValueError(f"{label}: {number} after {last}; give the rounds in increasing order")
        return number

    def theta(self, net: Parameters, computed: Tensor | None, like: Tensor) -> Tensor | None:
        """The model before the round, recorded or computed; None if unknown and nobody replied."""
        label = f"{self.label}: theta"
        theta = computed
        if "theta" in self.fields:
            theta = flat(net, label, self.value("theta")).to(like, copy=True)
        if theta is None and not len(self.rows):
            return None
        if theta is None:
            raise ValueError(
                "theta: the first record has no theta; give theta=, the model before round 1"
            )
        if not torch.isfinite(theta).all():
            raise ValueError(f"{label}: holds NaN or infinite values")
        return theta

    def of_round(
        self, t: int, net: Parameters, theta: Tensor, places: Mapping[Hashable, int]
    ) -> Rows:
        """The rows of round ``t``, with ids as table rows; unusable updates count as missing."""
        client_names, count = self.ids(), len(self.rows)
        if len(client_names) != count:
            expected = f"{count} ids, one a row"
            raise refusal(f"{self.label}: clients", expected, len(client_names))
        if unknown := [client for client in client_names if client not in places]:
            raise ValueError(f"{self.label}: {shown(unknown)} are not among the clients named")
        named_places = [places[client] for client in client_names]
        clients = distinct_ids(f"{self.label}: clients", named_places, len(places))
        updates = parameter_rows(net, f"{self.label}: {self.key}", self.rows).to(theta)
        if self.key == "models":
            updates = updates - theta
        sizes = self.value("sizes") if "sizes" in self.fields else [1] * count
        # A column with client ids is put into the order of the rows.
        sizes = by_id(f"{self.label}: sizes", sizes, client_names) if named(sizes) else sizes
        most = MOST_SAMPLES // max(1, count)
        sizes = wholes(f"{self.label}: sizes", sizes, [count], 1, most).cpu()
        # Squares, because lengths and models of an update that is too long would overflow. One
        # fast pass: if a sum is finite, all its terms are.
        numbers, usable = updates.flatten(), torch.ones(count).bool()
        if not math.isfinite(numbers @ numbers):
            usable = updates.square().sum(1).isfinite().cpu()
        if not usable.all():
            broken = list(itertools.compress(client_names, ~usable))
            told = f"the update of {shown(broken)} is not finite, or its square is not; left out"
            warnings.warn(f"round {t}: {told}", stacklevel=3)
            # Selecting rows copies all of them, so it is done only if necessary.
            updates = updates[usable.to(updates.device)]
        return Rows(clients[usable], sizes[usable], updates, clients[~usable])


@contextlib.contextmanager
def archive(label: str, path: str | os.PathLike[str]) -> Iterator[Record]:
    """The contents of an .npz, .npy or .pt file; arrays of an .npz file are read when needed.

    raises  ValueError naming a file that is of another kind, damaged, or would run a pickle
    """
    path = home(path)
    with contextlib.ExitStack() as stack:
        try:
            # Opened here, because NumPy does not close a damaged archive.
            stream = stack.enter_context(open(path, "rb"))
            held = np.load(stream, allow_pickle=False)
            if isinstance(held, Mapping) and any(key.endswith("/data.pkl") for key in held):
                held = _of_torch(stream)
        except Exception as error:  # other files raise a dozen kinds of error
            refused = f"{label}: cannot read {path} as a file of"
            reason = f"{type(error).__name__}: {error}"
            if "pickle" in reason:  # NumPy's message would say how to load it anyway
                reason = "it is none, or a pickle; write numpy.savez(path, updates=...)"
            if path.suffix == ".safetensors":
                reason = "write numpy.savez(path, **safetensors.numpy.load_file(this))"
            writers = "numpy.savez, numpy.save or torch.save"
            raise ValueError(f"{refused} {writers} ({reason})") from error
        fields = held if isinstance(held, Mapping) else {"updates": held}
        yield Record(f"{label}: {path}", fields)


def _of_torch(stream: IO[bytes]) -> Any:
    stream.seek(0)
    try:
        return torch.load(stream, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise ValueError(
            "it holds objects, such as NumPy's arrays; save tensors, numbers and words"
        ) from None


@contextlib.contextmanager
def opened(record: Any, place: int) -> Iterator[Record]:
    """One entry of ``updates``; a file stays open while it is used, and is read when needed."""
    label = f"updates[{place}]"
    if isinstance(record, str | os.PathLike):
        with archive(label, record) as in_file:
            yield in_file
    elif isinstance(record, Mapping):
        yield Record(label, record)
    elif isinstance(record, tuple):
        raise refusal(label, "a mapping, such as {'theta': ..., 'updates': ...}", record, TypeError)
    else:
        yield Record(label, {"updates": record})


def named(value: Any) -> bool:
    """Does a pandas column or frame have its own ids, and not just 0, 1, ...?"""
    ids = ids_of(value)
    return ids is not None and ids != list(range(len(ids)))


def in_order_of_parameters(label: str, rows: Any) -> None:
    """Refuse a frame whose columns are not in the order of the parameters."""
    columns = list(getattr(rows, "columns", ()))
    if columns != sorted(columns, key=by_number):
        raise ValueError(
            f"{label}: its columns, {shown(columns)}, are not in their order; give "
            "frame.to_numpy() with the parameters in the order of net.shapes"
        )


def in_order_of_rounds(files: Iterable[Any]) -> None:
    """Refuse files in the order of their letters, where round_10 comes before round_2."""
    names = [str(one) for one in files if isinstance(one, str | os.PathLike)]
    if names == sorted(names) != sorted(names, key=by_number):
        raise ValueError(
            f"updates: {shown([os.path.basename(name) for name in names])} are in the order of "
            "letters; sort them by the number of the round, as fm.records(folder) does"
        )


def by_number(column: Any) -> list[Any]:
    """A key that sorts p2 before p10, as its number says and not its letters."""
    # Splitting at numbers leaves words at even places and numbers at odd ones.
    parts = re.split(r"(\d+)", str(column))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def all_clients(updates: Iterable[Any]) -> list[Hashable]:
    """All ids of the records: numbers in increasing order, names in order of appearance."""
    if isinstance(updates, Iterator):
        raise TypeError("clients: this iterator is read only once; name all clients, clients=[...]")
    if not np.iterable(updates) or isinstance(updates, Mapping | str | bytes):
        raise refusal("updates", "one record a round", updates, TypeError)
    seen: dict[Hashable, None] = {}
    for position, entry in enumerate(updates):
        with opened(entry, position) as record:
            seen.update(dict.fromkeys(record.ids()))
            told_apart(f"{record.label}: clients", seen)
    if not seen:
        raise ValueError("updates: expected a round in which somebody replied, got no rounds")
    # Numbers are sorted; names keep the order in which they appeared.
    only_numbers = all(isinstance(client, int) for client in seen)
    return sorted(seen) if only_numbers else list(seen)  # type: ignore[type-var]


def flat(net: Parameters, label: str, value: Any) -> Tensor:
    """All parameters as one vector [P], from a vector, state dict, list of arrays, or module.

    Entries that are not parameters of ``net``, such as running means, are ignored in a state dict,
    and also in a list that holds all entries of the module's state dict
    """
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, list | tuple) and len(value) != len(net.shapes):
        held = net.module.state_dict()
        if list(map(np.shape, held.values())) == [getattr(one, "shape", ()) for one in value]:
            value = dict(zip(held, value, strict=True))
    if isinstance(value, Mapping):
        if lacking := [parameter for parameter in net.shapes if parameter not in value]:
            advice = ""
            if len(lacking) < len(net.shapes):
                advice = "; freeze those that do not travel, parameter.requires_grad_(False), "
                advice += "and call fm.Model(module) then"
            has = f"has {shown([*value])}{advice}"
            raise ValueError(f"{label}: lacks the parameters {', '.join(lacking)}, {has}")
        unknown = value.keys() - net.shapes.keys() - net.module.state_dict().keys()
        if strangers := [name for name in unknown if not name.endswith(STATISTICS)]:
            told = f"{shown(sorted(strangers))}, which net has not"
            raise ValueError(f"{label}: holds {told}; give the module that was trained")
        arrays = [value[parameter] for parameter in net.shapes]
    elif isinstance(value, list | tuple) and not all(map(_is_number, value)):
        arrays = list(value)
    else:
        return _parameters(label, value, [net.P])
    if len(arrays) != len(net.shapes):
        shapes = (f"{parameter} {dims(shape)}" for parameter, shape in net.shapes.items())
        wanted = f"{len(net.shapes)} arrays, {', '.join(shapes)}"
        raise refusal(label, f"{wanted}, or all of module.state_dict() in its order", len(arrays))
    parameters = [
        _parameters(f"{label}: {parameter}", array, shape).flatten()
        for (parameter, shape), array in zip(net.shapes.items(), arrays, strict=True)
    ]
    return torch.cat(parameters)


def _parameters(label: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """Real numbers of a shape; small whole numbers, as a compressed message has, are refused."""
    numbers = array(label, value, shape)
    if numbers.element_size() < 4 and not numbers.is_floating_point():
        raise TypeError(
            f"{label}: expected real numbers, got {shown(numbers)}; multiply what was quantised "
            "by its scale"
        )
    return reals(label, numbers, shape, finite=False)


def _row_by_row(label: str, stacks: Mapping[str, Any]) -> list[dict[str, Tensor]]:
    """One state dict per client, from one whose entries hold all clients, [m, ...]."""
    arrays = {name: array(f"{label}: {name}", stack, ["..."]) for name, stack in stacks.items()}
    shapes = {name: list(rows.shape) for name, rows in arrays.items()}
    if [] in shapes.values() or len({shape[0] for shape in shapes.values()}) > 1:
        raise refusal(label, "as many rows [m, ...] of each parameter", shapes)
    return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) or getattr(value, "ndim", 1) == 0


def parameter_rows(net: Parameters, label: str, value: Any) -> Tensor:
    """Rows [m, P], from such an array or from a list of the parameters of m clients."""
    if not isinstance(value, list | tuple):
        return _parameters(label, value, ["m", net.P])
    if not value:
        return torch.empty(0, net.P)
    return torch.stack([flat(net, f"{label}[{i}]", one) for i, one in enumerate(value)])
