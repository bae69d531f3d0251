"""Worth: scores of a round's replies, by their directions or by losses. Below: replies, games.

Nothing here knows the model: replies are arrays, and what a strategy makes of some of them is its
own business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from flwr.app import ArrayRecord, Message
from torch import Tensor

from ..games import shapley
from ..games.game import Game
from ..methods.fedavg import bounded
from ..methods.neighbours import few_or_many
from .replies import Replies, views

Make = Callable[[list[Message]], ArrayRecord]
Validate = Callable[[ArrayRecord], float]
Arrays = Sequence[np.ndarray]


def cosines(
    replies: Replies,
    sent: ArrayRecord,
    targets: dict[str, ArrayRecord],
    weights: Tensor | None,
) -> dict[str, list[float]]:
    """Scores [m] from inner products, in three passes over the replies: no more memory than models.

    targets  {"step cosine": the model that was made, "trust cosine": ...}, those that are wanted;
             "class cosine" compares each row of the last layer with that of the model made
    weights  [m] CGSV's; None: it is not wanted
    """
    names, theta = replies.names, views(sent)
    ways: dict[str, Arrays] = {}
    for score, target in targets.items():
        there = views(target)
        ways[score] = [np.subtract(there[n], theta[n], dtype=np.float64) for n in names]
    if weights is not None:
        ways["CGSV"] = _unit_sum(replies, weights.tolist())
    lengths = {score: _dot(way, way) ** 0.5 for score, way in ways.items()}
    scores: dict[str, list[float]] = {score: [] for score in ways}
    for reply in replies.sorted:
        update = reply.update(names)
        for score, way in ways.items():
            if score == "class cosine":
                scores[score].append(_class_cosine(update, way))
                continue
            product = replies.norms[reply.node] * lengths[score]
            cosine = _dot(update, way) / product if product else 0.0
            low = 0.0 if score == "trust cosine" else -1.0
            scores[score].append(min(1.0, max(low, cosine)))
    return scores


def values(
    replies: Replies, make: Make, validate: Validate, methods: Collection[str]
) -> dict[str, list[float]]:
    """Scores [m] from losses: v(S) is minus the loss of what is made of the replies of S.

    Left out, a reply is gone; silent, it is there and has not moved: for a strategy that averages
    by size the two games of chapter 2. The second order is the mean of joining first and joining
    last in the silent game: Shapley's value itself where the loss is quadratic
    """
    places = {reply.node: place for place, reply in enumerate(replies.sorted)}

    def worth(members: Sequence[bool], silent: bool) -> float:
        # A rule that has momentum moves without anybody: of nobody it is asked in silence, too.
        silent = silent or not any(members)
        there = {reply.node: members[places[reply.node]] for reply in replies.arrived}
        messages = [
            reply.again(silent=not there[reply.node])
            for reply in replies.arrived
            if silent or there[reply.node]
        ]
        return -float(bounded(torch.tensor(float(validate(make(messages))), dtype=torch.float64)))

    def game(silent: bool) -> Game:
        def value(coalitions: Tensor) -> Tensor:
            worths = [worth(row, silent) for row in coalitions.tolist()]
            return torch.tensor(worths, dtype=torch.float64)

        return Game(len(places), value, mark="a round")

    scores, quiet = {}, game(silent=True)
    if "leave one out" in methods:
        scores["leave one out"] = shapley.leave_one_out(game(silent=False)).values
    if "second order" in methods:
        first, last = shapley.alone(quiet).values, shapley.leave_one_out(quiet).values
        scores["second order"] = (first + last) / 2
    if "Shapley, silent" in methods:
        scores["Shapley, silent"] = few_or_many(quiet).values
    return {name: column.tolist() for name, column in scores.items()}


def _unit_sum(replies: Replies, weights: Sequence[float]) -> Arrays:
    """CGSV's direction: the weighted sum of the updates, each scaled to length 1."""
    total = None
    for reply, weight in zip(replies.sorted, weights, strict=True):
        share = weight / (replies.norms[reply.node] or 1.0)
        update = reply.update(replies.names)
        if total is None:
            total = [np.zeros_like(array) for array in update]
        for array, part in zip(total, update, strict=True):
            array += share * part
    return total or []


def _class_cosine(update: Arrays, step: Arrays) -> float:
    """Mean over classes of the cosine between rows of the last layer [classes, inputs]."""
    layers = [(mine, ours) for mine, ours in zip(update, step, strict=True) if mine.ndim > 1]
    if not layers:
        raise ValueError("class cosine: expected an array of at least two dimensions")
    mine, ours = (layer.reshape(len(layer), -1) for layer in layers[-1])
    products = np.linalg.norm(mine, axis=1) * np.linalg.norm(ours, axis=1)
    inner = (mine * ours).sum(1)
    return float(np.divide(inner, products, out=np.zeros_like(inner), where=products > 0).mean())


def _dot(one: Arrays, other: Arrays) -> float:
    return sum(float(np.vdot(a, b)) for a, b in zip(one, other, strict=True))
