"""Objective: the loss and the metric of a model; cross-entropy and accuracy by default.

The page "Bring your own" shows others. PyTorch computes the loss of one minibatch; here it is also
computed for the minibatches of many clients at once, which are padded to one width, and for the
outputs of many models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from ..parse.metric import Function, metric_values

COLUMNS = ("round", "client", "score", "weight", "selected", "loss")  # of a history's table
# (outputs [C, N, ...], labels [N, ...]) -> [C].
Measure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Objective:
    """The loss that training minimises, and the metric that is used in place of accuracy.

    given_loss, given_metric  functions of (outputs, labels); None: cross-entropy, accuracy
    """

    given_loss: Function | None = None
    given_metric: Function | None = None

    @property
    def metric_name(self) -> str:
        """What stands where accuracy stands by default, by its own name."""
        if self.given_metric is None:
            return "accuracy"
        inside = getattr(self.given_metric, "func", self.given_metric)  # of a partial
        name = str(getattr(inside, "__name__", type(inside).__name__))
        return name if name.isidentifier() and name not in COLUMNS else "metric"

    @property
    def instead(self) -> dict[str, Measure]:
        """The functions that replace cross-entropy and accuracy for C models, by their names."""
        found: dict[str, Measure] = {}
        if self.given_loss is not None:
            found = {"loss": self.losses, "accuracy": _no_accuracy}
        if self.given_metric is not None:
            found["accuracy"] = partial(metric_values, self.given_metric)
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


def _no_accuracy(outputs: Tensor, y: Tensor) -> NoReturn:
    raise ValueError(
        'metric: "accuracy" needs classes, but the model has its own loss; give '
        'metric="loss", or a function of (outputs, labels) whose higher values are better'
    )
