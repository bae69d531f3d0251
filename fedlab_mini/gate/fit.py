"""Fit: whether a model's module, loss and metric fit the data, asked before anything is trained.

Below: outputs, module, objective. Above: all that receives a model with data.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..engine import outputs
from ..engine.model import Model
from ..engine.objective import Objective
from ..parse.checks import reals, whole
from ..parse.metric import refuse_misread_objective
from ..parse.module import broken_law, some
from ..parse.samples import labels_of
from ..streams import LOCK, kept_chance


def output_count(net: Model, x: Tensor) -> int:
    """How many outputs the model gives for one input of ``x``; ValueError if it does not fit.

    If the model has its own loss, outputs may have any shape; 0 if this is not [N, n]
    """
    x, own = reals("x", x, ["N", "..."], finite=False), outputs.evaluable(net)
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "net: cannot be used in torch.inference_mode(), which forbids the gradients that "
            "training and some scores need; write torch.no_grad()"
        )
    if layers := outputs.parts(own).layers:
        inputs, wanted = x[:1].numel(), layers[0][0]
        if inputs != wanted:
            raise ValueError(f"net: takes {wanted} inputs; the data have {inputs}")
        return layers[-1][1]
    # Other parameters than the module's own, so that it shows whether the outputs follow them.
    other = (0.9 * own.theta() + 0.01).to(x)
    parameters, fresh = [part.requires_grad_() for part in own.split(other)], outputs.evaluable(net)
    generators = [x.device] if x.is_cuda else []
    with LOCK, kept_chance(), torch.random.fork_rng(generators), torch.enable_grad():
        own.module.eval()
        try:
            answer = outputs.outputs(own, parameters, x[:1].clone())
            is_tensor = torch.is_tensor(answer)
            asked = fresh.module, partial(outputs.outputs, fresh), parameters, some(x)
            depends = broken_law(*asked) if is_tensor else ""
        except Exception as error:  # a module may fail in any way
            tokens = isinstance(error, RuntimeError) and "Long" in str(error)
            hint = "; write x.long() in its forward" if tokens else ""
            raise ValueError(
                f"net: fails on data of shape {tuple(x.shape[1:])}: {error}{hint}"
            ) from error
    given_loss = net.objective.given_loss
    if not is_tensor or answer.shape[:1] != (1,) or not (given_loss or answer.ndim == 2):
        gives = f"shape {list(answer.shape)}" if is_tensor else type(answer).__name__
        expected = "[1, ...]" if given_loss else "[1, classes]"
        raise ValueError(f"net: one input gives {gives}, expected {expected}")
    if depends:
        raise ValueError(
            f"net: the outputs of {type(net.module).__name__} depend on {depends}; only its "
            "parameters, the samples and torch's random numbers may decide them"
        )
    return answer.shape[1] if answer.ndim == 2 else 0


def check_fits(net: Model, x: Tensor, classes: int) -> None:
    """Raise ValueError unless inputs like ``x`` give ``classes`` outputs (0: any number)."""
    classes, count = whole("classes", classes, 0), output_count(net, x)
    if not classes and net.objective.given_loss is None:
        raise ValueError(
            "net: its loss is cross-entropy, which needs classes, but the labels are "
            "numbers (classes=0); give another loss, fm.Model(module, loss=...)"
        )
    if classes and count != classes:
        hint = "; are the classes counted from 0?" if count == classes - 1 else ""
        if net.objective.given_loss is not None:
            hint += "; if the labels are no classes but numbers, give classes=0"
        raise ValueError(f"net: gives {count} outputs, but the data have {classes} classes{hint}")


def labels_for(net: Model, name: str, y: Any, x: Tensor, classes: int | None = None) -> Tensor:
    """Labels of the samples ``x``, checked: classes [N], or any [N, ...] for a given loss.

    classes  how many there are, if that is known
    raises   ValueError also for a loss or metric that fails on them
    """
    own_loss = net.objective.given_loss is not None
    labels = labels_of(name, y, x, classes, numbers=own_loss)
    if own_loss:
        check_objective(net, x, labels)
    return labels


def check_objective(net: Model, x: Tensor, y: Tensor) -> None:
    """Raise ValueError if a given loss or metric fails on such samples and labels."""
    if net.objective != Objective():
        refuse_misread_objective(net.objective, net.forward(net.theta(), some(x)[:2]), y[[0, -1]])
