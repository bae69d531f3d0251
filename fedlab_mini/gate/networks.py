"""Networks: the public functions that make the book's own models, each with its parsers.

What they make is in ``fedlab_mini.engine.networks``. Below: gated.
"""

from __future__ import annotations

from typing import Any

from ..engine import networks
from ..parse.checks import whole, wholes
from .gated import Parsed, gated


def _widths(widths: tuple[Any, ...]) -> Parsed:
    if len(widths) < 2:
        raise ValueError(f"widths: expected at least inputs and classes, got {widths}")
    return {"widths": tuple(whole("widths", width) for width in widths)}


def _image(name: str, value: Any) -> tuple[int, ...]:
    return tuple(wholes(name, value, [3], 1).tolist())


def _maps(name: str, value: Any) -> tuple[int, ...]:
    return tuple(wholes(name, value, ["layers"], 1).tolist())


mlp = gated(networks.mlp, _widths)
logistic = gated(networks.logistic, inputs=whole, classes=whole)
cnn = gated(networks.cnn, shape=_image, kernel=whole, hidden=whole, classes=whole, channels=_maps)
