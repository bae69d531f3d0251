"""Probe: can models of a module be asked many at once, or must each be asked alone?

Two made-up models answer two made-up samples, together and alone. What they do decides, never how
long it takes, so the answer is the same on every machine and in every process. Above: model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.func import vmap

# Parameters, x [N, ...] -> scores [N, classes].
Scores = Callable[[list[Tensor], Tensor], Tensor]


def numbers_per_sample(
    scores: Scores, parameters: list[Tensor], samples: Tensor, images: int
) -> int | None:
    """How many numbers a model keeps of a sample for its gradient; None: it must be asked alone.

    parameters  of two models, [2, *shape] each, that require gradients; samples  two [2, ...]
    images      how many numbers modules with convolutions may keep

    Alone are asked modules with convolutions that keep more, as a stack of them is slower; those
    that draw random numbers, as every client draws from a stream of its own; those whose answer to
    one sample depends on the others, as stacks are filled up with samples that do not count; and
    what ``vmap`` refuses, or does one after another, which it warns of.
    """
    models = range(2)
    # What autograd keeps of the parameters' own memory costs nothing more.
    owned = {tensor.untyped_storage().data_ptr() for tensor in parameters}
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in owned:
            kept.append(tensor.numel())
        return tensor

    with warnings.catch_warnings(record=True) as said, torch.random.fork_rng(devices=[]):
        warnings.simplefilter("always")
        try:
            # Autograd hands every tensor that it saves for the backward pass to the first hook.
            with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor):
                together = vmap(scores)(parameters, samples.expand(2, *samples.shape))
            for model in models:
                own = [tensor[model] for tensor in parameters]
                # One sample at a time: a module whose answer depends on the batch differs here.
                alone = torch.cat([scores(own, sample) for sample in samples.split(1)])
                # Not equal bits: a stack adds up in another order.
                if not torch.allclose(together[model], alone, rtol=1e-3, atol=1e-5):
                    return None
        except Exception:  # a module may fail in any way, and vmap refuse it in many
            return None
    # Never 0, which callers take for no number, and divide by.
    numbers = 1 + sum(kept) // (len(models) * len(samples))
    one_by_one = any("performance drop" in str(warning.message) for warning in said)
    too_large = numbers > images and _convolves(together.grad_fn)
    return None if one_by_one or too_large else numbers


def _convolves(last: Node | None) -> bool:
    """Whether a convolution, by a layer or by a function, lies on the way to a result."""
    seen, waiting = set(), [last]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if "Convolution" in node.name():
            return True
        seen.add(node)
        waiting += [below for below, _ in node.next_functions]
    return False
