"""Fit: whether a model's module, loss and metric fit the data, asked before anything is trained.

Below: outputs, probe, objective. Above: model, and all that receives a model with data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call

from ..parse.checks import array, reals, whole, wholes
from ..parse.module import leaves, own_tensors, some
from ..streams import LOCK, kept_chance, other_chance
from . import outputs as of
from .objective import Objective

if TYPE_CHECKING:
    from .model import Model


def output_count(net: Model, x: Tensor) -> int:
    """How many outputs the model gives for one input of ``x``; ValueError if it does not fit.

    If the model has its own loss, outputs may have any shape; 0 if this is not [N, n]
    """
    x, own = reals("x", x, ["N", "..."], finite=False), of.asked(net)
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "net: cannot be used in torch.inference_mode(), which forbids the gradients that "
            "training and some scores need; write torch.no_grad()"
        )
    if layers := of.parts(own).layers:
        inputs, wanted = x[:1].numel(), layers[0][0]
        if inputs != wanted:
            raise ValueError(f"net: takes {wanted} inputs; the data have {inputs}")
        return layers[-1][1]
    parameters = [part.requires_grad_() for part in own.split(own.theta().to(x))]
    with LOCK, kept_chance():
        own.module.eval()
        try:
            answer = of.outputs(own, parameters, x[:1].clone())
            with torch.no_grad():
                changed = _changed(own, parameters, x[:2].clone())
        except Exception as error:  # a module may fail in any way
            tokens = isinstance(error, RuntimeError) and "Long" in str(error)
            hint = "; write x.long() in its forward" if tokens else ""
            raise ValueError(
                f"net: fails on data of shape {tuple(x.shape[1:])}: {error}{hint}"
            ) from error
    if changed:
        raise ValueError(f"net: {changed}")
    given_loss, is_tensor = net.objective.given_loss, torch.is_tensor(answer)
    if not is_tensor or answer.shape[:1] != (1,) or not (given_loss or answer.ndim == 2):
        gives = f"shape {list(answer.shape)}" if is_tensor else type(answer).__name__
        expected = "[1, ...]" if given_loss else "[1, classes]"
        raise ValueError(f"net: one input gives {gives}, expected {expected}")
    held = {id(one) for module in (net.module, own.module) for one in module.parameters()}
    if any(id(leaf) in held for leaf in leaves(answer)):
        raise ValueError(
            "net: a hook, an attribute or a replaced forward refers to the parameters of "
            "the original module, so a copy cannot be trained; use the parameters of the "
            "module that it is called with"
        )
    return answer.shape[1] if answer.ndim == 2 else 0


def output_table(net: Model, x: Tensor) -> str:
    """Name of the last parameter that the outputs for ``x`` use, a matrix if there is one."""
    own = of.asked(net)
    x = of.inputs(own, x)
    parameters = [part.requires_grad_() for part in own.split(own.theta().to(x))]
    names = {id(part): name for name, part in zip(own.shapes, parameters, strict=True)}
    with torch.enable_grad(), of.judging(own):
        nearest = leaves(of.outputs(own, parameters, x[:1].clone()))
    # Nearest to the outputs first, but matrices before a bias or a scale.
    ordered = sorted(
        (leaf for leaf in nearest if id(leaf) in names), key=lambda leaf: leaf.ndim < 2
    )
    if not ordered:
        raise ValueError("net: its outputs depend on none of its parameters")
    return names[id(ordered[0])]


def check_fits(net: Model, x: Tensor, classes: int) -> None:
    """Raise ValueError unless inputs like ``x`` give ``classes`` outputs (0: any number)."""
    classes, count = whole("classes", classes, 0), output_count(net, x)
    if not classes and net.objective.given_loss is None:
        raise ValueError(
            "net: its loss is cross-entropy, which needs classes, but the labels are "
            "numbers (classes=0); give another loss, fm.Model(module, loss=...)"
        )
    if classes and count != classes:
        hint = ""
        if count == classes - 1:
            hint = "; are the classes counted from 0?"
        if net.objective.given_loss is not None:
            hint += "; if the labels are no classes but numbers, give classes=0"
        raise ValueError(f"net: gives {count} outputs, but the data have {classes} classes{hint}")


def labels_for(net: Model, name: str, y: Any, x: Tensor, classes: int | None = None) -> Tensor:
    """Labels of the samples ``x``, checked: classes [N], or any [N, ...] for a given loss.

    classes  how many there are, if that is known
    raises   ValueError also for a loss or metric that fails on them
    """
    if net.objective.given_loss is None:
        high = None if classes is None else classes - 1
        return wholes(name, y, [len(x)], high=high).to(x.device)
    labels = array(name, y, [len(x), "..."])
    numbers = labels.is_floating_point() or labels.dtype == torch.bool
    labels = labels.to(x) if numbers else labels.to(x.device, torch.long)
    check_objective(net, x, labels)
    return labels


def check_objective(net: Model, x: Tensor, y: Tensor) -> None:
    """Raise ValueError if a given loss or metric fails on such samples and labels."""
    if net.objective != Objective():
        net.objective.check(net.forward(net.theta(), some(x)[:2]), y[[0, -1]])


def _changed(net: Model, parameters: list[Tensor], x: Tensor) -> str:
    """Says what a forward in training mode changes that it must not; empty if all is well."""
    before, chance = of.constants(net, x), other_chance()
    twin, kept = of.twin(net), own_tensors(net.module)

    def trained(one: Model) -> tuple[dict[str, Tensor], Any]:
        # Clones, so that this forward does not change the module's own buffers.
        named = {name: buffer.clone() for name, buffer in before.items()}
        named |= of.named(net, parameters)
        torch.default_generator.manual_seed(0)
        module = one.module.train()
        return named, functional_call(module, named, x.clone(), tie_weights=False)

    (named, answer), (_, again) = trained(net), trained(twin)
    changed = [name for name in before if not torch.equal(named[name], before[name])]
    now, what = own_tensors(net.module), "buffer"
    if not changed:
        what = "attribute"
        # An attribute whose shape has changed is a cache; it learns nothing.
        changed = [
            name
            for name, (shape, content) in kept.items()
            if name in now and now[name][0] == shape and now[name][1] != content
        ]
    if changed:
        return (
            f"changes its {what} {', '.join(map(repr, changed))} when it is trained; "
            "a client sends parameters only, so nothing else may be learnt"
        )
    elsewhere = torch.is_tensor(answer) and not torch.equal(answer, again)
    if other_chance() != chance or elsewhere:
        return (
            "draws random numbers of Python or NumPy when it is trained; draw them with "
            "torch, so that the seed decides them"
        )
    return ""
