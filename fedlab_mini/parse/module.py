"""Probe: a trial of a module on a few samples, which decides how its models are trained.

A copy of the module evaluates a few samples with two random models, one after another and together.
How models are trained and evaluated depends on the outputs alone and not on the time this takes.
So the decision is the same on every machine and in every process. Above: model.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.func import vmap
from torch.nn.parameter import is_lazy

# (parameters, x [N, ...]) -> scores [N, classes].
Scores = Callable[[list[Tensor], Tensor], Tensor]
SEEN = 4  # samples that a module is tried on
HOOKS = (*("_forward_hooks", "_forward_pre_hooks"), *("_backward_hooks", "_backward_pre_hooks"))


class Look(NamedTuple):
    """What ``look`` has found out about a module.

    numbers    how many numbers a model keeps of a sample for its gradient, if many models can be
               evaluated at once; None if only one after another works
    mixes      whether the output for a sample depends on the other samples of the batch
    remembers  whether a forward changes something in the module or in its parameters
    """

    numbers: int | None
    mixes: bool = False
    remembers: bool = False


def copied(module: nn.Module) -> nn.Module:
    """A copy of the module that shares nothing with it, its hooks included."""
    # PyTorch cannot copy tensors that a hook computes from parameters (torch.nn.utils.prune).
    memo = {
        id(value): value.detach().clone()
        for part in module.modules()
        for value in vars(part).values()
        if torch.is_tensor(value) and value.grad_fn is not None
    }
    twin = copy.deepcopy(module, memo)
    for given, own in zip(module.parameters(), twin.parameters(), strict=True):
        for hook in (given._backward_hooks or {}).values():
            own.register_hook(hook)
    return twin


def hooked(module: nn.Module) -> bool:
    """Whether hooks run beside the module's forward, or another forward replaces its class's."""
    on_tensors = any(parameter._backward_hooks for parameter in module.parameters())
    return on_tensors or any(
        "forward" in vars(part) or any(getattr(part, hooks) for hooks in HOOKS)
        for part in module.modules()
    )


def perceptron_layers(module: nn.Module) -> tuple[tuple[int, int], ...] | None:
    """The (in, out) of each Linear layer if the module is Linear-ReLU-...-Linear, else None."""
    # Exact types, because a subclass of Sequential or Linear may compute anything.
    parts = list(module) if type(module) is nn.Sequential else [module]
    if type(parts[0]) is nn.Flatten and (parts[0].start_dim, parts[0].end_dim) == (1, -1):
        parts = parts[1:]
    linear: list[Any] = parts[0::2]
    between = parts[1::2]
    fits = (
        len(parts) % 2 == 1
        and all(type(p) is nn.Linear and p.bias is not None for p in linear)
        and all(type(p) is nn.ReLU for p in between)
        # Parameters may have been replaced by others, or by those of another layer.
        and all(p.weight.shape == (*p.bias.shape, p.in_features) for p in linear)
        and all(p.out_features == len(p.bias) for p in linear)
        and len(trainable(module)) == len(list(module.parameters())) == 2 * len(linear)
        and not hooked(module)
    )
    return tuple((p.in_features, p.out_features) for p in linear) if fits else None


def refuse(module: nn.Module) -> None:
    """Refuse layers that mix the samples of a batch, and parameters that theta cannot train."""
    _refuse_held_elsewhere(module)
    for name, part in module.named_modules():
        normalises_batches = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if normalises_batches or getattr(part, "track_running_stats", False):
            raise ValueError(
                f"module: layer {name!r} ({type(part).__name__}) mixes the samples of a batch "
                "or keeps statistics of them; use GroupNorm or LayerNorm"
            )
    for name, p in trainable(module).items():
        if not p.is_floating_point():
            raise ValueError(
                f"module: parameter {name!r} is of {p.dtype}; only real numbers can be trained"
            )


def _refuse_held_elsewhere(module: nn.Module) -> None:
    """Refuse parameters without values, and those that the module does not read by their name."""
    if isinstance(module, nn.DataParallel):
        raise ValueError("module: is wrapped in DataParallel; give the module inside it, .module")
    for name, part in module.named_modules():
        if any(map(is_lazy, part._parameters.values())):
            raise ValueError(
                f"module: layer {name!r} ({type(part).__name__}) has no shape yet; call the "
                "module once with a sample, module(x[:1]), before fm.Model(module)"
            )
        if isinstance(part, torch.jit.ScriptModule):
            # A compiled layer ignores other parameters and uses its own.
            raise ValueError(
                f"module: {name or 'all of it'} is compiled by torch.jit; give the module "
                "that it was made from, after load_state_dict(compiled.state_dict())"
            )
    places: dict[int, str] = {}
    for name, p in module.named_parameters():
        if p.is_meta:
            raise ValueError(
                f"module: parameter {name!r} is on the meta device and has no values; "
                "make the module on another device, or load its weights first"
            )
        if p.numel() and p.requires_grad:
            places[p.untyped_storage().data_ptr()] = name
    for name, part in module.named_modules():
        if part._forward_pre_hooks:  # may compute attributes from the given parameters
            continue
        for attribute, value in {**vars(part), **part._buffers}.items():
            if not isinstance(value, Tensor) or value.layout is not torch.strided:
                continue
            if place := places.get(value.untyped_storage().data_ptr()):
                whole = f"{name}.{attribute}".removeprefix(".")
                raise ValueError(
                    f"module: {whole} holds the values of the parameter {place!r} under "
                    "another name, which another theta does not change; read it in forward"
                )


def own_tensors(module: nn.Module) -> dict[str, tuple[torch.Size, bytes]]:
    """The tensors among a module's attributes, in which a forward could store what it learns."""
    return {
        f"{path}.{name}".strip("."): (value.shape, value.detach().cpu().numpy().tobytes())
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if torch.is_tensor(value) and value.layout is torch.strided
    }


