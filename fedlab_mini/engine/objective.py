"""Objective: the loss and the metric of a model; cross-entropy and accuracy by default.

The page "Bring your own" shows others. Below: checks. Above: model.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NoReturn

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from ..parse import checks
from ..parse.module import leaves
from ..streams import LOCK

# (outputs [N, ...], labels [N, ...]) -> one number.
Function = Callable[[Tensor, Tensor], Any]
# (outputs [C, N, ...], labels [N, ...]) -> [C].
Judge = Callable[[Tensor, Tensor], Tensor]


def check_metric(name: str, metric: Any) -> Metric:
    """A metric's name, or a function of (outputs, labels); otherwise TypeError or ValueError."""
    if callable(metric) and not isinstance(metric, type):
        return metric
    expected = f'{name}: expected "accuracy", "loss" or a function of (outputs, labels)'
    if not isinstance(metric, str):
        raise TypeError(f"{expected}, got {checks.shown(metric)}")
    if metric not in ("accuracy", "loss"):
        raise ValueError(f"{expected}, got {checks.shown(metric)}")
    return metric


Metric = Annotated[str | Function, check_metric]


@dataclass(frozen=True)
class Objective:
    """The loss that training minimises, and the metric that is used for accuracy.

    given_loss, given_metric  functions of (outputs, labels); None: cross-entropy, accuracy
    """

    given_loss: Function | None = None
    given_metric: Function | None = None

    def __post_init__(self) -> None:
        for name, value in (("loss", self.given_loss), ("metric", self.given_metric)):
            if value is not None and (isinstance(value, type) or not callable(value)):
                such_as = "a function of (outputs, labels), such as nn.MSELoss()"
                raise TypeError(f"{name}: expected {such_as}, got {checks.shown(value)}")
        if isinstance(self.given_loss, nn.Module) and list(self.given_loss.parameters()):
            raise ValueError(
                "loss: has parameters of its own, but only those of the module are trained"
            )

    @property
    def instead(self) -> dict[str, Judge]:
        """The functions that replace cross-entropy and accuracy for C models, by their names."""
        found: dict[str, Judge] = {}
        if self.given_loss is not None:
            found = {"loss": self.losses, "accuracy": _no_accuracy}
        if self.given_metric is not None:
            found["accuracy"] = partial(judged_by, self.given_metric)
        return found

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The losses of C models, [C] in float64; outputs [C, N, ...]."""
        found = [self.loss(of_model, y).detach() for of_model in outputs]
        return torch.stack(found).double()

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of some samples, a number [] that PyTorch can differentiate."""
        if self.given_loss is None:
            return cross_entropy(outputs, y)
        if isinstance(self.given_loss, nn.Module):
            # The weights of a loss get the type and the device of the outputs.
            weights = {n: w.to(outputs) for n, w in self.given_loss.named_buffers()}
            return functional_call(self.given_loss, weights, (outputs, y))
        return self.given_loss(outputs, y)

    def step_loss(self, outputs: Tensor, y: Tensor, step_sizes: Tensor) -> Tensor:
        """The sum over R minibatches of step size times loss, a number [].

        outputs [R, b, ...], y [R, b, ...]; step_sizes [R, b] for each sample the step size divided
        by the number of samples; 0 for padding, which comes last
        """
        if self.given_loss is None:
            losses = cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none")
            return losses @ step_sizes.flatten()
        # A loss may be any function of the whole minibatch, so it is called for each row.
        counts = step_sizes.count_nonzero(1).clamp(min=1).tolist()
        rows = zip(outputs, y, counts, strict=True)
        losses = torch.stack([self.loss(o[:n], of_row[:n]) for o, of_row, n in rows])
        return losses.to(step_sizes) @ step_sizes.sum(1)

    def check(self, outputs: Tensor, y: Tensor) -> None:
        """Refuse a loss or metric that fails on two samples, or that does not pair their labels."""
        if self.given_loss is not None:
            try:
                # Other threads draw from the same generator.
                with LOCK, torch.enable_grad(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the errors below say more
                    chance = torch.get_rng_state()
                    found = self.loss(outputs.detach().clone().requires_grad_(), y)
                    drawn = not torch.equal(chance, torch.get_rng_state())
            except Exception as error:  # a function may fail in any way
                raise ValueError(_fails("loss", outputs, y, error)) from error
            if not torch.is_tensor(found) or found.ndim or not found.is_floating_point():
                shape = f"shape {list(found.shape)}" if torch.is_tensor(found) else found
                raise ValueError(
                    f"loss: expected one number as a tensor, such as .mean() gives, got {shape}"
                )
            if not found.requires_grad:
                raise ValueError(
                    "loss: PyTorch cannot differentiate it; give this function as metric= and "
                    "a differentiable one as loss="
                )
            if drawn:
                raise ValueError("loss: draws random numbers, so two calls would differ")
            if len(leaves(found)) > 1:
                raise ValueError(
                    "loss: reads parameters directly, as weight decay does, but theta does not "
                    "replace them there; give a function of (outputs, labels) alone"
                )
            _refuse_unpaired("loss", self.loss, outputs, y)
        if self.given_metric is not None:
            refuse_misread(self.given_metric, outputs, y)


def refuse_misread(metric: Function, outputs: Tensor, y: Tensor) -> None:
    """Refuse a metric that takes outputs for labels, or whose lower values are better.

    outputs, y  two samples, from which the metric learns shapes and types
    """
    first = _first_argument(metric)
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


def _no_accuracy(outputs: Tensor, y: Tensor) -> NoReturn:
    raise ValueError(
        'metric: "accuracy" needs classes, but the model has its own loss; give '
        'metric="loss", or a function of (outputs, labels) whose higher values are better'
    )


def judged_by(metric: Any, outputs: Tensor, y: Tensor) -> Tensor:
    """The values of a function of (outputs, labels) for C models, [C] in float64."""
    ends = [0, -1]  # two samples
    refuse_misread(metric, outputs[0, ends], y[ends])
    found = []
    for of_model in outputs:
        try:
            value = float(metric(of_model, y))
        except Exception as error:  # a function may fail in any way
            raise ValueError(_fails("metric", of_model, y, error)) from error
        if math.isnan(value):
            raise ValueError("metric: expected a number, got NaN")
        found.append(value)
    return torch.tensor(found, dtype=torch.float64, device=outputs.device)


def _fails(name: str, outputs: Tensor, y: Tensor, error: Exception) -> str:
    given = f"outputs {checks.shown(outputs)} and labels {checks.shown(y)}"
    whole = "Long" in str(error) and y.is_floating_point()
    hint = "; classes=0 makes y floats: write y.long() in the function" if whole else ""
    return f"{name}: fails on {given}: {error}{hint}"


def _first_argument(function: Function | None) -> str:
    try:
        return next(iter(inspect.signature(function).parameters))  # type: ignore[arg-type]
    except (TypeError, ValueError, StopIteration):  # no argument, or a built-in function
        return ""


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(metric(answers, labels)), float(metric(answers.flip(0), labels))
        except Exception:  # two samples may be too few for this function
            return 0.0, 0.0


def _remembers(function: Function, outputs: Tensor, y: Tensor) -> bool:
    """Whether other calls in between change the value of a function."""
    classes = y.dtype == torch.long and (outputs.ndim, y.ndim) == (2, 1)
    right = outputs.argmax(1) if classes else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before = float(function(outputs.clone(), y.clone()))
            # The second call has three samples, all of them right, because both calls
            # together then change every mean accuracy over all samples so far.
            function(-outputs, y.clone())
            function(outputs[[0, 0, 1]], right[[0, 0, 1]])
            after = float(function(outputs.clone(), y.clone()))
        except Exception:  # two samples may be too few for this function
            return False
    return before == before and after == after and before != after


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = float(function(two, unlike)), float(function(two, unlike.flip(0)))
            except Exception:  # the function may refuse such outputs
                continue
        asked = True
        if found[0] != found[1]:
            return True
    return not asked
