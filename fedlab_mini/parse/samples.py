"""Samples: pairs (x, y) and mappings by client, as people bring them.

Builds on checks. Above: worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from . import checks

V = TypeVar("V")
Samples = tuple[Tensor, Tensor]  # x [n, ...], y [n] or, without classes, [n, ...]


def samples_of(
    name: str,
    pair: Samples,
    classes: int | None = None,
    *,
    like: Tensor | None = None,
    finite: bool = False,
    columns: Sequence[Any] = (),
) -> Samples:
    """A checked pair: x [n, ...] floating, y [n] in 0..classes-1, or [n, ...] of x's type."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise checks.refusal(name, "a pair of arrays (x, y)", pair, TypeError)
    given = checks.in_columns(f"{name}: x", pair[0], columns)
    x = checks.reals(f"{name}: x", given, ["n", "d", "..."], finite=finite)
    y = _labels(f"{name}: y", checks.alongside(f"{name}: y", pair[1], given), x, classes)
    if like is not None and (x.dtype, x.shape[1:]) != (like.dtype, like.shape[1:]):
        expected = f"inputs like the first client's, {checks.shown(like[:1])}"
        raise checks.refusal(name, expected, x[:1])
    return x, y


def _labels(name: str, value: Any, x: Tensor, classes: int | None) -> Tensor:
    """Labels [n] in 0..classes-1; without classes numbers [n, ...] of the type of ``x``."""
    if classes == 0:
        numbers = checks.array(name, value, [len(x), "..."])
        if numbers.dtype == torch.bool:  # multilabel: each label present or not
            return numbers.to(x)
        return checks.reals(name, numbers, [len(x), "..."]).to(x)
    try:
        return checks.wholes(name, value, [len(x)], 0, classes and classes - 1)
    except (TypeError, ValueError) as error:
        hint = "; numbers that are no classes: classes=0, and a model with a loss of its own"
        raise type(error)(f"{error}{hint}" if classes is None else str(error)) from None


def labels_of(
    name: str, value: Any, x: Tensor, classes: int | None = None, *, numbers: bool = False
) -> Tensor:
    """Labels of the samples ``x`` on their device: classes [N]; with ``numbers`` any [N, ...]."""
    if not numbers:
        high = None if classes is None else classes - 1
        return checks.wholes(name, value, [len(x)], high=high).to(x.device)
    labels = checks.array(name, value, [len(x), "..."])
    real = labels.is_floating_point() or labels.dtype == torch.bool
    return labels.to(x) if real else labels.to(x.device, torch.long)


def by_client(name: str, values: Mapping[int, V], clients: int) -> dict[int, V]:
    """A mapping from client ids, 0..clients-1, to anything, as a dict."""
    checks.instance(name, values, Mapping, "{client id: what}")
    return {checks.whole(name, client, 0, clients - 1): value for client, value in values.items()}
