"""Scores: a round of Flower as a matrix of updates, and the scores of its rows.

This module does not know the model: replies are arrays, and the strategy makes a model from some of
them. Builds on games and methods; used by scored.
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
from fedlab_mini.methods.numerics import bounded
from fedlab_mini.methods.round_scores import few_or_many
from fedlab_mini.parse.checks import shown

Make = Callable[[list[Message]], ArrayRecord]
Validate = Callable[[ArrayRecord], float]
Numbers = Mapping[str, np.ndarray]
# The names of the statistics of batch normalisation.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
REASON = 200  # characters of a node's error that are kept
MOST = 2**53  # samples of a node: above this, a sum of sizes is not exact
MASKED = "no floating numbers under the names that were sent: masked, cannot be scored"


@dataclass(frozen=True)
class Reply:
    """A reply that was read: a copy of the message, and the arrays that the node was sent.

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
        """SHA-256 of the arrays in order: for each, name, a zero byte, and Flower's bytes."""
        found = hashlib.sha256()
        for name, array in self.message.content[self.record].items():
            found.update(name.encode() + b"\0" + array.data)
        return found.hexdigest()

    def again(self, *, silent: bool = False) -> Message:
        """A copy of the message for a strategy; ``silent``: as if the node had not trained."""
        message = _copy(self.message)
        if silent:
            message.content[self.record] = ArrayRecord(
                {n: Array(self.theta[n].astype(a.dtype)) for n, a in self.arrays.items()}
            )
        return message


@dataclass
class Replies:
    """One round: usable replies in order of arrival, and why other nodes have none.

    ordered  the replies by node; rows  [m, P] their updates, in this order
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
        """Read the usable replies. ValueError if there are replies but none can be scored.

        sent  {node: what it was sent}; size_name: the name of the number of samples
        """
        missing = {str(node): "no reply" for node in sent}
        # Keyed by identity, because nodes that were sent the same record share its numbers.
        thetas = {id(record): numbers(record) for record in sent.values()}
        arrived: dict[int, Reply] = {}
        for message in messages:
            node = message.metadata.src_node_id
            try:
                # Only the first usable reply in a node's name counts.
                if node in arrived:
                    continue
                if node not in sent:
                    raise ValueError("it was not asked")
                arrived[node] = _reply(message, thetas[id(sent[node])], size_name)
                # Every node begins as missing, and an earlier broken reply may have left a reason.
                del missing[str(node)]
            except ValueError as error:
                missing[str(node)] = " ".join(str(error).split())[:REASON]
        # Replies without content mean a bad round; unreadable content means a wrong setting.
        if not arrived and any(message.has_content() for message in messages):
            why = next(iter(missing.values()))
            raise ValueError(f"replies: none of {len(messages)} can be scored, as {why}")
        return cls([*arrived.values()], missing)

    def step(self, start: ArrayRecord, end: ArrayRecord) -> Tensor:
        """The difference of two models in the parameters that count, [P]."""
        names = counted(self.ordered[0].theta)
        return flat(numbers(end), names) - flat(numbers(start), names)

    def class_cosine(self, step: Tensor) -> Tensor:
        """Mean over classes of the cosine between rows of the last layer: [m]."""
        theta = self.ordered[0].theta
        shapes = [theta[name].shape for name in counted(theta)]
        matrices = [place for place, shape in enumerate(shapes) if len(shape) > 1]
        if not matrices:
            raise ValueError("class cosine: expected an array of two dimensions")
        # The last matrix counts as the last layer, [classes, inputs].
        last, sizes = matrices[-1], [math.prod(shape) for shape in shapes]
        classes, rows = shapes[last][0], self.rows.split(sizes, 1)[last]
        if classes == 1:
            wanted = "expected a last layer with a row for each class, got one row"
            raise ValueError(f"class cosine: {wanted}; give methods= without it")
        by_class = rows.view(len(rows), classes, -1).unbind(1)
        pairs = zip(by_class, step.split(sizes)[last].view(classes, -1), strict=True)
        return torch.stack([fm.cosines(*pair) for pair in pairs]).mean(0)


def alignment(
    replies: Replies, targets: Mapping[str, Tensor], weights: Tensor | None
) -> dict[str, list[float]]:
    """Scores [m] from inner products.

    targets  {score: the step [P] that updates are compared with}; "class cosine" uses
             only the last layer
    weights  [m] CGSV's weights; None: without CGSV
    """
    found = {name: fm.cosines(replies.rows, step) for name, step in targets.items()}
    if "class cosine" in found:
        found["class cosine"] = replies.class_cosine(targets["class cosine"])
    if "trust cosine" in found:  # negative cosines become 0 [Cao et al. 2021]
        found["trust cosine"].clamp_(min=0)
    if weights is not None:
        lengths = torch.linalg.vector_norm(replies.rows, dim=1, keepdim=True)
        # An update of length 0 is divided by 1 and stays 0.
        units = replies.rows / torch.where(lengths > 0, lengths, 1)
        found["CGSV"] = fm.cosines(replies.rows, weights @ units)
    return {name: column.tolist() for name, column in found.items()}


def losses(
    replies: Replies, make: Make, validate: Validate, methods: Collection[str]
) -> dict[str, list[float]]:
    """Scores [m] from losses: v(S) is minus the loss of the model made from the replies of S.

    A reply outside S is left out, or in the silent game kept with an update of 0. For a strategy
    that averages by size, these are the two games of chapter 2. The Taylor score is the mean gain
    of joining first and last in the silent game, which is Shapley's value for a quadratic loss
    """
    place_of = {reply.node: place for place, reply in enumerate(replies.ordered)}

    def worth(members: Sequence[bool], silent: bool) -> float:
        # The empty coalition is always silent, because momentum may move the model without replies.
        silent = silent or not any(members)
        # In the order of arrival, because the last digits of a sum depend on the order.
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
        # Alone, a reply joins first; in leave-one-out, it joins last.
        ends = fm.alone(silent_game).values + fm.leave_one_out(silent_game).values
        found["second order"] = ends / 2
    if "Shapley, silent" in methods:
        found["Shapley, silent"] = few_or_many(silent_game).values
    return {name: column.tolist() for name, column in found.items()}


def numbers(record: ArrayRecord) -> dict[str, np.ndarray]:
    """The numbers of Flower's arrays; ValueError naming an array that is not numbers."""
    found = {}
    for name, array in record.items():
        try:
            found[name] = array.numpy()
        except Exception as error:  # damaged bytes raise a dozen kinds
            raise ValueError(f"{name}: cannot be read as numbers ({error})") from None
    return found


