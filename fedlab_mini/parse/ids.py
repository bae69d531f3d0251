"""Ids of clients in logs: one client has one id, whichever program wrote it."""

from __future__ import annotations

import contextlib
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .checks import refusal, shown


def client_ids(label: str, value: Any) -> list[Hashable]:
    """Client ids as Python's numbers and words, from any kind of array or scalar."""
    # A text would give its letters, and a masked array would give values behind its mask.
    no_list = isinstance(value, str | bytes | np.ma.MaskedArray)
    if no_list or not (isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1):
        raise refusal(label, "a list of ids, numbers or words", value, TypeError)
    # One by one, because NumPy turns a mix into words, and rounds large numbers.
    ids = [_client_id(label, one) for one in value]
    for client, times in Counter(ids).items():
        if times > 1:
            raise ValueError(f"{label}: the id {client!r} appears twice")
    told_apart(label, ids)
    return ids


def _client_id(label: str, value: Any) -> Hashable:
    """A whole number or a word, from Python, NumPy, pandas or torch; otherwise a TypeError."""
    with contextlib.suppress(RuntimeError, UnicodeDecodeError):  # raised at the end
        if isinstance(value, Tensor | np.ndarray | np.generic) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bytes):
            value = value.decode()
    if isinstance(value, int | str) and not isinstance(value, bool):
        return str(value) if isinstance(value, str) else int(value)
    message = f"{label}: expected ids, numbers or words, got {shown(value)}"
    if isinstance(value, float) and value != value:
        raise TypeError(f"{label}: one id is missing (NaN)")
    if isinstance(value, float):
        # NumPy makes floats from whole numbers of 2^63 or more, and from columns with gaps.
        message += "; write numpy.array(ids, dtype=numpy.uint64), or words: floats are rounded"
    raise TypeError(message)


def told_apart(label: str, ids: Iterable[Hashable]) -> None:
    """Refuse two ids that look the same: 0, "0", "0.0"; "a", "a ", or with an invisible mark."""
    forms: dict[str, Hashable] = {}
    for client in ids:
        form = _printed(str(client))
        other = forms.setdefault(form, client)
        if other != client:
            both = f"{other!a} and {client!a} cannot be told apart"
            raise ValueError(f"{label}: {both}; write one of them")


def _printed(name: str) -> str:
    """A name as a reader sees it: one spelling of accents and spaces, no invisible marks."""
    letters = unicodedata.normalize("NFKC", name)
    seen = "".join(c for c in letters if unicodedata.category(c) != "Cf")
    form = " ".join(seen.split())
    # Longer numbers are not converted, because floats would round them.
    short = len(form) <= 15 and form.replace(".", "", 1).isdecimal()
    return str(int(float(form))) if short and float(form).is_integer() else form