def places(module: nn.Module, kind: str) -> Iterator[tuple[str, Tensor]]:
    """The names and tensors of a module's "_parameters" or "_buffers", each name once.

    A layer that is used twice has one name; a parameter that two layers share has two
    """
    for path, part in module.named_modules():
        for name, tensor in getattr(part, kind).items():
            if tensor is not None:
                yield f"{path}.{name}".strip("."), tensor


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that theta holds, by name; frozen parameters are constants."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def some(x: Tensor) -> Tensor:
    """A few samples [n, ...] for a trial, all different and finite."""
    first = x[:64]
    some = first[first.flatten(1).isfinite().all(1)].unique(dim=0)[:SEEN]
    if len(some) > 1:
        return some
    zeros = x.new_zeros(x.shape[1:])
    # Valid for modules whose inputs are indices, too.
    return torch.stack([zeros, zeros + 1])


def look(
    module: nn.Module, scores: Scores, parameters: list[Tensor], samples: Tensor, images: int
) -> Look:
    """Try the module, a copy in the mode in which it will be used, and say what it does.

    parameters  of two models, [2, *shape] each, that require gradients
    samples     [N, ...]; the first two, or the only one, are evaluated by both models at once
    images      how many numbers of a sample modules with convolutions may keep

    Some modules must run one after another: those with convolutions that keep more, because a stack
    is slower; those that draw random numbers, because every client has its own; those that mix
    samples, because a stack holds padding samples; those that remember, or that have hooks, because
    hooks may remember; and those that ``vmap`` refuses, or warns that it runs one by one.
    """
    untouched = copied(module)
    own = [[tensor[model].detach().clone() for tensor in parameters] for model in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mixes = not all(_one_by_one(scores, one, samples) for one in own)
        except Exception:  # a module may fail in any way, for instance on a single sample
            mixes = True
        changed = any(
            not torch.equal(tensor[model], now)
            for model in (0, 1)
            for tensor, now in zip(parameters, own[model], strict=True)
        )
        remembers = changed or not _same(module, untouched, set())
        if mixes or remembers or hooked(module):
            return Look(None, mixes, remembers)
        pair = samples[:2] if len(samples) > 1 else samples.expand(2, *samples.shape[1:])
        numbers = _numbers_together(scores, parameters, pair, images)
        # If a module stores tensors from inside vmap, later calls fail.
        if numbers and not _same(module, untouched, set()):
            return Look(None, mixes, remembers=True)
    return Look(numbers)


def _one_by_one(scores: Scores, parameters: list[Tensor], samples: Tensor) -> bool:
    """Whether the module gives the same scores for all samples together and one by one."""
    # Clones, because a module may change its inputs in place.
    together = scores(parameters, samples.clone())
    alone = torch.cat([scores(parameters, one.clone()) for one in samples.split(1)])
    return torch.allclose(together, alone, rtol=1e-3, atol=1e-5)


def _numbers_together(
    scores: Scores, parameters: list[Tensor], samples: Tensor, images: int
) -> int | None:
    """How many numbers two models evaluated at once keep of a sample; None if that fails."""
    # Autograd also keeps the parameters, whose memory is not counted.
    owned = {tensor.untyped_storage().data_ptr() for tensor in parameters}
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in owned:
            kept.append(tensor.numel())
        return tensor

    models = range(2)
    both = samples.expand(2, *samples.shape)
    in_use = torch.is_grad_enabled()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            # Autograd hands every tensor that it saves for the backward pass to the first hook.
            with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor):
                together = vmap(scores)(parameters, both)
            alone = torch.stack(
                [scores([tensor[model] for tensor in parameters], samples) for model in models]
            )
            pairs = [(together, alone)]
            if in_use:
                pairs += zip(_slopes(together, parameters), _slopes(alone, parameters), strict=True)
            else:
                # Without gradients, PyTorch runs other code in some layers.
                pairs.append((vmap(scores)(parameters, both), alone))
            # Not equal bits, because a stack adds up in another order.
            alike = all(torch.allclose(*pair, rtol=1e-3, atol=1e-5) for pair in pairs)
        except Exception:  # vmap refuses modules in many ways
            return None
    # Never 0, because callers divide by it and read 0 as None.
    numbers = 1 + sum(kept) // (len(models) * len(samples))
    one_by_one = any("performance drop" in str(warning.message) for warning in said)
    too_large = numbers > images and _convolves(together.grad_fn)
    return None if one_by_one or too_large or not alike else numbers


