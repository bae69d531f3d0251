"""Scores: a round of Flower as the matrix that it is, and what its rows are worth.

Nothing here knows the model: replies are arrays, and what a strategy makes of some of them is its
own business. Below: games, methods. Above: scored.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.checks import shown
from fedlab_mini.methods.fedavg import bounded
from fedlab_mini.methods.round_scores import few_or_many

Make = Callable[[list[Message]], ArrayRecord]
Validate = Callable[[ArrayRecord], float]
Numbers = Mapping[str, np.ndarray]
# The names that batch normalisation gives its statistics.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
REASON = 200  # characters of a node's own words that are kept
MOST = 2**53  # samples of a node: beyond, a sum of sizes is no longer exact
MASKED = "no floating numbers under the names that were sent: masked, cannot be scored"


@dataclass(frozen=True)
class Reply:
    """A reply that was read: a message that no strategy can empty, what it was sent.

    update  [P] local minus global parameters, in float64
    """

    message: Message
    record: str
    arrays: Numbers
    theta: Numbers
    size: int
    update: Tensor

    @property
    def node(self) -> int:
        """Flower's id of the node."""
        return self.message.metadata.src_node_id

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays in their order: name, a zero byte, the bytes that Flower sends."""
        found = hashlib.sha256()
        for name, array in self.message.content[self.record].items():
            found.update(name.encode() + b"\0" + array.data)
        return found.hexdigest()

    def again(self, *, silent: bool = False) -> Message:
        """The message for a strategy to take apart; ``silent``: as if the model had not moved."""
        message = _copy(self.message)
        if silent:
            message.content[self.record] = ArrayRecord(
                {n: Array(self.theta[n].astype(a.dtype)) for n, a in self.arrays.items()}
            )
        return message


@dataclass
class Replies:
    """One round: usable replies as they arrived and by node, and why the others are not usable.

    ordered  by node; rows  [m, P] their updates
    """

    arrived: list[Reply]
    missing: dict[str, str]

    def __post_init__(self) -> None:
        self.ordered = sorted(self.arrived, key=lambda reply: reply.node)
        rows = [reply.update for reply in self.ordered]
        self.rows = torch.stack(rows) if rows else torch.empty(0, 0)

    @classmethod
    def read(
        cls, messages: Sequence[Message], sent: Mapping[int, ArrayRecord], size_name: str
    ) -> Replies:
        """Sort the messages out. ValueError if there are replies and none can be scored.

        sent  {node: what it was sent}; size_name: what replies call their samples
        """
        missing = {str(node): "no reply" for node in sent}
        # By identity: nodes that were sent the same record share its numbers.
        thetas = {id(record): numbers(record) for record in sent.values()}
        arrived: dict[int, Reply] = {}
        for message in messages:
            node = message.metadata.src_node_id
            try:
                # The first usable reply counts: who comes later in another's name does not.
                if node in arrived:
                    continue
                if node not in sent:
                    raise ValueError("it was not asked")
                arrived[node] = _reply(message, thetas[id(sent[node])], size_name)
                # It began as missing, and a broken reply before it may have left why.
                del missing[str(node)]
            except ValueError as error:
                missing[str(node)] = " ".join(str(error).split())[:REASON]
        # All have failed: a bad round. All have sent what cannot be read: a wrong setting.
        if not arrived and any(message.has_content() for message in messages):
            why = next(iter(missing.values()))
            raise ValueError(f"replies: none of {len(messages)} can be scored, as {why}")
        return cls([*arrived.values()], missing)

    def step(self, start: ArrayRecord, end: ArrayRecord) -> Tensor:
        """How far the parameters that count lie between two models, [P]."""
        names = counted(self.ordered[0].theta)
        return flat(numbers(end), names) - flat(numbers(start), names)

    def class_cosine(self, step: Tensor) -> Tensor:
        """Mean over classes of the cosine between rows of the last layer: [m]."""
        theta = self.ordered[0].theta
        shapes = [theta[name].shape for name in counted(theta)]
        matrices = [place for place, shape in enumerate(shapes) if len(shape) > 1]
        if not matrices:
            raise ValueError("class cosine: expected an array of two dimensions")
        # The last matrix is taken for the last layer, [classes, inputs].
        last, sizes = matrices[-1], [math.prod(shape) for shape in shapes]
        classes, rows = shapes[last][0], self.rows.split(sizes, 1)[last]
        by_class = rows.view(len(rows), classes, -1).unbind(1)
        pairs = zip(by_class, step.split(sizes)[last].view(classes, -1), strict=True)
        return torch.stack([fm.cosines(*pair) for pair in pairs]).mean(0)


def alignment(
    replies: Replies, targets: Mapping[str, Tensor], weights: Tensor | None
) -> dict[str, list[float]]:
    """Scores [m] from inner products.

    targets  {score: the step [P] that updates are compared with}; "class cosine" among
             them looks at the last layer
    weights  [m] CGSV's; None: it is not wanted
    """
    found = {name: fm.cosines(replies.rows, step) for name, step in targets.items()}
    if "class cosine" in found:
        found["class cosine"] = replies.class_cosine(targets["class cosine"])
    if "trust cosine" in found:  # it has no negative part [Cao et al. 2021]
        found["trust cosine"].clamp_(min=0)
    if weights is not None:
        lengths = torch.linalg.vector_norm(replies.rows, dim=1, keepdim=True)
        # An update of length 0 stays 0, whatever it is divided by.
        units = replies.rows / torch.where(lengths > 0, lengths, 1)
        found["CGSV"] = fm.cosines(replies.rows, weights @ units)
    return {name: column.tolist() for name, column in found.items()}


def losses(
    replies: Replies, make: Make, validate: Validate, methods: Collection[str]
) -> dict[str, list[float]]:
    """Scores [m] from losses: v(S) is minus the loss of what is made of the replies of S.

    Left out, a reply is gone; silent, it is there and has not moved: for a strategy that averages
    by size the two games of chapter 2. The second order is the mean of joining first and joining
    last in the silent game: Shapley's value itself where the loss is quadratic
    """
    place_of = {reply.node: place for place, reply in enumerate(replies.ordered)}

    def worth(members: Sequence[bool], silent: bool) -> float:
        # A rule that has momentum moves without anybody: of nobody it is asked in silence, too.
        silent = silent or not any(members)
        # In the order of arrival, as the strategy had them: the last digits of a sum hang on it.
        inside = [(reply, members[place_of[reply.node]]) for reply in replies.arrived]
        some = [r.again(silent=not member) for r, member in inside if silent or member]
        loss = torch.tensor(float(validate(make(some))), dtype=torch.float64)
        return -float(bounded(loss))

    def game(silent: bool) -> fm.Game:
        def value(coalitions: Tensor) -> Tensor:
            worths = [worth(coalition, silent) for coalition in coalitions.tolist()]
            return torch.tensor(worths, dtype=torch.float64)

        return fm.Game(len(place_of), value)

    found, silent_game = {}, game(silent=True)
    if "leave one out" in methods:
        found["leave one out"] = fm.leave_one_out(game(silent=False)).values
    if "second order" in methods:
        # Alone, a reply joins before all others; left out of all, it joins last.
        ends = fm.alone(silent_game).values + fm.leave_one_out(silent_game).values
        found["second order"] = ends / 2
    if "Shapley, silent" in methods:
        found["Shapley, silent"] = few_or_many(silent_game).values
    return {name: column.tolist() for name, column in found.items()}


def numbers(record: ArrayRecord) -> dict[str, np.ndarray]:
    """The numbers of Flower's arrays; ValueError naming what is not numbers."""
    found = {}
    for name, array in record.items():
        try:
            found[name] = array.numpy()
        except Exception as error:  # damaged bytes raise a dozen kinds
            raise ValueError(f"{name}: cannot be read as numbers ({error})") from None
    return found


