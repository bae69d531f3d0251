"""Ids of clients, as logs hold them: one client, one id, whatever wrote it. Below: checks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ..checks import shown


def client_ids(label: str, value: Any) -> list[Hashable]:
    """Client ids as Python's numbers and words, whatever kind of array or scalar holds them."""
    message = f"{label}: expected ids [m], numbers or words, got {shown(value)}"
    # A text has letters, and a masked array would be read through its mask.
    no_list = isinstance(value, str | bytes | np.ma.MaskedArray)
    if no_list or not (isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1):
        raise TypeError(message)
    try:
        # One by one: NumPy would turn a mix into words, and large numbers into rounded ones.
        ids = [_client_id(one) for one in value]
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(message) from None
    told_apart(label, ids)
    return ids


def _client_id(value: Any) -> Hashable:
    """A whole number or a word, from Python, NumPy, pandas or torch; a TypeError else."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return str(value) if isinstance(value, str) else int(value)


def told_apart(label: str, ids: Iterable[Hashable]) -> None:
    """Refuse ids of which one is a number and another the same number in words."""
    known = set(ids)
    twins = [
        client for client in known if isinstance(client, int) and str(client) in known
    ]
    if twins:
        number = min(twins)
        both = f'{number} and "{number}"'
        raise ValueError(f"{label}: {both} cannot be told apart; write numbers or words")