def _slopes(scores: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Gradients of a weighted sum of the scores in the parameters."""
    weights = torch.linspace(-1, 1, scores.numel()).to(scores).view(scores.shape)
    loss = (scores * weights).sum()
    return list(torch.autograd.grad(loss, parameters, materialize_grads=True))


def _same(one: Any, other: Any, seen: set[int]) -> bool:
    """Whether an object and its copy still hold the same values."""
    if one is other or id(one) in seen:
        return True
    if type(one) is not type(other):
        return False
    seen.add(id(one))
    if torch.is_tensor(one):
        return one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, torch.Generator):
        return torch.equal(one.get_state(), other.get_state())
    if isinstance(one, Mapping):
        keys = list(one) == list(other)
        return keys and all(_same(one[key], other[key], seen) for key in one)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(*pair, seen) for pair in pairs)
    if hasattr(one, "__dict__"):
        return _same(vars(one), vars(other), seen)
    try:
        return bool(one == other)
    except Exception:  # arrays and other values that ``bool`` refuses
        return False


def _nodes(last: Node | None) -> Iterator[Node]:
    """The autograd nodes that led to a result, nearest first."""
    seen, waiting = {None, last}, [last]
    for node in waiting:
        if node is None:
            continue
        yield node
        below = [node for node, _ in node.next_functions if node not in seen]
        seen.update(below)
        waiting += dict.fromkeys(below)


def _convolves(last: Node | None) -> bool:
    """Whether a result was computed with a convolution, by a layer or by a function."""
    return any("Convolution" in node.name() for node in _nodes(last))


def leaves(result: Tensor) -> list[Tensor]:
    """The leaf tensors that a result was computed from with gradients, nearest first."""
    return [node.variable for node in _nodes(result.grad_fn) if hasattr(node, "variable")]
