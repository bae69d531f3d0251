"""One round, all coalitions: the quality of theta + the weighted updates of every coalition.

Chapter 2 uses it. The plain way averages each coalition's updates and evaluates the model. Here a
perceptron's first layer is computed once per client. It is linear, so its output for a mean of
models is h / c: h is the weighted sum of the members' outputs, and c the sum of the weights. Since
ReLU(h / c) = ReLU(h) / c, the code divides the weights of layer two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..engine.model import Model
from ..engine.outputs import CACHE, measure_of, parts
from ..parse.metric import Metric
from ..streams import one_thread
from .game import encode

LATER_BYTES = 16 << 20  # of averaged later layers in memory at a time
HALF_SUMS = 64  # the most half coalitions with a table of sums
SAMPLES = 128  # at a time, so that a stack of hidden layers stays in the cache


@dataclass(frozen=True, eq=False)
class RoundGame:
    """The ``value`` function of a round's ``Game``: coalitions [C, m] -> worths [C].

    theta [P], updates [m, P], weights [m] > 0; x [N, ...], y [N] the samples for the evaluation
    metric  "accuracy" or a function of (outputs, labels); or "loss": the worth is then minus it
    absent  "left out": a coalition's weights are divided by their sum; "silent": by the sum over
            all m, so that absent clients count as zero updates. A zero update changes no bit of
            the worth then
    """

    net: Model
    theta: Tensor
    updates: Tensor
    weights: Tensor
    x: Tensor
    y: Tensor
    metric: Metric = "accuracy"
    absent: str = "left out"

    @torch.no_grad()
    def __call__(self, coalitions: Tensor) -> Tensor:
        """Worth [C] of the coalitions [C, m]; the empty coalition has the worth of theta."""
        shares, totals, same = self._shares(coalitions)
        nonempty = shares.any(1)
        quality = torch.empty(len(shares), dtype=torch.float64)
        if not nonempty.all():
            untouched = self.net.evaluate(self.theta[None], self.x, self.y, self.metric)
            quality[~nonempty.cpu()] = untouched.cpu()
        if nonempty.any():
            layers = parts(self.net).layers
            deep = layers and len(layers) > 1
            evaluate = _stacked if deep else _one_by_one
            with one_thread():
                evaluated = evaluate(self, shares[nonempty], totals[nonempty])
            quality[nonempty.cpu()] = evaluated.cpu()
        worth = -quality if self.metric == "loss" else quality
        return worth[same]

    def _shares(self, coalitions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Members' weights [C, m], their divisors [C, 1], and the row that each coalition uses."""
        members, same = coalitions.to(self.updates), torch.arange(len(coalitions))
        if self.absent == "left out":
            shares = members * self.weights
            return shares, shares.sum(1, keepdim=True), same
        # Some sent the same, with equal weights: c members of such a group count as its first c.
        present = members @ self._twins > self._twins.tril(-1).sum(1)
        moved = self.updates.any(1)
        shares = present * moved * (self.weights / self.weights.sum())
        if not moved.all() or self._twins.sum() > len(moved):
            # Coalitions that differ only by these have one model, which is evaluated once.
            shares, same = shares.unique(dim=0, return_inverse=True)
        return shares, torch.ones_like(shares[:, :1]), same

    @cached_property
    def _twins(self) -> Tensor:
        """Which clients sent the same with the same weight, [m, m] of 0 and 1."""
        sent = torch.cat([self.updates, self.weights[:, None]], 1)
        group = sent.unique(dim=0, return_inverse=True)[1]
        return (group[:, None] == group).to(sent)


