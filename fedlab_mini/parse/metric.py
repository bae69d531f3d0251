"""Metric: which functions of (outputs, labels) may be a metric or a loss, tried on two samples.

The page "Bring your own" shows some that may. Below: checks. Above: objective.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ..streams import LOCK
from . import checks
from .module import leaves

# (outputs [N, ...], labels [N, ...]) -> one number.
Function = Callable[[Tensor, Tensor], Any]


def check_metric(name: str, metric: Any) -> Metric:
    """A metric's name, or a function of (outputs, labels); otherwise TypeError or ValueError."""
    is_name = isinstance(metric, str)
    if metric in ("accuracy", "loss") if is_name else _is_function(metric):
        return metric
    expected = '"accuracy", "loss" or a function of (outputs, labels)'
    raise checks.refusal(name, expected, metric, ValueError if is_name else TypeError)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


Metric = Annotated[str | Function, check_metric]


def check_function(name: str, function: Any) -> None:
    """Refuse what is neither a function of (outputs, labels) nor None."""
    if function is None:
        return
    if not _is_function(function):
        such_as = "a function of (outputs, labels), such as nn.MSELoss()"
        raise checks.refusal(name, such_as, function, TypeError)
    if name == "loss" and isinstance(function, nn.Module) and list(function.parameters()):
        raise ValueError(
            "loss: has parameters of its own, but only those of the module are trained"
        )


def refuse_misread_loss(loss: Function, outputs: Tensor, y: Tensor) -> None:
    """Refuse a loss that fails on two samples, cannot be trained, or misreads their labels."""
    try:
        # Other threads draw from the same generator.
        with LOCK, torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the errors below say more
            chance = torch.get_rng_state()
            found = loss(outputs.detach().clone().requires_grad_(), y)
            drawn = not torch.equal(chance, torch.get_rng_state())
    except Exception as error:  # a function may fail in any way
        raise ValueError(_fails("loss", outputs, y, error)) from error
    if not torch.is_tensor(found) or found.ndim or not found.requires_grad:
        got = found
        if torch.is_tensor(found):
            got = f"shape {list(found.shape)}, requires_grad={found.requires_grad}"
        raise ValueError(
            "loss: expected one number as a tensor that PyTorch can differentiate, such as "
            f".mean() gives, got {got}; other functions can be given as metric="
        )
    if drawn:
        raise ValueError("loss: draws random numbers, so two calls would differ")
    if len(leaves(found)) > 1:
        raise ValueError(
            "loss: reads parameters directly, as weight decay does, but theta does not "
            "replace them there; give a function of (outputs, labels) alone"
        )
    _refuse_unpaired("loss", loss, outputs, y)


def refuse_misread(metric: Function, outputs: Tensor, y: Tensor) -> None:
    """Refuse a metric that takes outputs for labels, or whose lower values are better.

    outputs, y  two samples, from which the metric learns shapes and types
    """
    try:
        first = next(iter(inspect.signature(metric).parameters), "")
    except (TypeError, ValueError):  # a built-in function
        first = ""
    if first in ("y_true", "true", "target", "targets", "labels"):
        raise ValueError(
            f"metric: is called with (outputs, labels), but its first argument is {first}; "
            "write a function that exchanges them"
        )
    _refuse_unpaired("metric", metric, outputs, y)
    right, wrong = _of_right_and_wrong(metric, outputs, y)
    if right < wrong:
        raise ValueError(
            f"metric: higher values must be better, but right answers get {right:.3g} and wrong "
            f'ones {wrong:.3g}; give metric="loss", or a function that changes the sign'
        )


def number(metric: Function, outputs: Tensor, y: Tensor) -> float:
    """The metric's value for outputs and labels; ValueError if it fails or gives no number."""
    try:
        value = float(metric(outputs, y))
    except Exception as error:  # a function may fail in any way
        raise ValueError(_fails("metric", outputs, y, error)) from error
    if math.isnan(value):
        raise ValueError("metric: expected a number, got NaN")
    return value


