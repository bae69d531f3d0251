"""Checks: refusals with one voice, ``argument: expected this, got that``.

A value of another kind is a TypeError, a value out of range a ValueError. NumPy numbers are
numbers and NumPy arrays are tensors; what is accepted comes back as plain Python or as a tensor.
Used by every room above.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")
SHOWN = 80  # characters of a wrong value that a message quotes


def shown(value: object) -> str:
    """A wrong value, short enough for a message: arrays by shape and type."""
    if isinstance(value, Tensor | np.ndarray):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{type(value).__name__} {list(value.shape)} of {kind}"
    try:
        text = repr(value)
    except Exception:  # somebody's broken repr must not hide our message
        text = object.__repr__(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def whole(name: str, value: Any, low: int | None = 1, high: int | None = None) -> int:
    """A whole number in [low, high]: Python's or NumPy's, never a bool."""
    wanted = "" if low is None else f" of at least {low}" if high is None else f" of {low}..{high}"
    message = f"{name}: expected a whole number{wanted}, got {shown(value)}"
    if isinstance(value, bool | np.bool_ | Tensor):
        raise TypeError(message)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    if low is not None and not low <= number <= (2**63 - 1 if high is None else high):
        raise ValueError(message)
    return number


def number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, ends: str = "[]"
) -> float:
    """A finite real number between low and high; ``ends`` as in "(]": which ends are open."""
    if low == -math.inf and high == math.inf:
        wanted = "a finite number"
    elif high == math.inf:
        wanted = f"a finite number {'above' if ends[0] == '(' else 'of at least'} {low:g}"
    else:
        wanted = f"a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    message = f"{name}: expected {wanted}, got {shown(value)}"
    real = isinstance(value, int | float | np.integer | np.floating)
    if not real or isinstance(value, bool):
        raise TypeError(message)
    try:
        found = float(value)
    except OverflowError:
        raise ValueError(message) from None
    above = found > low if ends[0] == "(" else found >= low
    below = found < high if ends[1] == ")" else found <= high
    if not (math.isfinite(found) and above and below):
        raise ValueError(message)
    return found


def flag(name: str, value: Any) -> bool:
    """True or False, Python's or NumPy's."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def choice(name: str, value: Any, accepted: Sequence[str]) -> str:
    """One of a few words."""
    words = [f'"{word}"' for word in accepted]
    wanted = " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    message = f"{name}: expected {wanted}, got {shown(value)}"
    if not isinstance(value, str):
        raise TypeError(message)
    if value not in accepted:
        raise ValueError(message)
    return str(value)


def text(name: str, value: Any) -> str:
    """Words of any kind."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {shown(value)}")
    return str(value)


def device(name: str, value: Any) -> torch.device | None:
    """A device of this machine, by its name; None: where things are."""
    if value is None:
        return None
    message = f'{name}: expected a device of this machine such as "cpu", got {shown(value)}'
    if not isinstance(value, str | torch.device):
        raise TypeError(message)
    try:
        return torch.empty(0, device=value).device
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(message) from None


def instance(name: str, value: Any, kind: type[T], such_as: str) -> T:
    """An object of a class, with an example of how to get one."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {such_as}, got {shown(value)}")
    return value


def floating(name: str, value: Any) -> torch.dtype:
    """A type that the package computes in: float32 or float64."""
    message = f"{name}: expected torch.float32 or torch.float64, got {shown(value)}"
    if not isinstance(value, torch.dtype):
        raise TypeError(message)
    if value not in (torch.float32, torch.float64):
        raise ValueError(message)
    return value


def dims(shape: Sequence[int | str]) -> str:
    """A shape for a message: ``[m, 64]``; a string stands for any length of at least 1."""
    return "[" + ", ".join(map(str, shape)) + "]"


def array(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """A tensor of a shape, from a tensor, a NumPy array or a (nested) sequence of numbers.

    A whole number in ``shape`` is that length, a string any length of at least 1; a last "..."
    any further dimensions.
    """
    message = f"{name}: expected an array {dims(shape)}, got {shown(value)}"
    if isinstance(value, Tensor):
        found = value.detach() if value.requires_grad else value
    else:
        if value is None or isinstance(value, str | bytes | dict | set):
            raise TypeError(message)
        try:
            taken = np.asarray(value)
            found = torch.from_numpy(taken if taken.flags.writeable else taken.copy())
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise TypeError(message) from None
    if found.is_sparse or found.is_complex() or found.is_meta or found.is_quantized:
        raise TypeError(message)
    open_end = len(shape) > 0 and shape[-1] == "..."
    wanted = list(shape[:-1]) if open_end else list(shape)
    fits = found.ndim >= len(wanted) if open_end else found.ndim == len(wanted)
    if not fits or any(
        have < 1 if isinstance(want, str) else have != want
        for have, want in zip(found.shape, wanted, strict=False)
    ):
        raise ValueError(message)
    return found


def reals(
    name: str,
    value: Any,
    shape: Sequence[int | str],
    *,
    dtype: torch.dtype | None = None,
    finite: bool = True,
) -> Tensor:
    """Real numbers of a shape (see ``array``), floating: as given, or of ``dtype``."""
    found = array(name, value, shape)
    if found.dtype == torch.bool:
        raise TypeError(f"{name}: expected numbers {dims(shape)}, got {shown(found)}")
    if not found.is_floating_point() or found.element_size() < 4:
        found = found.to(dtype or torch.float32)
    if finite and not torch.isfinite(found).all():
        raise ValueError(f"{name}: holds NaN or infinite values")
    return found if dtype is None else found.to(dtype)


def wholes(
    name: str, value: Any, shape: Sequence[int | str], low: int = 0, high: int | None = None
) -> Tensor:
    """Whole numbers of a shape (see ``array``) in low..high, as int64."""
    found = array(name, value, shape)
    if found.is_floating_point() or found.dtype == torch.bool:
        raise TypeError(f"{name}: expected whole numbers {dims(shape)}, got {shown(found)}")
    found = found.long()
    if found.numel() and (int(found.min()) < low or (high is not None and int(found.max()) > high)):
        wanted = f"of at least {low}" if high is None else f"in {low}..{high}"
        got = f"{int(found.min())}..{int(found.max())}"
        raise ValueError(f"{name}: expected whole numbers {wanted}, got {got}")
    return found


def distinct_ids(name: str, value: Any, clients: int) -> Tensor:
    """Distinct client ids in 0..clients-1, as int64 [m] on the CPU; m may be 0."""
    wrong = isinstance(value, str | bytes | dict) or getattr(value, "ndim", 1) == 0
    if wrong or not isinstance(value, Iterable):
        raise TypeError(f"{name}: expected client ids, got {shown(value)}")
    value = value if isinstance(value, Tensor | np.ndarray) else list(value)
    if len(value) == 0:
        return torch.empty(0, dtype=torch.long)
    found = wholes(name, value, ["m"]).cpu()
    if len(found.unique()) != len(found) or int(found.max()) >= clients:
        raise ValueError(
            f"{name}: expected distinct client ids in 0..{clients - 1}, got {shown(found.tolist())}"
        )
    return found
