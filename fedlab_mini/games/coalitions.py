"""One round, all coalitions: the quality of theta + the weighted updates of every coalition.

Chapter 2 uses it. The first layer is linear, so what it puts out for a mean of models is the mean
of what it puts out for each; and as ReLU(c h) = c ReLU(h) for c > 0, the division can wait until
layer two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..engine.model import CACHE, Model, measure, one_thread
from .game import encode

ROOM = 16 << 20  # bytes of averaged later layers that are held at a time
TABLE = 64  # half coalitions whose sums are tabulated
BLOCK = 128  # samples at a time, so that a stack of hidden layers stays in the cache


@torch.no_grad()
def coalition_metric(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    weights: Tensor,
    coalitions: Tensor,
    x: Tensor,
    y: Tensor,
    metric: str,
    absent: str = "left out",
) -> Tensor:
    """Metric [C] of theta + the weighted updates of every coalition; of theta for the empty one.

    theta [P], updates [m, P], weights [m] > 0, coalitions [C, m] bool, x [N, ...], y [N]
    absent  "left out": the weights of a coalition are divided by their sum; "silent": by the sum
            over all m, so that who is absent adds nothing (and neither does a zero update: to the
            last bit)
    """
    mask = coalitions.to(updates) * weights  # [C, m]
    if absent == "silent":
        mask /= weights.sum()
        if not (moved := updates.any(1)).all():  # rows that differ by zeros are one row
            mask, back = (mask * moved).unique(dim=0, return_inverse=True)
        else:
            back = slice(None)
        total = torch.ones_like(mask[:, :1])
    else:
        total, back = mask.sum(1, keepdim=True), slice(None)
    full = mask.any(1)
    result = torch.empty(len(mask), dtype=torch.float64)
    if not full.all():
        result[~full.cpu()] = net.evaluate(theta[None], x, y, metric).cpu()
    if full.any():
        play = _stacked if net.layers and len(net.layers) > 1 else _one_by_one
        with one_thread():
            found = play(net, theta, updates, mask[full], total[full], x, y, metric, absent)
        result[full.cpu()] = found.cpu()
    return result[back]


def _one_by_one(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    mask: Tensor,
    total: Tensor,
    x: Tensor,
    y: Tensor,
    metric: str,
    absent: str,
) -> Tensor:
    many = max(1, CACHE // (net.P * theta.element_size()))
    parts = zip(mask.split(many), total.split(many), strict=True)
    return torch.cat([net.evaluate(theta + (w / t) @ updates, x, y, metric) for w, t in parts])


def _stacked(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    mask: Tensor,
    total: Tensor,
    x: Tensor,
    y: Tensor,
    metric: str,
    absent: str,
) -> Tensor:
    if absent == "silent":  # theta is a player that is always there, with a weight of 1
        models = torch.cat([theta[None], updates])
        mask = torch.cat([total, mask], 1)
    else:
        models = theta + updates  # every member's whole model, [m, P]
    weight, bias = net.split(models)[:2]
    first = [weight @ part.T + bias[:, :, None] for part in x.flatten(1).split(BLOCK)]
    result = torch.empty(len(mask), dtype=torch.float64, device=mask.device)
    tail = net.P - weight[0].numel() - bias[0].numel()
    many = max(1, ROOM // (tail * theta.element_size()))
    for rows in _by_halves(mask).split(many):
        later = _later_layers(net, models[:, -tail:], mask[rows], total[rows])
        scores = [_scores(mask[rows], outputs, later) for outputs in first]
        result[rows] = measure(torch.cat(scores, 2), y, metric)
    return result


def _half_codes(mask: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Bit masks [c] of the members in the lower and in the upper half of the players."""
    members = (mask > 0).cpu()
    half = mask.shape[1] // 2
    return encode(members[:, :half]), encode(members[:, half:])


def _by_halves(mask: Tensor) -> Tensor:
    """An order of the coalitions: by the members in the upper half, then in the lower half."""
    return torch.from_numpy(np.lexsort(_half_codes(mask))).to(mask.device)


def _later_layers(net: Model, tails: Tensor, mask: Tensor, total: Tensor) -> list[Tensor]:
    """Weights and biases of layer two and above, averaged in every coalition: [c, *shape] each."""
    shapes = list(net.shapes.values())[2:]
    pieces = ((mask / total) @ tails).split([shape.numel() for shape in shapes], 1)
    later = [piece.unflatten(1, shape) for piece, shape in zip(pieces, shapes, strict=True)]
    later[0] = later[0] / total[:, :, None]  # ReLU waited for its division
    return later


def _scores(mask: Tensor, first: Tensor, later: list[Tensor]) -> Tensor:
    """Class scores [c, classes, N] from the members' first-layer outputs [m, width, N]."""
    out = []
    for rows, h in _hidden(mask, first.flatten(1)):
        h = h.unflatten(1, first.shape[1:]).relu_()
        for i, (weight, bias) in enumerate(zip(later[0::2], later[1::2], strict=True)):
            h = torch.baddbmm(bias[rows][:, :, None], weight[rows], h.relu_() if i else h)
        out.append(h)
    return torch.cat(out)


def _hidden(mask: Tensor, first: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The sums ``mask @ first`` in stacks that fit the cache: (slice of rows, [c, width * N]).

    A stack is overwritten by the next. A sum over a coalition is a sum over its lower half plus one
    over its upper half: where many coalitions share their halves, two small tables and one addition
    replace the product.
    """
    half = mask.shape[1] // 2
    low_codes, high_codes = _half_codes(mask)
    _, lower, at = np.unique(low_codes, return_index=True, return_inverse=True)
    _, upper, counts = np.unique(high_codes, return_index=True, return_counts=True)
    if len(lower) > TABLE or len(lower) * len(upper) > 2 * len(mask):
        many = max(1, CACHE // (first.shape[1] * first.element_size()))
        for low in range(0, len(mask), many):
            yield slice(low, low + many), mask[low : low + many] @ first
        return
    table, sums, low = mask[lower, :half] @ first[:half], mask[upper, half:] @ first[half:], 0
    room = torch.empty_like(table)
    for high, count in zip(sums, counts.tolist(), strict=True):
        rows = slice(low, low + count)
        whole = count == len(lower) and (np.diff(at[rows]) == 1).all()
        part = table if whole else table[at[rows]]
        yield rows, torch.add(part, high, out=room[:count])
        low += count