def counted(arrays: Numbers) -> list[str]:
    """Names of the arrays that count: of floating numbers, and no statistics."""
    floating = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    return [name for name in floating if not name.endswith(STATISTICS)]


def flat(arrays: Numbers, names: Sequence[str]) -> Tensor:
    """Arrays of these names as one vector [P] of float64."""
    parts = [arrays[name].astype(np.float64).ravel() for name in names]
    return torch.from_numpy(np.concatenate(parts))


def _reply(message: Message, theta: Numbers, size_name: str) -> Reply:
    """A message as a reply; ValueError saying why it is not usable."""
    if message.has_error():
        raise ValueError(f"error: {message.error.reason}")
    for record, content in message.content.array_records.items():
        if set(content) != set(theta):
            continue
        found = numbers(content)
        # In one order for all senders: rows of names are compared between nodes.
        arrays = {name: found[name] for name in theta}
        for name, array in arrays.items():
            if array.shape != theta[name].shape:
                was = theta[name].shape
                raise ValueError(f"{name}: {array.shape} where {was} was sent")
        names = counted(theta)
        if not names or not set(names) <= set(counted(arrays)):
            raise ValueError(MASKED)
        # The server's may have more digits than the node's type: they are no update.
        held = {name: theta[name].astype(array.dtype) for name, array in arrays.items()}
        update = flat(arrays, names) - flat(held, names)
        # Of a length that can be written down, too: squares of huge numbers are infinite.
        if not torch.isfinite(torch.linalg.vector_norm(update)):
            raise ValueError("not finite")
        size = _size(message, size_name)
        return Reply(_copy(message), record, arrays, theta, size, update)
    raise ValueError(MASKED)


def _copy(message: Message) -> Message:
    """A message with records of its own, in which the same arrays lie."""
    message = copy.copy(message)
    message.content = message.content.copy()
    # A strategy may empty the records that it is given; the arrays in them are shared.
    for name, record in message.content.items():
        message.content[name] = record.copy()
    return message


def _size(message: Message, name: str) -> int:
    """Samples that a node says it holds; 1 where nothing of that name is said."""
    count: Any = 1
    for record in message.content.metric_records.values():
        count = record.get(name, count)
    if not isinstance(count, int | float) or not 0 < count <= MOST:
        raise ValueError(f"{name}: expected a number of samples, got {shown(count)}")
    # Less than half a sample would count for nothing, and weights could sum to 0.
    return max(1, round(count))