def metric_values(metric: Function, outputs: Tensor, y: Tensor) -> Tensor:
    """The values of a function of (outputs, labels) for C models, [C] in float64, checked."""
    refuse_misread(metric, outputs[0, [0, -1]], y[[0, -1]])
    values = [number(metric, of_model, y) for of_model in outputs]
    return torch.tensor(values, dtype=torch.float64, device=outputs.device)


def refuse_misread_objective(objective: Any, outputs: Tensor, y: Tensor) -> None:
    """Refuse a model's loss or metric that fails on two samples, or does not pair their labels."""
    if objective.given_loss is not None:
        refuse_misread_loss(objective.loss, outputs, y)
    if objective.given_metric is not None:
        refuse_misread(objective.given_metric, outputs, y)


def _fails(name: str, outputs: Tensor, y: Tensor, error: Exception) -> str:
    given = f"outputs {checks.shown(outputs)} and labels {checks.shown(y)}"
    whole = "Long" in str(error) and y.is_floating_point()
    hint = "; classes=0 makes y floats: write y.long() in the function" if whole else ""
    return f"{name}: fails on {given}: {error}{hint}"


def _refuse_unpaired(name: str, function: Function, outputs: Tensor, y: Tensor) -> None:
    """Refuse a loss or metric that compares each output with all labels, or has a memory."""
    if not _pairs(function, outputs, y):
        raise ValueError(
            f"{name}: does not pair outputs and labels; outputs have shape "
            f"{checks.dims(['N', *outputs.shape[1:]])}, labels "
            f"{checks.dims(['N', *y.shape[1:]])}; both need the same"
        )
    if _remembers(function, outputs, y):
        raise ValueError(f"{name}: remembers earlier calls, so its values depend on their order")


def _pairs(function: Function, outputs: Tensor, y: Tensor) -> bool:
    """Whether the function changes if two samples exchange their labels.

    The difference of outputs [N, 1] and labels [N] is [N, N], and a mean hides this mistake.
    """
    if outputs.shape[1:].numel() != 1 or y[0].numel() != 1 or outputs.ndim == y.ndim:
        return True
    unlike = torch.stack([torch.zeros_like(y[0]), torch.ones_like(y[0])])
    asked = False
    # Two outputs on both sides of the usual thresholds: first scores, then probabilities.
    for low, high in ((-1.0, 1.0), (0.2, 0.8)):
        two = outputs.new_tensor([low, high]).view(2, *outputs.shape[1:])
        if values := _values(function, (two, unlike), (two, unlike.flip(0))):
            asked = True
            if values[0] != values[1]:
                return True
    return not asked


def _remembers(function: Function, outputs: Tensor, y: Tensor) -> bool:
    """Whether other calls in between change the value of a function."""
    classes = y.dtype == torch.long and (outputs.ndim, y.ndim) == (2, 1)
    right = outputs.argmax(1) if classes else y
    # The third call has three samples, all of them right, because the two calls in between
    # then change every mean accuracy over all samples so far.
    three = outputs[[0, 0, 1]], right[[0, 0, 1]]
    values = _values(function, (outputs, y), (-outputs, y), three, (outputs, y))
    return bool(values) and abs(values[0] - values[-1]) > 0  # not if one is NaN


def _of_right_and_wrong(metric: Function, outputs: Tensor, y: Tensor) -> tuple[float, float]:
    """The values for two right answers and for the same two exchanged; 0, 0 if it fails on them."""
    labels = torch.stack([torch.zeros_like(y[0]), torch.ones_like(y[0])])
    answers = outputs.new_zeros(outputs.shape)
    if y.ndim == 1 and y.dtype == torch.long and outputs[0].numel() > 1:
        answers[[0, 1], labels] = 4
    elif answers.numel() == labels.numel():
        answers += labels.view_as(answers)
    else:
        return 0.0, 0.0
    right, wrong = _values(metric, (answers, labels), (answers.flip(0), labels)) or (0.0, 0.0)
    return right, wrong


def _values(function: Function, *samples: tuple[Tensor, Tensor]) -> list[float]:
    """The function's values for pairs of outputs and labels; none if it fails on one of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [float(function(outputs.clone(), y.clone())) for outputs, y in samples]
        except Exception:  # two samples may be too few for this function
            return []
