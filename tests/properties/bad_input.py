"""Bad input for every parameter of every public name, made from its signature, and a judge.

A call is known to work; one argument at a time is replaced by each of ``VALUES``. What comes of it
must be one clear refusal, a TypeError or ValueError that starts with the argument's name, or a
sound result from a value of the annotated kind. Everything else is a fault.
"""

from __future__ import annotations

import inspect
import itertools
import math
import numbers
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch
from bad_calls import CALLS

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.worlds.data import DataUnavailable

# what a user may hand over by mistake; made anew for every case
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "10**400": lambda: 10**400,
    "nan": lambda: math.nan,
    "1j": lambda: 1j,
    "'0.5'": lambda: "0.5",
    "[]": list,
    "[[1], [1, 2]]": lambda: [[1], [1, 2]],
    "{}": dict,
    "{1: [1, 2]}": lambda: {1: [1.0, 2.0]},
    "object": lambda: object(),
    "function": lambda: lambda *given: None,
    "numpy 0.25": lambda: np.float32(0.25),
    "numpy objects": lambda: np.array([None, object()]),
    "numpy [3, 4]": lambda: np.ones((3, 4)),
    "numpy masked": lambda: np.ma.masked_array([1.0, 2.0, 9e9], mask=[0, 0, 1]),
    "tensor 2.5": lambda: torch.tensor(2.5),
    "tensor [0]": lambda: torch.empty(0),
    "tensor [2, 2, 2]": lambda: torch.ones(2, 2, 2),
    "tensor of complex": lambda: torch.ones(3, dtype=torch.complex64),
    "nested tensor": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "sparse tensor": lambda: torch.eye(3).to_sparse(),
    "meta tensor": lambda: torch.ones(3, device="meta"),
    "module": lambda: torch.nn.Linear(4, 3),
}


class Case(NamedTuple):
    """One argument of one public name replaced by one value."""

    name: str
    argument: str
    value: str


def parameters(name: str) -> dict[str, str]:
    """{parameter: annotation} of a public name; ``self`` and what is handed on left out."""
    _, target, _ = CALLS[name]
    found = inspect.signature(target).parameters.values()
    own = [p for p in found if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    return {p.name: str(p.annotation) for p in own}


def cases() -> Iterator[Case]:
    """All cases, in a fixed order."""
    for name in CALLS:
        for argument, value in itertools.product(parameters(name), VALUES):
            yield Case(name, argument, value)


def judge(case: Case) -> str:
    """ "refused", "sound", or what is wrong."""
    call, _, given = CALLS[case.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors say that they are new
        value = VALUES[case.value]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(**(given | {case.argument: value}))
    except (TypeError, ValueError, DataUnavailable) as error:
        return refusal(case, error)
    except Exception as error:
        return f"raw {type(error).__name__}: {str(error)[:90]}"
    if not fits(parameters(case.name)[case.argument], value):
        return "accepted, though not of the annotated kind"
    return "sound" if sound(result) else "accepted with a meaningless result"


def refusal(case: Case, error: Exception) -> str:
    """A clear refusal names one of the call's arguments first; most name the very one."""
    names = {*parameters(case.name), *CALLS[case.name][2]} | {"name", "on"}
    if case.name.startswith("Model."):
        names |= {"net"}  # what trainings call the model itself
    found = re.match(r"\w+", str(error))
    own = re.match(r"[\w, ]+(\[[^\]]*\])*( \[[^\]]*\])?: ", str(error))
    if found and own and found[0] in names:
        return "refused"
    return f"unclear {type(error).__name__}: {str(error)[:90]}"


NUMBERS = ("float", "Share", "Positive", "NotNegative", "Alpha")
WORDS = ("str", "PathLike", "Literal", "Weighting", "Baseline", "Sign")
# What an annotation says of values of a kind, in the order in which kinds are asked.
SAID: list[tuple[Any, tuple[str, ...]]] = [
    (type(None), ("None",)),
    (bool | np.bool_, ("bool",)),
    (numbers.Integral, (*NUMBERS, "int", "Count", "Natural")),
    (numbers.Number, NUMBERS),
    (str, WORDS),
    (Mapping, ("Mapping",)),
    (FunctionType | torch.nn.Module, ("Callable", "Function", "Metric", "Split", "Module")),
    (
        Sequence | np.ndarray | torch.Tensor | set,
        ("Tensor", "Sequence", "Scores", "Samples", "Values", "Iterable", "tuple", "int"),
    ),
]


def fits(annotation: str, value: Any) -> bool:
    """Is the value of the annotated kind? Numbers and arrays may be NumPy's or torch's."""
    value = value.item() if getattr(value, "ndim", None) == 0 else value
    words = next((words for kind, words in SAID if isinstance(value, kind)), ())
    return any(word in annotation for word in words)


def sound(result: Any) -> bool:
    """Every number of a result is finite; unknown standard errors may be NaN."""
    if isinstance(result, torch.Tensor):
        return bool(torch.isfinite(result).all())
    if isinstance(result, float):
        return math.isfinite(result)
    if isinstance(result, Estimate | fm.methods.FedCCEAResult):
        return sound(result.values if isinstance(result, Estimate) else result.index)
    if is_dataclass(result) and not isinstance(result, type):
        return all(sound(getattr(result, f.name)) for f in fields(result) if f.name != "strategy")
    if isinstance(result, tuple | list):
        return all(map(sound, result))
    return True


# reviewed: neither refused by us nor of the annotated kind, and harmless
HARMLESS = {
    Case("Federation", "noise", "None"),  # nothing said: no noise
    Case("Model.init", "device", "None"),  # the default device
    Case("Game", "value", "module"),  # its own error shows
    Case("train", "watch", "module"),  # the same
    Case("RoundValue", "value", "module"),  # the same
}
