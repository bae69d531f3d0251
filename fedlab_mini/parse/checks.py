"""Checks of arguments; all error messages have the form ``argument: expected this, got that``.

A value of the wrong kind raises TypeError, and a value out of range raises ValueError. NumPy
numbers and arrays are accepted, too. Accepted values are returned as plain Python numbers or as
tensors. Used by every subpackage above.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")
SHOWN = 80  # the most characters of a wrong value that a message quotes
LARGEST = sys.float_info.max


def shown(value: object) -> str:
    """A wrong value as text, short enough for a message; arrays by shape and type."""
    if isinstance(value, Tensor) and value.is_nested:
        return "a nested Tensor"
    shape = getattr(value, "shape", None)
    kinds = getattr(value, "dtypes", None)  # a frame has one for each column
    kinds = [value.dtype] if hasattr(value, "dtype") else kinds
    if isinstance(shape, tuple) and kinds is not None and not np.isscalar(value):
        names = ", ".join(dict.fromkeys(map(str, kinds))).replace("torch.", "")
        return f"{type(value).__name__} {list(shape)} of {names}"
    try:
        description = repr(value)
    except Exception:  # a broken repr must not hide the message
        description = object.__repr__(value)
    one_line = " ".join(description.split("\n"))
    return one_line if len(one_line) <= SHOWN else one_line[: SHOWN - 3] + "..."


def home(path: str | os.PathLike[str]) -> Path:
    """A path with ``~`` replaced by the user's home, as in a shell."""
    return Path(os.path.expanduser(path))


def refusal(
    name: str, expected: str, given: object, kind: type[Exception] = ValueError
) -> Exception:
    """The error to raise for a wrong argument, in the form that all messages have."""
    return kind(f"{name}: expected {expected}, got {shown(given)}")


def _scalar(value: Any) -> Any:
    """A NumPy or torch scalar as a Python number; anything else unchanged."""
    is_number = getattr(value, "ndim", None) == 0 and not getattr(value, "is_meta", False)
    return value.item() if is_number else value


def whole(name: str, value: Any, low: int | None = 1, high: int | None = None) -> int:
    """A whole number in [low, high] of Python or NumPy, but not a bool."""
    plain = _scalar(value)
    # True is 1 in Python, but is hardly ever meant as a number.
    is_whole = isinstance(plain, int) and not isinstance(plain, bool)
    # Python's integers are unlimited, but those of tensors end at 2^63 - 1.
    most = 2**63 - 1 if high is None else high
    if is_whole and (low is None or low <= plain <= most):
        return int(plain)
    limits = f" of at least {low}" if high is None else f" of {low}..{high}"
    expected = f"a whole number{'' if low is None else limits}"
    raise refusal(name, expected, value, ValueError if is_whole else TypeError)


def processes(name: str, value: Any) -> int | None:
    """A number of processes as joblib counts them, -1 for all; None: what joblib is set to."""
    if value is not None and whole(name, value, -1024, 1024) == 0:
        raise refusal(name, "a number of processes, -1 for all", value)
    return value


def number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, ends: str = "[]"
) -> float:
    """A finite real number between low and high; ``ends`` "(]" excludes low and includes high."""
    plain = _scalar(value)
    is_number = isinstance(plain, int | float | np.floating) and not isinstance(plain, bool)
    # An integer may be larger than any float; NaN lies in no range.
    if (
        is_number
        and max(low, -LARGEST) <= plain <= min(high, LARGEST)
        and not (plain == low and ends[0] == "(")
        and not (plain == high and ends[1] == ")")
    ):
        return float(plain)
    if low == -math.inf and high == math.inf:
        expected = "a finite number"
    elif high == math.inf:
        expected = f"a finite number {'above' if ends[0] == '(' else 'of at least'} {low:g}"
    else:
        expected = f"a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    raise refusal(name, expected, value, ValueError if is_number else TypeError)


def span(low: Any, high: Any) -> tuple[float, float]:
    """The ends of a range, low below high; both may be infinite."""
    low, high = (
        end if isinstance(end, float) and math.isinf(end) else number(name, end)
        for name, end in (("low", low), ("high", high))
    )
    if low >= high:
        raise refusal("low", f"less than high={high:g}", low)
    return low, high


def flag(name: str, value: Any) -> bool:
    """True or False, of Python or NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise refusal(name, "True or False", value, TypeError)
    return bool(value)


def choice(name: str, value: Any, accepted: Sequence[str]) -> str:
    """One of the accepted strings."""
    if isinstance(value, str) and value in accepted:
        return str(value)
    *others, last = [f'"{word}"' for word in accepted]
    expected = f"{', '.join(others)} or {last}" if others else last
    raise refusal(name, expected, value, ValueError if isinstance(value, str) else TypeError)


def text(name: str, value: Any) -> str:
    """Any string."""
    return str(instance(name, value, str, "a text"))


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A list or tuple of strings."""
    if not isinstance(value, list | tuple):
        raise refusal(name, "a tuple of texts", value, TypeError)
    return tuple(text(name, word) for word in value)


