"""One round, all coalitions: the quality of theta + the mean update of every coalition.

Chapter 2 uses it. The first layer is linear, so what it puts out for a mean of models is the mean of
what it puts out for each; and ReLU(c h) = c ReLU(h) for c > 0 lets the division wait until layer two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .model import CACHE, Model, measure, one_thread

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
) -> Tensor:
    """Metric [C] of the models theta + (sum_S w_k delta_k) / (sum_S w_k), theta itself for the empty S.

    theta [P], updates [m, P], weights [m] > 0, coalitions [C, m] bool, x [N, ...], y [N]
    """
    mask = coalitions.to(updates) * weights  # [C, m]
    total = mask.sum(1, keepdim=True)
    empty = total[:, 0] == 0
    result = torch.empty(len(mask), dtype=torch.float64)
    if empty.any():
        result[empty.cpu()] = net.evaluate(theta[None], x, y, metric).cpu()
    full = ~empty
    if full.any():
        play = _stacked if net.layers and len(net.layers) > 1 else _one_by_one
        with one_thread():
            values = play(net, theta, updates, mask[full], total[full], x, y, metric)
        result[full.cpu()] = values.cpu()
    return result


def _one_by_one(
    net: Model,
    theta: Tensor,
    updates: Tensor,
    mask: Tensor,
    total: Tensor,
    x: Tensor,
    y: Tensor,
    metric: str,
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
) -> Tensor:
    x, models = x.flatten(1), theta + updates  # every member's whole model
    head = sum(shape.numel() for shape in list(net.shapes.values())[:2])
    weight, bias = net.split(models)[:2]
    tails, shapes = models[:, head:], list(net.shapes.values())[2:]
    width, values = net.layers[0][1], []
    first = [weight @ part.T + bias[:, :, None] for part in x.split(BLOCK)]  # [m, width, N] each
    many = max(1, CACHE // (width * min(BLOCK, len(x)) * x.element_size()))
    for w, t in zip(mask.split(many), total.split(many), strict=True):
        mean = (w / t) @ tails
        pieces = mean.split([shape.numel() for shape in shapes], 1)
        later = [p.unflatten(1, shape) for p, shape in zip(pieces, shapes, strict=True)]
        later[0] = later[0] / t[:, :, None]  # ReLU waited for its division
        scores = []
        for outputs in first:
            h = (w @ outputs.flatten(1)).unflatten(1, (width, -1))  # [c, width, N], times t
            for weight, bias in zip(later[0::2], later[1::2], strict=True):
                h = torch.baddbmm(bias[:, :, None], weight, h.relu_())
            scores.append(h)
        values.append(measure(torch.cat(scores, 2), y, metric))
    return torch.cat(values)
