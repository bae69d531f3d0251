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

from fedlab_mini.checks import shown
from fedlab_mini.judge.records import HEADERS, MOST_SAMPLES

Numbers = Mapping[str, np.ndarray]
# The names that batch normalisation gives its statistics.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
REASON = 200  # characters of a node's own words that are kept
MASKED = (
    "no floating numbers under the names that were sent; masked replies cannot be scored"
)


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
        array_hash = hashlib.sha256()
        for array_name, array in self.message.content[self.record].items():
            array_hash.update(array_name.encode() + b"\0")
            array_hash.update(array.data)
        return array_hash.hexdigest()

    def update(self, names: Iterable[str]) -> list[np.ndarray]:
        """Local minus global parameters, an array each, in float64."""
        # The server's may have more digits than the node's type holds: they are not its update.
        sent_arrays = [
            self.theta[name].astype(self.arrays[name].dtype, copy=False) for name in names
        ]
        array_pairs = zip((self.arrays[name] for name in names), sent_arrays, strict=True)
        return [
            np.subtract(local_array, sent_array, dtype=np.float64)
            for local_array, sent_array in array_pairs
        ]

    def again(self, *, silent: bool = False) -> Message:
        """The message for a strategy to take apart; ``silent``: as if the model had not moved."""
        message = _copy(self.message)
        if silent:
            message.content[self.record] = ArrayRecord(
                {
                    array_name: Array(self.theta[array_name].astype(array.dtype))
                    for array_name, array in self.arrays.items()
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
        missing = {str(node_id): "no reply" for node_id in sent}
        # By identity: nodes that were sent the same record share its views.
        sent_views = {id(record): views(record) for record in sent.values()}
        arrived: dict[int, Reply] = {}
        for message in messages:
            node_id = message.metadata.src_node_id
            try:
                if node_id not in sent:
                    raise ValueError("it was not asked")
                reply = _reply(message, sent_views[id(sent[node_id])], size_name)
                # The first usable reply counts: who writes in another's name later is not heard.
                arrived.setdefault(node_id, reply)
            except ValueError as error:
                missing[str(node_id)] = " ".join(str(error).split())[:REASON]
        floating_names = {
            node_id: _floating(reply.arrays, counted)
            for node_id, reply in arrived.items()
        }
        # What the most have; one node alone cannot decide what counts. Sorted, so that a tie does
        # not hang on who was first.
        counted_names = (
            Counter(sorted(floating_names.values())).most_common(1)[0][0]
            if floating_names
            else ()
        )
        norms = {}
        for node_id, reply in list(arrived.items()):
            norms[node_id] = (
                _norm(reply.update(counted_names))
                if floating_names[node_id] == counted_names
                else math.nan
            )
            if not counted_names or not math.isfinite(norms[node_id]):
                del arrived[node_id], norms[node_id]
                missing[str(node_id)] = (
                    MASKED
                    if floating_names[node_id] != counted_names or not counted_names
                    else "not finite"
                )
        # All have failed: a bad round. All have sent what cannot be read: a wrong setting.
        if not arrived and any(message.has_content() for message in messages):
            reason = next(iter(missing.values()))
            raise ValueError(
                f"replies: none of {len(messages)} can be scored, as {reason}"
            )
        for node_id in arrived:
            # All began as missing, and a broken reply beside the usable one may have left why.
            missing.pop(str(node_id), None)
        return cls(list(arrived.values()), missing, list(counted_names), norms)


def views(record: ArrayRecord) -> dict[str, np.ndarray]:
    """The numbers of Flower's arrays, in its own memory; ValueError naming what is not numbers."""
    return {array_name: _view(array_name, array) for array_name, array in record.items()}


def _view(name: str, array: Array) -> np.ndarray:
    try:
        byte_stream = io.BytesIO(array.data)  # shares the bytes
        shape, column_order, dtype = HEADERS[np.lib.format.read_magic(byte_stream)](
            byte_stream
        )
        if dtype.hasobject:
            raise ValueError("objects")
        numbers = np.frombuffer(array.data, dtype, math.prod(shape), byte_stream.tell())
        return numbers.reshape(shape, order="F" if column_order else "C")
    except Exception as error:  # damaged bytes raise a dozen kinds
        raise ValueError(f"{name}: cannot be read as numbers ({error})") from None


def _reply(message: Message, theta: Numbers, size_name: str) -> Reply:
    """A message as a reply; ValueError saying why it is not usable."""
    if message.has_error():
        raise ValueError(f"error: {message.error.reason}")
    for record_name, record in message.content.array_records.items():
        if set(record) != set(theta):
            continue
        array_views = views(record)
        # In one order for all senders: rows of names are compared between nodes.
        arrays = {array_name: array_views[array_name] for array_name in theta}
        for array_name, array in arrays.items():
            if array.shape != theta[array_name].shape:
                raise ValueError(
                    f"{array_name}: {array.shape} where {theta[array_name].shape} was sent"
                )
        return Reply(
            _copy(message), record_name, arrays, theta, _size(message, size_name)
        )
    raise ValueError(MASKED)


def _copy(message: Message) -> Message:
    """A message with records of its own, in which the same arrays lie."""
    message = copy.copy(message)
    message.content = message.content.copy()
    # A strategy may empty the records that it is given; the arrays in them are shared.
    for record_name, record in message.content.items():
        message.content[record_name] = record.copy()
    return message


def _size(message: Message, name: str) -> int:
    """Samples that a node says it holds; 1 where nothing of that name is said."""
    sample_count: Any = 1
    for metric_record in message.content.metric_records.values():
        sample_count = metric_record.get(name, sample_count)
    if not isinstance(sample_count, int | float) or not 0 < sample_count <= MOST_SAMPLES:
        raise ValueError(
            f"{name}: expected a number of samples, got {shown(sample_count)}"
        )
    # Less than half a sample would count for nothing, and weights could sum to 0.
    return max(1, round(sample_count))


def _floating(arrays: Numbers, counted: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the arrays that count and are of floating numbers here."""
    return tuple(
        array_name
        for array_name, array in arrays.items()
        if array.dtype.kind == "f"
        and (
            array_name in counted
            if counted is not None
            else not array_name.endswith(STATISTICS)
        )
    )


def _norm(arrays: Iterable[np.ndarray]) -> float:
    # Numbers too large make the length infinite, which `read` looks for: no warning is due.
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(sum(float(np.vdot(array, array)) for array in arrays))