def device(name: str, value: Any) -> torch.device | None:
    """A device of this machine, by its name; None (keep the present device) stays None."""
    if value is None:
        return None
    expected = 'a device of this machine such as "cpu"'
    if not isinstance(value, str | torch.device):
        raise refusal(name, expected, value, TypeError)
    try:
        # Only torch knows which devices this machine has.
        return torch.empty(0, device=value).device
    except (RuntimeError, AssertionError, NotImplementedError):
        raise refusal(name, expected, value) from None


def store(record: object, **checked: object) -> None:
    """Store checked values in a frozen dataclass, from its ``__post_init__``."""
    for field, value in checked.items():
        object.__setattr__(record, field, value)


def instance(name: str, value: Any, kind: type[T], such_as: str) -> T:
    """An object of the class ``kind``; ``such_as`` tells in the message how to get one."""
    if not isinstance(value, kind):
        raise refusal(name, such_as, value, TypeError)
    return value


def floating(name: str, value: Any) -> torch.dtype:
    """A type in which the package computes: float32 or float64."""
    is_type = isinstance(value, torch.dtype)
    if is_type and value in (torch.float32, torch.float64):
        return value
    kind = ValueError if is_type else TypeError
    raise refusal(name, "torch.float32 or torch.float64", value, kind)


def dims(shape: Sequence[int | str]) -> str:
    """A shape as text, such as ``[m, 64]``; a string means any length of at least 1."""
    return "[" + ", ".join(map(str, shape)) + "]"


