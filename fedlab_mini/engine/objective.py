"""Objective: what models are trained by and judged by; cross-entropy and accuracy by default.

The page "Bring your own" shows others. Below: checks. Above: model.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from .. import checks
from ..streams import LOCK
from .probe import leaves

# Of (outputs [N, ...], labels [N, ...]): one number.
Function = Callable[[Tensor, Tensor], Any]
Metric = str | Function
# Of outputs [C, N, ...] and labels [N, ...]: [C].
Judge = Callable[[Tensor, Tensor], Tensor]


def check_metric(name: str, metric: Any) -> Metric:
    """One of the two words, or a function of (outputs, labels); TypeError or ValueError else."""
    if callable(metric) and not isinstance(metric, type):
        return metric
    expected = f'{name}: expected "accuracy", "loss" or a function of (outputs, labels)'
    if not isinstance(metric, str):
        raise TypeError(f"{expected}, got {checks.shown(metric)}")
    if metric not in ("accuracy", "loss"):
        raise ValueError(f"{expected}, got {checks.shown(metric)}")
    return metric


@dataclass(frozen=True)
class Objective:
    """The loss that training lowers, and the metric that stands where accuracy stands.

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
                "loss: has parameters of its own, and theta trains the module's"
            )

    @property
    def instead(self) -> dict[str, Judge]:
        """Who says what C models are worth, where it is not cross-entropy or accuracy."""
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
        """The loss of some samples, as PyTorch differentiates it: a number []."""
        if self.given_loss is None:
            return cross_entropy(outputs, y)
        if isinstance(self.given_loss, nn.Module):
            # Its weights follow the type and the device of what it judges.
            weights = {n: w.to(outputs) for n, w in self.given_loss.named_buffers()}
            return functional_call(self.given_loss, weights, (outputs, y))
        return self.given_loss(outputs, y)

    def step_loss(self, outputs: Tensor, y: Tensor, step_sizes: Tensor) -> Tensor:
        """The sum over R minibatches of their step size times their loss: a number [].

        outputs [R, b, ...], y [R, b, ...]; step_sizes [R, b] the step size over the number of
        samples, for each of them; 0 for the places behind them, which do not count
        """
        if self.given_loss is None:
            losses = cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none")
            return losses @ step_sizes.flatten()
        # A loss may be any function of the whole minibatch: each row is asked as in a plain loop.
        counts = step_sizes.count_nonzero(1).clamp(min=1).tolist()
        rows = zip(outputs, y, counts, strict=True)
        losses = torch.stack([self.loss(o[:n], of_row[:n]) for o, of_row, n in rows])
        return losses.to(step_sizes) @ step_sizes.sum(1)

    def check(self, outputs: Tensor, y: Tensor) -> None:
        """Refuse functions that fail on two samples' outputs and labels, or do not pair them."""
        if self.given_loss is not None:
            try:
                # Other threads draw from the same generator.
                with LOCK, torch.enable_grad(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of what is refused in words below
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
                    "loss: PyTorch cannot differentiate it; give such a one as loss= and this "
                    "one as metric="
                )
            if drawn:
                raise ValueError("loss: draws random numbers, so two calls would differ")
            if len(leaves(found)) > 1:
                raise ValueError(
                    "loss: reads parameters that are no outputs, as weight decay does, and which "
                    "theta does not reach; give a function of (outputs, labels) alone"
                )
        own = {"loss": self.given_loss and self.loss, "metric": self.given_metric}
        for name, function in own.items():
            if function is not None and not _pairs(function, outputs, y):
                raise ValueError(
                    f"{name}: does not tell whose label is whose; outputs have shape "
                    f"{checks.dims(['N', *outputs.shape[1:]])}, labels "
                    f"{checks.dims(['N', *y.shape[1:]])}: give both the same"
                )
            if function is not None and _remembers(function, outputs, y):
                raise ValueError(
                    f"{name}: remembers earlier calls, so its answers depend on their order"
                )
        first = _first_argument(self.given_metric)
        if first in ("y_true", "true", "target", "targets"):
            raise ValueError(
                f"metric: is called with (outputs, labels), and its first argument is {first}; "
                "write a function that exchanges them"
            )


def _no_accuracy(outputs: Tensor, y: Tensor) -> NoReturn:
    raise ValueError(
        'metric: "accuracy" needs classes, and the model has a loss of its own; give '
        'metric="loss", or a function of (outputs, labels) of which more is better'
    )


def judged_by(metric: Any, outputs: Tensor, y: Tensor) -> Tensor:
    """What a function of (outputs, labels) says of C models, [C] in float64."""
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
    hint = "; with classes=0 labels are floats: write y.long() in it" if whole else ""
    return f"{name}: fails on {given}: {error}{hint}"


def _first_argument(function: Function | None) -> str:
    try:
        return next(iter(inspect.signature(function).parameters))  # type: ignore[arg-type]
    except (TypeError, ValueError, StopIteration):  # none, or some built-in function
        return ""


def _remembers(function: Function, outputs: Tensor, y: Tensor) -> bool:
    """Whether a call in between changes what a function says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before = float(function(outputs.clone(), y.clone()))
            function(-outputs, y.clone())  # other answers, of whatever kind
            function(outputs[[0, 0]], y[[0, 0]])
            after = float(function(outputs.clone(), y.clone()))
        except Exception:  # two samples may be too few for it
            return False
    return before == before and after == after and before != after


def _pairs(function: Function, outputs: Tensor, y: Tensor) -> bool:
    """Whether it matters which of two samples has which label.

    Outputs [N, 1] and labels [N] become [N, N] in a difference, and a mean hides it.
    """
    if outputs.shape[1:].numel() != 1 or y[0].numel() != 1 or outputs.ndim == y.ndim:
        return True
    unlike = torch.stack([torch.zeros_like(y[0]), torch.ones_like(y[0])])
    asked = False
    # On both sides of every usual threshold, as scores and as probabilities.
    for low, high in ((-1.0, 1.0), (0.2, 0.8)):
        two = outputs.new_tensor([low, high]).view(2, *outputs.shape[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = float(function(two, unlike)), float(function(two, unlike.flip(0)))
            except Exception:  # it may refuse such outputs
                continue
        asked = True
        if found[0] != found[1]:
            return True
    return not asked
