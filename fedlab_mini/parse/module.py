"""Module: what a module must be, and a trial on a few samples, which decides how it is trained.

``broken_law`` is the rule that every module must keep. In the trial, ``look``, a copy of the module
evaluates a few samples with two random models, one after another and together. How models are
trained and evaluated depends on the outputs alone and not on the time this takes. So the decision
is the same on every machine and in every process. Above: metric, engine.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.func import vmap
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from ..streams import other_chance
from .checks import array, dims, reals, refusal

# (parameters, x [N, ...]) -> scores [N, classes].
Scores = Callable[[list[Tensor], Tensor], Tensor]
SEEN = 4  # samples that a module is tried on
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


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
    try:
        found = copy.deepcopy(module, memo)
    except Exception as error:  # whatever its attributes raise
        raise ValueError(f"module: cannot be copied ({error})") from error
    for given, own in zip(module.parameters(), found.parameters(), strict=True):
        for hook in (given._backward_hooks or {}).values():
            own.register_hook(hook)
    return found


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


def inputs_of(layers: tuple[tuple[int, int], ...] | None, x: Any) -> Tensor:
    """Samples [N, ...], checked; for a perceptron's layers, as many numbers as they have inputs."""
    found = with_gradient("x", x, ["N", "..."])
    if layers and found.numel() != len(found) * layers[0][0]:
        raise refusal("x", f"an array {dims(['N', layers[0][0]])}", found)
    return found