def counted(arrays: Numbers) -> list[str]:
    """Names of the arrays that count: with floating numbers, but not statistics."""
    floating = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    return [name for name in floating if not name.endswith(STATISTICS)]


def flat(arrays: Numbers, names: Sequence[str]) -> Tensor:
    """Arrays of these names as one vector [P] of float64."""
    parts = [arrays[name].astype(np.float64).ravel() for name in names]
    return torch.from_numpy(np.concatenate(parts))


def _reply(message: Message, theta: Numbers, size_name: str) -> Reply:
    """A message as a reply; ValueError with the reason if it is not usable."""
    if message.has_error():
        raise ValueError(f"error: {message.error.reason}")
    for record, content in message.content.array_records.items():
        if set(content) != set(theta):
            continue
        found = numbers(content)
        # The same order for all nodes, because their rows are compared.
        arrays = {name: found[name] for name in theta}
        for name, array in arrays.items():
            if array.shape != theta[name].shape:
                was = theta[name].shape
                raise ValueError(f"{name}: {array.shape} where {was} was sent")
        names = counted(theta)
        if not names or not set(names) <= set(counted(arrays)):
            raise ValueError(MASKED)
        # Digits of the server's model beyond the node's type are not part of an update.
        held = {name: theta[name].astype(array.dtype) for name, array in arrays.items()}
        update = flat(arrays, names) - flat(held, names)
        # The length must be finite, too, because squares of huge numbers are infinite.
        if not torch.isfinite(torch.linalg.vector_norm(update)):
            raise ValueError("not finite")
        size = _size(message, size_name)
        return Reply(_copy(message), record, arrays, theta, size, update)
    raise ValueError(MASKED)


def _copy(message: Message) -> Message:
    """A message with its own records, which share the arrays."""
    message = copy.copy(message)
    message.content = message.content.copy()
    # Records are copied, because a strategy may empty them; the arrays are shared.
    for name, record in message.content.items():
        message.content[name] = record.copy()
    return message


def _size(message: Message, name: str) -> int:
    """The number of samples that a node reports; 1 if it reports none of that name."""
    count: Any = 1
    for record in message.content.metric_records.values():
        count = record.get(name, count)
    if not isinstance(count, int | float) or not 0 < count <= MOST:
        raise ValueError(f"{name}: expected a number of samples, got {shown(count)}")
    # At least 1, because less than half a sample would be 0, and weights could sum to 0.
    return max(1, round(count))
