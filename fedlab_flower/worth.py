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

from fedlab_mini.games import shapley
from fedlab_mini.games.game import Game
from fedlab_mini.methods.fedavg import bounded
from fedlab_mini.methods.round_scores import few_or_many

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
    directions: dict[str, Arrays] = {}
    for score, target in targets.items():
        target_arrays = views(target)
        directions[score] = [
            np.subtract(target_arrays[array_name], theta[array_name], dtype=np.float64)
            for array_name in names
        ]
    if weights is not None:
        directions["CGSV"] = _unit_sum(replies, weights.tolist())
    direction_norms = {
        score: _dot(direction, direction) ** 0.5
        for score, direction in directions.items()
    }
    scores: dict[str, list[float]] = {score: [] for score in directions}
    for reply in replies.sorted:
        update = reply.update(names)
        for score, direction in directions.items():
            if score == "class cosine":
                scores[score].append(_class_cosine(update, direction))
                continue
            norm_product = replies.norms[reply.node] * direction_norms[score]
            # An update of length 0 points nowhere and scores 0.
            cosine = _dot(update, direction) / norm_product if norm_product else 0.0
            # Trust has no negative part [Cao et al. 2021]; rounding may lead a little beyond 1.
            lowest_cosine = 0.0 if score == "trust cosine" else -1.0
            scores[score].append(min(1.0, max(lowest_cosine, cosine)))
    return scores


def values(
    replies: Replies, make: Make, validate: Validate, methods: Collection[str]
) -> dict[str, list[float]]:
    """Scores [m] from losses: v(S) is minus the loss of what is made of the replies of S.

    Left out, a reply is gone; silent, it is there and has not moved: for a strategy that averages
    by size the two games of chapter 2. The second order is the mean of joining first and joining
    last in the silent game: Shapley's value itself where the loss is quadratic
    """
    place_of = {reply.node: place for place, reply in enumerate(replies.sorted)}

    def worth(members: Sequence[bool], silent: bool) -> float:
        # A rule that has momentum moves without anybody: of nobody it is asked in silence, too.
        silent = silent or not any(members)
        is_member = {
            reply.node: members[place_of[reply.node]] for reply in replies.arrived
        }
        # In the order of arrival, as the strategy had them: the last digits of a sum hang on it.
        messages = [
            reply.again(silent=not is_member[reply.node])
            for reply in replies.arrived
            if silent or is_member[reply.node]
        ]
        return -float(
            bounded(torch.tensor(float(validate(make(messages))), dtype=torch.float64))
        )

    def game(silent: bool) -> Game:
        def value(coalitions: Tensor) -> Tensor:
            worths = [worth(coalition, silent) for coalition in coalitions.tolist()]
            return torch.tensor(worths, dtype=torch.float64)

        return Game(len(place_of), value)

    score_values, silent_game = {}, game(silent=True)
    if "leave one out" in methods:
        score_values["leave one out"] = shapley.leave_one_out(game(silent=False)).values
    if "second order" in methods:
        # Alone, a reply joins before all others; left out of all, it joins last.
        first, last = (
            shapley.alone(silent_game).values,
            shapley.leave_one_out(silent_game).values,
        )
        score_values["second order"] = (first + last) / 2
    if "Shapley, silent" in methods:
        score_values["Shapley, silent"] = few_or_many(silent_game).values
    return {score_name: column.tolist() for score_name, column in score_values.items()}


def _unit_sum(replies: Replies, weights: Sequence[float]) -> Arrays:
    """CGSV's direction: the weighted sum of the updates, each scaled to length 1."""
    weighted_sum = None
    for reply, weight in zip(replies.sorted, weights, strict=True):
        # An update of length 0 stays 0, whatever it is divided by.
        unit_weight = weight / (replies.norms[reply.node] or 1.0)
        update = reply.update(replies.names)
        if weighted_sum is None:
            weighted_sum = [np.zeros_like(array) for array in update]
        for array, update_array in zip(weighted_sum, update, strict=True):
            array += unit_weight * update_array
    return weighted_sum or []


def _class_cosine(update: Arrays, step: Arrays) -> float:
    """Mean over classes of the cosine between rows of the last layer [classes, inputs]."""
    layer_pairs = [
        (update_layer, step_layer)
        for update_layer, step_layer in zip(update, step, strict=True)
        if update_layer.ndim > 1
    ]
    if not layer_pairs:
        raise ValueError("class cosine: expected an array of at least two dimensions")
    # The last matrix is taken for the last layer; both become [classes, inputs].
    update_layer, step_layer = (
        layer.reshape(len(layer), -1) for layer in layer_pairs[-1]
    )
    products = np.linalg.norm(update_layer, axis=1) * np.linalg.norm(step_layer, axis=1)
    inner = (update_layer * step_layer).sum(1)
    return float(
        np.divide(inner, products, out=np.zeros_like(inner), where=products > 0).mean()
    )


def _dot(first_arrays: Arrays, second_arrays: Arrays) -> float:
    return sum(
        float(np.vdot(a, b)) for a, b in zip(first_arrays, second_arrays, strict=True)
    )