def array(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """A tensor of the given shape, from a tensor, an array, a frame or a (nested) sequence.

    In ``shape`` a whole number means this length, a string means any length of at least 1, and
    "..." at the end means any further dimensions. Sparse arrays become dense, and missing values
    of pandas become NaN. Nested and masked arrays are refused
    """
    if isinstance(value, Tensor):
        # Nothing is differentiated here, so a graph would only use memory.
        tensor = value.detach() if value.requires_grad else value
    else:
        tensor = _from_others(name, value, shape)
    if tensor.is_nested or tensor.is_meta or tensor.is_quantized or tensor.is_complex():
        raise refusal(name, f"an array {dims(shape)}", value, TypeError)
    open_end = len(shape) > 0 and shape[-1] == "..."
    expected = shape[:-1] if open_end else shape
    fits = tensor.ndim >= len(expected) if open_end else tensor.ndim == len(expected)
    for have, want in zip(tensor.shape, expected, strict=False):
        fits = fits and (have >= 1 if isinstance(want, str) else have == want)
    if not fits:
        raise refusal(name, f"an array {dims(shape)}", value)
    # Made dense after the check, because a wrong shape might not fit into memory.
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    # A tensor from inference mode cannot be used in training outside of it.
    return tensor.clone() if tensor.is_inference() else tensor


def _from_others(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """A tensor from a value that is not a tensor."""
    refused = refusal(name, f"an array {dims(shape)}", value, TypeError)
    if value is None or isinstance(value, str | bytes | dict | set):
        raise refused
    if _masked(value):
        raise TypeError(f"{refused}, which hides values behind a mask")
    try:
        if isinstance(value, list | tuple) and any(map(torch.is_tensor, value)):
            rows = [array(f"{name}[{i}]", row, ["..."]) for i, row in enumerate(value)]
            return torch.stack(rows)
        values = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
        if values.dtype == object:
            # Pandas columns with missing values, or rows of arrays: let NumPy infer the type.
            if hasattr(value, "isna"):
                values = value.to_numpy(dtype=object, na_value=np.nan)
            values = np.array(values.tolist())
        # torch cannot read other byte orders or negative strides, and it would write into
        # read-only arrays, so all these are copied.
        native = values.dtype.newbyteorder("=")
        return torch.from_numpy(np.require(values, native, ["C", "W"]))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        holds = isinstance(value, list | tuple) or hasattr(value, "shape")
        advice = "; numpy.array(..., dtype=float), or =int, may read it" if holds else ""
        raise TypeError(f"{refused}{advice}") from None


def _masked(value: Any) -> bool:
    """Whether a NumPy mask hides a number; a conversion would read it as a normal number."""
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(value).any())
    return isinstance(value, list | tuple) and any(map(_masked, value))


def reals(
    name: str,
    value: Any,
    shape: Sequence[int | str],
    *,
    dtype: torch.dtype | None = None,
    finite: bool = True,
) -> Tensor:
    """Real numbers of a shape (see ``array``), floating-point: their own type, or ``dtype``."""
    tensor = array(name, value, shape)
    if tensor.dtype == torch.bool:
        raise refusal(name, f"numbers {dims(shape)}", tensor, TypeError)
    # Half precision is widened, because sums over many samples would lose digits.
    if not tensor.is_floating_point() or tensor.element_size() < 4:
        given, tensor = tensor, tensor.to(dtype or torch.float32)
        # Ids and times are long numbers, and rounding would make one of two.
        if not given.is_floating_point() and not torch.equal(tensor.to(given.dtype), given):
            raise ValueError(
                f"{name}: expected whole numbers that {str(tensor.dtype)[6:]} holds exactly, got "
                f"up to {int(given.abs().max())}; give them as float64, or scaled"
            )
    # A finite sum has finite terms. A sum of finite terms may overflow; then each is checked.
    if finite and not math.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
        raise ValueError(f"{name}: holds NaN or infinite values")
    return tensor if dtype is None else tensor.to(dtype)


def wholes(
    name: str, value: Any, shape: Sequence[int | str], low: int = 0, high: int | None = None
) -> Tensor:
    """Whole numbers of a shape (see ``array``) in low..high, as int64; their sum fits in int64."""
    tensor = array(name, value, shape)
    if not tensor.numel():  # an empty array may have any type
        return tensor.long()
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        gaps = " with gaps (NaN)" if tensor.isnan().any() else ""
        raise TypeError(f"{name}: expected whole numbers {dims(shape)}, got {shown(tensor)}{gaps}")
    tensor = tensor.long()
    # Client sizes and votes are added up, and above this limit a sum might overflow.
    limit = (2**63 - 1) // tensor.numel() if high is None else high
    smallest, largest = int(tensor.min()), int(tensor.max())
    if smallest < low or largest > limit:
        open_end = high is None and largest <= limit
        limits = f"of at least {low}" if open_end else f"in {low}..{limit}"
        raise ValueError(f"{name}: expected whole numbers {limits}, got {smallest}..{largest}")
    return tensor


def distinct_ids(name: str, value: Any, clients: int) -> Tensor:
    """Distinct client ids in 0..clients-1, as int64 [m] on the CPU; m can be 0."""
    strange = isinstance(value, str | bytes | dict) or getattr(value, "is_nested", False)
    if strange or getattr(value, "ndim", 1) == 0 or not isinstance(value, Iterable):
        raise refusal(name, "client ids", value, TypeError)
    listed = value if isinstance(value, Tensor | np.ndarray) else list(value)
    if len(listed) == 0:
        return torch.empty(0, dtype=torch.long)
    client_ids = wholes(name, listed, ["m"]).cpu()
    if len(client_ids.unique()) != len(client_ids) or int(client_ids.max()) >= clients:
        raise refusal(name, f"distinct client ids in 0..{clients - 1}", client_ids.tolist())
    return client_ids


def ids_of(value: Any) -> list[Any] | None:
    """The index of a pandas column as a list of ids; None if the value has no index."""
    index = getattr(value, "index", None)  # a list has a method of this name
    if index is None or not hasattr(index, "get_indexer"):
        return None
    return index.tolist()


def by_id(name: str, value: Any, ids: Iterable[Any]) -> Any:
    """A column in the order of ``ids``; a value without an index is returned as it is."""
    own, wanted = ids_of(value), list(ids)
    if own is None or own == wanted:
        return value
    if len(own) != len(wanted) or set(own) != set(wanted) or len(set(own)) < len(own):
        raise refusal(name, f"an index of the ids {shown(wanted)}", own)
    return value.loc[wanted]


def alongside(name: str, value: Any, other: Any) -> Any:
    """Labels in the order of the samples' index; by place if either index is just 0, 1, ..."""
    own, ids = ids_of(value), ids_of(other)
    if own is None or ids is None or own == ids:
        return value
    by_place = list(range(len(own))) in (own, ids) and set(own) != set(ids)
    return value if by_place else by_id(name, value, ids)


def in_columns(name: str, value: Any, columns: Sequence[Any]) -> Any:
    """A frame with its columns in this order; anything else as it is."""
    own = list(getattr(value, "columns", columns))
    if own == list(columns) or not columns:
        return value
    if set(own) != set(columns) or len(set(own)) < len(own):
        raise refusal(name, f"the columns {shown(columns)}", own)
    return value[list(columns)]


def in_order(name: str, value: Any) -> Any:
    """A column in the order of the ids 0, 1, ...; refused if its index has other ids."""
    ids = ids_of(value)
    return value if ids is None else by_id(name, value, range(len(ids)))
