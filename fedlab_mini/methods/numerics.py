"""Numerics: what several methods need, so that no number overflows, underflows or is missing.

Below: engine.rounds. Above: methods.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..engine.rounds import Server


def bounded(losses: Tensor) -> Tensor:
    """Losses of models, where an infinite loss or NaN becomes the largest finite number."""
    worst = torch.finfo(torch.float32).max
    return torch.nan_to_num(losses, nan=worst, posinf=worst).clamp(max=worst)


def classes_of(server: Server, name: str) -> int:
    """The number of classes; a ValueError that names ``name`` if the labels are numbers."""
    if not server.classes:
        raise ValueError(f"{name}: needs classes, and the labels here are numbers")
    return server.classes


def of_usual_size(rows: Tensor) -> Tensor:
    """Rows [..., P], each divided by a power of two so that entries are at most 2 in size.

    The direction stays exact. Squares of a tiny or huge row would underflow or overflow.
    """
    largest = rows.abs().amax(-1, keepdim=True)
    # largest = mantissa * 2^exponent, and 2^exponent itself may overflow; zeros stay unchanged.
    powers = largest / (2 * torch.frexp(largest).mantissa)
    return rows / torch.where(largest > 0, powers, 1)


def median_sent(lengths: Tensor) -> Tensor:
    """The median of the lengths above 0, the lower of two middle ones; 0 if all are 0."""
    sent = lengths[lengths > 0]
    return sent.median() if len(sent) else lengths.new_zeros(())
