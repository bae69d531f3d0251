"""Replies: a round of Flower as it came from the nodes, read without copying it. Above: scored."""

from __future__ import annotations

import copy
import hashlib
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from ..checks import shown
from ..judge.records import HEADERS, MOST_SAMPLES

Numbers = Mapping[str, np.ndarray]
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of batch normalisation
REASON = 200  # characters of a node's own words that are kept
MASKED = "no floating numbers under the names that were sent; masked replies cannot be scored"


@dataclass(frozen=True)
class Reply:
    """A usable reply: a message whose records no strategy can empty, and the model it was sent."""

    message: Message
    record: str
    arrays: Numbers
    theta: Numbers
    size: int

    @property
    def node(self) -> int:
        """Flower's id of the node."""
        return self.message.metadata.src_node_id

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays in their order: name, a zero byte, the bytes that Flower sends."""
        total = hashlib.sha256()
        for name, array in self.message.content[self.record].items():
            total.update(name.encode() + b"\0")
            total.update(array.data)
        return total.hexdigest()

    def update(self, names: Iterable[str]) -> list[np.ndarray]:
        """Local minus global parameters, an array each, in float64."""
        # The server's may have more digits than the node's type holds: they are not its update.
        thetas = [self.theta[name].astype(self.arrays[name].dtype, copy=False) for name in names]
        pairs = zip((self.arrays[name] for name in names), thetas, strict=True)
        return [np.subtract(mine, theta, dtype=np.float64) for mine, theta in pairs]

    def again(self, *, silent: bool = False) -> Message:
        """The message for a strategy to take apart; ``silent``: as if the model had not moved."""
        message = _copy(self.message)
        if silent:
            message.content[self.record] = ArrayRecord(
                {
                    name: Array(self.theta[name].astype(array.dtype))
                    for name, array in self.arrays.items()
                }
            )
        return message


@dataclass(frozen=True)
class Replies:
    """One round: usable replies as they arrived and by node, and why the others are not usable.

    names   of the arrays that count
    norms   {node: length of its update}
    """

    arrived: list[Reply]
    missing: dict[str, str]
    names: list[str]
    norms: dict[int, float]

    @property
    def sorted(self) -> list[Reply]:
        """By node, so that scores do not depend on who was first."""
        return sorted(self.arrived, key=lambda reply: reply.node)

    @classmethod
    def read(
        cls,
        messages: Sequence[Message],
        sent: Mapping[int, ArrayRecord],
        counted: Sequence[str] | None,
        size_name: str,
    ) -> Replies:
        """Sort the messages out. ValueError if there are replies and none can be scored.

        sent     {node: what it was sent}; counted: see ``Scored``; size_name: of the samples
        """
        missing = {str(node): "no reply" for node in sent}
        thetas = {id(record): views(record) for record in sent.values()}
        arrived: dict[int, Reply] = {}
        for message in messages:
            node = message.metadata.src_node_id
            try:
                if node not in sent:
                    raise ValueError("it was not asked")
                reply = _reply(message, thetas[id(sent[node])], size_name)
                arrived.setdefault(node, reply)
            except ValueError as error:
                missing[str(node)] = " ".join(str(error).split())[:REASON]
        kinds = {node: _floating(reply.arrays, counted) for node, reply in arrived.items()}
        # What the most have; one node alone cannot decide what counts.
        names = Counter(sorted(kinds.values())).most_common(1)[0][0] if kinds else ()
        norms = {}
        for node, reply in list(arrived.items()):
            norms[node] = _norm(reply.update(names)) if kinds[node] == names else math.nan
            if not names or not math.isfinite(norms[node]):
                del arrived[node], norms[node]
                missing[str(node)] = MASKED if kinds[node] != names or not names else "not finite"
        if not arrived and any(message.has_content() for message in messages):
            reason = next(iter(missing.values()))
            raise ValueError(f"replies: none of {len(messages)} can be scored, as {reason}")
        for node in arrived:
            missing.pop(str(node), None)
        return cls(list(arrived.values()), missing, list(names), norms)


def views(record: ArrayRecord) -> dict[str, np.ndarray]:
    """The numbers of Flower's arrays, in its own memory; ValueError naming what is not numbers."""
    return {name: _view(name, array) for name, array in record.items()}


def _view(name: str, array: Array) -> np.ndarray:
    try:
        stream = io.BytesIO(array.data)  # shares the bytes
        shape, by_columns, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
        if dtype.hasobject:
            raise ValueError("objects")
        numbers = np.frombuffer(array.data, dtype, math.prod(shape), stream.tell())
        return numbers.reshape(shape, order="F" if by_columns else "C")
    except Exception as error:  # damaged bytes raise a dozen kinds
        raise ValueError(f"{name}: cannot be read as numbers ({error})") from None


def _reply(message: Message, theta: Numbers, size_name: str) -> Reply:
    """A message as a reply; ValueError saying why it is not usable."""
    if message.has_error():
        raise ValueError(f"error: {message.error.reason}")
    for record, held in message.content.array_records.items():
        if set(held) != set(theta):
            continue
        found = views(held)
        arrays = {name: found[name] for name in theta}  # in one order for all senders
        for name, array in arrays.items():
            if array.shape != theta[name].shape:
                raise ValueError(f"{name}: {array.shape} where {theta[name].shape} was sent")
        return Reply(_copy(message), record, arrays, theta, _size(message, size_name))
    raise ValueError(MASKED)


def _copy(message: Message) -> Message:
    """A message with records of its own, in which the same arrays lie."""
    message = copy.copy(message)
    message.content = message.content.copy()
    for name, record in message.content.items():
        message.content[name] = record.copy()
    return message


def _size(message: Message, name: str) -> int:
    """Samples that a node says it holds; 1 where nothing of that name is said."""
    size: Any = 1
    for record in message.content.metric_records.values():
        size = record.get(name, size)
    if not isinstance(size, int | float) or not 0 < size <= MOST_SAMPLES:
        raise ValueError(f"{name}: expected a number of samples, got {shown(size)}")
    return max(1, round(size))


def _floating(arrays: Numbers, counted: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the arrays that count and are of floating numbers here."""
    return tuple(
        name
        for name, array in arrays.items()
        if array.dtype.kind == "f"
        and (name in counted if counted is not None else not name.endswith(STATISTICS))
    )


def _norm(arrays: Iterable[np.ndarray]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(sum(float(np.vdot(array, array)) for array in arrays))