def with_gradient(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """Like ``reals``, but a tensor that needs no conversion keeps its gradient."""
    checked = reals(name, value, shape, finite=False)
    return value if torch.is_tensor(value) and value.dtype == checked.dtype else checked


def vectors(name: str, value: Any, P: int) -> Tensor:
    """Vectors [..., P] of parameters; a tensor keeps its gradient."""
    numbers = array(name, value, ["..."])
    if numbers.ndim == 0 or numbers.shape[-1] != P:
        raise refusal(name, f"an array [..., {P}]", numbers)
    return value if torch.is_tensor(value) else numbers


def refuse(module: nn.Module) -> None:
    """Refuse layers that mix the samples of a batch, and parameters that theta cannot train."""
    if isinstance(module, nn.DataParallel):
        raise ValueError("module: is wrapped in DataParallel; give the module inside it, .module")
    for name, layer in module.named_modules():
        if fault := _fault_of_layer(layer):
            raise ValueError(f"module: layer {name!r} ({type(layer).__name__}) {fault}")
    for name, parameter in module.named_parameters():
        if fault := _fault_of_parameter(parameter):
            raise ValueError(f"module: parameter {name!r} is {fault}")
    for alias, name in _aliases(module):
        raise ValueError(
            f"module: {alias} holds the values of the parameter {name!r} under "
            "another name, which another theta does not change; read it in forward"
        )
    if not any(parameter.numel() for parameter in trainable(module).values()):
        raise ValueError("module: has no parameters to train")


def _fault_of_layer(layer: nn.Module) -> str:
    normalises_batches = isinstance(layer, nn.modules.batchnorm._BatchNorm)
    if normalises_batches or getattr(layer, "track_running_stats", False):
        return "mixes the samples of a batch, or keeps statistics; use GroupNorm or LayerNorm"
    if ".quantized" in type(layer).__module__:  # such as quantize_dynamic makes
        return "has quantised weights, which cannot be trained; give the module before that"
    if isinstance(layer, torch.jit.ScriptModule):
        return "is compiled by torch.jit; give the module that it was made from, with its weights"
    if any(map(is_lazy, layer.parameters(recurse=False))):
        return "has no shape yet; call the module once, module(x[:1]), before fm.Model(module)"
    return ""


def _fault_of_parameter(parameter: nn.Parameter) -> str:
    if parameter.is_meta:
        return "on the meta device and has no values; load its weights, or use another device"
    if parameter.requires_grad and not parameter.is_floating_point():
        return f"of {parameter.dtype}; only real numbers can be trained"
    return ""


def _aliases(module: nn.Module) -> Iterator[tuple[str, str]]:
    """The attributes and buffers that share their memory with a parameter; names of both."""
    owners = {
        p.untyped_storage().data_ptr(): name for name, p in trainable(module).items() if p.numel()
    }
    for path, layer in module.named_modules():
        if layer._forward_pre_hooks:  # may compute attributes from the given parameters
            continue
        for name, value in {**vars(layer), **layer._buffers}.items():
            if _dense(value) and value.untyped_storage().data_ptr() in owners:
                yield f"{path}.{name}".strip("."), owners[value.untyped_storage().data_ptr()]


def broken_law(module: nn.Module, scores: Scores, parameters: list[Tensor], x: Tensor) -> str:
    """What the module's outputs depend on against the law; empty if it keeps the law.

    The law: outputs are a function of parameters, samples and torch's random numbers, because
    clients exchange parameters only. So two minibatches and an evaluation give the same outputs
    when they come again, and also if the parameters are not given but written into the module.

    module      a copy, whose outputs are ``scores(parameters, x)``
    parameters  others than the module's own, which require gradients; x  [N, ...] a few samples
    """
    plain = copied(module).to(x).eval()
    for own, given in zip(trainable(plain).values(), parameters, strict=True):
        own.data = given.detach().clone()
    changed, chance = watched(plain), other_chance()
    buffers = [(buffer, buffer.clone()) for buffer in plain.buffers()]
    once, again = (_answers(plain, plain, x) for _ in range(2))
    same = torch.allclose(once, again, rtol=0, atol=0, equal_nan=True)
    learnt = not all(torch.equal(*pair) for pair in buffers)
    if learnt or not same or other_chance() != chance:
        names = ", ".join(dict.fromkeys(changed()))
        which = f" (it changes {names})" if names else ""
        return f"what it keeps from batch to batch, or random numbers that are not torch's{which}"
    # Clones, because a forward may write to its parameters.
    named = _answers(module, lambda some: scores([p.clone() for p in parameters], some), x)
    if not _close(once, named) or any(isinstance(leaf, nn.Parameter) for leaf in leaves(named)):
        return "parameters other than those given, in an attribute, a hook or a replaced forward"
    return ""


def _answers(module: nn.Module, outputs: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The module's outputs for two minibatches in training mode, and for the first in eval mode."""
    found = []
    for training, batch in ((True, x[:2]), (True, x[-2:]), (False, x[:2])):
        module.train(training)
        torch.default_generator.manual_seed(0)
        if x.is_cuda:
            torch.cuda.manual_seed(0)
        found.append(outputs(batch.clone()))
        if not torch.is_tensor(found[-1]):
            raise TypeError(f"in training mode it gives a {type(found[-1]).__name__}, no tensor")
    return torch.cat(found)


def _close(one: Tensor, other: Tensor) -> bool:
    # Not equal bits, because a stack adds up in another order.
    return torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def watched(module: nn.Module) -> Callable[[], list[str]]:
    """A function that names what the module's layers hold that is new or rewritten since now."""
    before = _held(module)
    copies = [(name, value, value.clone()) for name, value in before if _dense(value)]

    def changed() -> list[str]:
        # Nothing new has one of these ids, because ``before`` keeps what has them.
        known = {id(value) for _, value in before}
        new = [name for name, value in _held(module) if id(value) not in known]
        return new + [name for name, value, copy in copies if not torch.equal(value, copy)]

    return changed


def _held(module: nn.Module) -> list[tuple[str, Any]]:
    """The names and values of all attributes, also of those inside of dictionaries and lists."""
    return [
        (f"{path}.{name}".strip("."), one)
        for path, layer in module.named_modules()
        for name, value in (vars(layer) | layer._parameters | layer._buffers).items()
        if name not in ("_parameters", "_buffers")
        for one in tree_leaves(value)
    ]


def _dense(value: Any) -> bool:
    return torch.is_tensor(value) and value.layout is torch.strided


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
    changed = watched(module)
    own = [[tensor[model].detach().clone() for tensor in parameters] for model in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mixes = not all(_one_by_one(scores, one, samples) for one in own)
        except Exception:  # a module may fail in any way, for instance on a single sample
            mixes = True
        pairs = zip(parameters, map(torch.stack, zip(*own, strict=True)), strict=True)
        remembers = bool(changed()) or not all(torch.equal(*pair) for pair in pairs)
        if mixes or remembers or hooked(module):
            return Look(None, mixes, remembers)
        pair = samples[:2] if len(samples) > 1 else samples.expand(2, *samples.shape[1:])
        numbers = _numbers_together(scores, parameters, pair, images)
        # If a module stores tensors from inside vmap, later calls fail.
        if numbers and changed():
            return Look(None, mixes, remembers=True)
    return Look(numbers)


def _one_by_one(scores: Scores, parameters: list[Tensor], samples: Tensor) -> bool:
    """Whether the module gives the same scores for all samples together and one by one."""
    # Clones, because a module may change its inputs in place.
    together = scores(parameters, samples.clone())
    alone = torch.cat([scores(parameters, one.clone()) for one in samples.split(1)])
    return _close(together, alone)


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
            alike = all(_close(*pair) for pair in pairs)
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