def _one_by_one(game: RoundGame, shares: Tensor, totals: Tensor) -> Tensor:
    """Any model: average the members' updates, and evaluate a few averages at a time."""
    stack_size = max(1, CACHE // (game.net.P * game.theta.element_size()))
    qualities = []
    for members, divisor in zip(shares.split(stack_size), totals.split(stack_size), strict=True):
        # [C, m] @ [m, P] -> [C, P]: one model per coalition
        models = game.theta + (members / divisor) @ game.updates
        qualities.append(game.net.evaluate(models, game.x, game.y, game.metric))
    return torch.cat(qualities)


def _stacked(game: RoundGame, shares: Tensor, totals: Tensor) -> Tensor:
    """Perceptrons: the first layer once per member, later layers once per coalition."""
    net, theta = game.net, game.theta
    if game.absent == "silent":
        # theta becomes one more player, which is always present and has weight 1.
        models = torch.cat([theta[None], game.updates])
        shares = torch.cat([totals, shares], 1)
    else:
        # Shares sum to their total, so the coalition's model is the mean of the members' models.
        models = theta + game.updates
    weight, bias = net.split(models)[:2]
    inputs = game.x.flatten(1).split(SAMPLES)
    # [m, width, d] @ [d, n] -> [m, width, n]: only m first layers, not C
    first_outputs = [weight @ samples.T + bias[:, :, None] for samples in inputs]
    later_parameters = net.P - weight[0].numel() - bias[0].numel()
    stack_size = max(1, LATER_BYTES // (later_parameters * theta.element_size()))
    quality = torch.empty(len(shares), dtype=torch.float64, device=shares.device)
    # In an order by halves, neighbours share most of their sums.
    for rows in _by_halves(shares).split(stack_size):
        later_layers = _later_layers(net, models[:, -later_parameters:], shares[rows], totals[rows])
        outputs = [_class_scores(shares[rows], first, later_layers) for first in first_outputs]
        together = torch.cat(outputs, 2).transpose(1, 2)  # [c, N, classes]
        quality[rows] = measure_of(net, game.metric)(together, game.y)
    return quality


def _half_codes(shares: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Bit masks [c] of the members in the lower and in the upper half of the players."""
    members = (shares > 0).cpu()
    half = shares.shape[1] // 2
    return encode(members[:, :half]), encode(members[:, half:])


def _by_halves(shares: Tensor) -> Tensor:
    """The coalitions sorted by their members in the upper half, then in the lower half."""
    return torch.from_numpy(np.lexsort(_half_codes(shares))).to(shares.device)


def _later_layers(net: Model, tails: Tensor, shares: Tensor, totals: Tensor) -> list[Tensor]:
    """Weights and biases of layer two and above, averaged for each coalition: [c, *shape] each."""
    shapes = list(net.shapes.values())[2:]
    # [c, m] @ [m, P'] -> [c, P'], with the P' parameters above the first layer
    averages = (shares / totals) @ tails
    pieces = averages.split([shape.numel() for shape in shapes], 1)
    averaged = [piece.unflatten(1, shape) for piece, shape in zip(pieces, shapes, strict=True)]
    averaged[0] = averaged[0] / totals[:, :, None]  # the division of the first layer
    return averaged


def _class_scores(shares: Tensor, first: Tensor, later: list[Tensor]) -> Tensor:
    """Class scores [c, classes, N] from the members' first-layer outputs [m, width, N]."""
    scores = []
    for rows, hidden_sums in _hidden_sums(shares, first.flatten(1)):
        hidden = hidden_sums.unflatten(1, first.shape[1:])
        for weight, bias in zip(later[0::2], later[1::2], strict=True):
            hidden = torch.baddbmm(bias[rows][:, :, None], weight[rows], hidden.relu_())
        scores.append(hidden)
    return torch.cat(scores)


def _hidden_sums(shares: Tensor, first: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The sums ``shares @ first`` in stacks that fit the cache: (slice of rows, [c, width * N]).

    The next stack overwrites a stack. The sum over a coalition is the sum over its lower half plus
    the sum over its upper half. If many coalitions share halves, two small tables and one addition
    replace the product.
    """
    lower_half = shares.shape[1] // 2
    lower_codes, upper_codes = _half_codes(shares)
    _, lower_rows, lower_place = np.unique(lower_codes, return_index=True, return_inverse=True)
    _, upper_rows, counts = np.unique(upper_codes, return_index=True, return_counts=True)
    if len(lower_rows) > HALF_SUMS or len(lower_rows) * len(upper_rows) > 2 * len(shares):
        stack_size = max(1, CACHE // (first.shape[1] * first.element_size()))
        for first_row in range(0, len(shares), stack_size):
            rows = slice(first_row, first_row + stack_size)
            yield rows, shares[rows] @ first
        return
    lower_sums = shares[lower_rows, :lower_half] @ first[:lower_half]
    upper_sums = shares[upper_rows, lower_half:] @ first[lower_half:]
    # Rows are in order of their upper halves, and a game asks for each coalition once. So an upper
    # half occurs with every lower half at most once.
    buffer = torch.empty_like(lower_sums)
    first_row = 0
    for upper_sum, count in zip(upper_sums, counts.tolist(), strict=True):
        rows = slice(first_row, first_row + count)
        # If all lower halves occur, in order, the table itself is added and nothing is copied.
        complete = count == len(lower_rows) and (np.diff(lower_place[rows]) == 1).all()
        addends = lower_sums if complete else lower_sums[lower_place[rows]]
        yield rows, torch.add(addends, upper_sum, out=buffer[:count])
        first_row += count
