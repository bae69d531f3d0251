"""Outputs: what a model's module gives for its inputs, for one model or for many at once.

The plain way is to call the module once for each model. Here perceptrons (Linear and ReLU layers)
are recognised, and many of them (``thetas [C, P]``) are evaluated by hand with few operations. Any
other module is evaluated by its own forward: many models at once by ``torch.func.vmap`` if a trial
finds that this works, and otherwise one after another.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..parse import checks
from ..parse import module as probe
from ..parse.metric import Metric, metric_values
from ..streams import LOCK, kept_chance, no_denormals
from .objective import Measure

if TYPE_CHECKING:
    from .model import Model

CACHE = 4 << 20  # bytes of activations or parameters to work on at a time
# Samples that a module gets at a time, or more if they fit into the cache.
BLOCK = 512
# If autograd keeps at most this many numbers of a sample, convolutions train faster in a stack.
SMALL_IMAGES = 8_000


class Parts(NamedTuple):
    """A module's parts: its parameters' shapes, their number P, and a perceptron's layers.

    layers  the (inputs, outputs) of a perceptron's layers; None for any other module
    """

    shapes: dict[str, torch.Size]
    P: int
    layers: tuple[tuple[int, int], ...] | None

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views of ``theta [..., P]``, one for each parameter, each [..., *shape]."""
        shapes, first = self.shapes.values(), theta.shape[:-1]
        pieces = theta.split([shape.numel() for shape in shapes], -1)
        pairs = zip(pieces, shapes, strict=True)
        return [piece.reshape(first + shape) for piece, shape in pairs]


def parts(net: Model) -> Parts:
    """The module's parts as they are now; ValueError if theta cannot describe the module."""
    if net._parts is not None:
        return net._parts
    probe.refuse(net.module)
    shapes = {name: p.shape for name, p in probe.trainable(net.module).items()}
    P = sum(shape.numel() for shape in shapes.values())
    return Parts(shapes, P, probe.perceptron_layers(net.module))


def fresh_copy(net: Model) -> Model:
    """The same model with a copy of the module, for a caller that may write into it."""
    now, found = parts(net), copy.copy(net)
    with LOCK:
        found.module = probe.copied(net.module)
    # What was found out about an earlier state of the module may be wrong by now.
    found._looks = net._looks if net._parts is not None else {}
    found._parts = now
    return found


def snapshot(net: Model) -> Model:
    """This model with a copy of its module, which later changes to the module do not reach."""
    # Only copies have ``_parts``.
    return net if net._parts is not None else fresh_copy(net)


def evaluable(net: Model, *, again: bool = False) -> Model:
    """A model whose module may be evaluated: a copy, unless the module is a perceptron.

    again  if this model is a copy already, use it again, because it stores what ``look`` found
    """
    now = parts(net)
    if now.layers is None:
        return snapshot(net) if again else fresh_copy(net)
    found = copy.copy(net)
    found._parts = now
    return found


def outputs(net: Model, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Outputs [N, classes] for ``x [N, ...]`` in the module's present mode.

    parameters  one tensor each, in the order of ``shapes`` and of the type of ``x``
    """
    if parts(net).layers:
        x = x.flatten(1)
    with LOCK:
        held = named(net, parameters) | constants(net, x)
        return functional_call(net.module, held, x, tie_weights=False)


def stacked_outputs(net: Model, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Outputs [R, N, classes] of R models ``[R, *shape]``, each for its own ``x [R, N, ...]``.

    It works only if ``look`` finds that ``vmap`` can evaluate the module.
    """
    return vmap(partial(outputs, net))(list(parameters), x)


def look(net: Model, x: Tensor, *, training: bool) -> probe.Look:
    """What a trial finds for inputs like ``x``; a copy asks once for each shape and type."""
    key = training, x.shape[1:], x.dtype, x.device
    if net._parts is not None and key in net._looks:
        return net._looks[key]
    own = fresh_copy(net)
    if key not in own._looks:
        own.module.train(training)
        models = torch.stack([net.init(0), net.init(1)]).to(x).requires_grad_()
        tried = own.split(models), probe.some(x), SMALL_IMAGES if training else 0
        with LOCK, kept_chance(), torch.set_grad_enabled(training):
            own._looks[key] = probe.look(own.module, partial(outputs, own), *tried)
    return own._looks[key]


def measure_of(net: Model, metric: Metric) -> Measure:
    """The function for a metric or its name: outputs [C, N, ...] and labels to values [C]."""
    if metric in ("accuracy", "loss"):
        return net.objective.instead.get(metric, partial(measure, metric))
    return partial(metric_values, metric)  # type: ignore[arg-type]


@torch.no_grad()
def quality(
    net: Model, thetas: Tensor, x: Tensor, y: Tensor, *metrics: Metric
) -> tuple[Tensor, ...]:
    """Like ``Model.evaluate`` with several metrics; it checks only that labels are classes.

    returns  [C] for each metric
    """
    results: list[list[Tensor]] = []
    of_classes = net.objective.given_loss is None
    answers = _of_perceptrons if parts(net).layers else _of_modules
    measures = [measure_of(net, metric) for metric in metrics]
    with no_denormals():
        for found in answers(net, thetas, x):
            # Only the outputs show how many classes a module has.
            if of_classes and int(y.max()) >= found.shape[2]:
                checks.wholes("y", y, [len(x)], 0, found.shape[2] - 1)
            results.append([of_metric(found, y) for of_metric in measures])
    return tuple(torch.cat(of_metric) for of_metric in zip(*results, strict=True))


def _of_perceptrons(net: Model, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
    """Outputs [c, N, classes] of the models, as many at a time as the cache holds."""
    own = parts(net)
    width = max(map(itemgetter(1), own.layers or ()))
    at_once = max(1, CACHE // (width * len(x) * x.element_size()))
    columns = x.flatten(1).T  # [d, N]
    for chunk in thetas.split(at_once):
        weight, bias, *later = own.split(chunk)
        # All first layers have the same inputs, so they form one tall matrix.
        h = weight.flatten(0, 1) @ columns  # [c * out, N]
        h = h.unflatten(0, (len(chunk), -1)).add_(bias[:, :, None])
        for weight, bias in zip(later[0::2], later[1::2], strict=True):
            h = torch.baddbmm(bias[:, :, None], weight, h.relu_())  # [c, out, N]
        yield h.transpose(1, 2)


def _of_modules(net: Model, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
    """Outputs [c, N, ...] of the models, for any module."""
    with LOCK:
        seen = look(net, x, training=False)
        if seen.numbers is None:
            # If the output for a sample depends on the others, all go in one block.
            block = len(x) if seen.mixes else BLOCK
            for theta in thetas:
                own = fresh_copy(net) if seen.remembers else net
                parameters = [part.clone() for part in own.split(theta)]
                with eval_mode(own):
                    found = [outputs(own, parameters, some) for some in x.clone().split(block)]
                yield torch.cat(found)[None]
            return
        net.module.eval()
        # How many samples, counted over all models, fit into the cache.
        fitting = CACHE // (seen.numbers * x.element_size())
        for chunk in thetas.split(max(1, fitting // len(x))):
            parameters = net.split(chunk.clone())
            # [N, ...] -> [c, N, ...], a view that cannot be written to, then blocks of samples
            blocks = x.expand(len(chunk), *x.shape).split(max(BLOCK, fitting), 1)
            yield torch.cat([stacked_outputs(net, parameters, block) for block in blocks], 1)


@contextlib.contextmanager
def eval_mode(net: Model) -> Iterator[None]:
    """The module in eval mode; random numbers, if it still draws any, are always the same."""
    if parts(net).layers:
        yield
        return
    with LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net.module.eval()
        yield


def constants(net: Model, x: Tensor) -> dict[str, Tensor]:
    """The module's buffers and frozen parameters, floating ones in the type of ``x``."""
    found = dict(probe.places(net.module, "_buffers"))
    held = probe.places(net.module, "_parameters")
    found |= {name: p.detach() for name, p in held if not p.requires_grad}
    return {
        name: value.to(x) if value.is_floating_point() else value.to(x.device)
        for name, value in found.items()
    }


def named(net: Model, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """The parameters under every name in the module: one that layers share has several."""
    given = dict(zip(net.shapes, parameters, strict=True))
    held = list(probe.places(net.module, "_parameters"))
    first = {id(p): name for name, p in reversed(held) if p.requires_grad}
    return {name: given[first[id(p)]] for name, p in held if p.requires_grad}


def output_table(net: Model, x: Tensor) -> str:
    """Name of the last parameter that the outputs for ``x`` use, a matrix if there is one."""
    own = evaluable(net)
    parameters = [part.requires_grad_() for part in own.split(own.theta().to(x))]
    names = {id(part): name for name, part in zip(own.shapes, parameters, strict=True)}
    with torch.enable_grad(), eval_mode(own):
        nearest = probe.leaves(outputs(own, parameters, x[:1].clone()))
    # Nearest to the outputs first, but matrices before a bias or a scale.
    ordered = sorted(
        (leaf for leaf in nearest if id(leaf) in names), key=lambda leaf: leaf.ndim < 2
    )
    if not ordered:
        raise ValueError("net: its outputs depend on none of its parameters")
    return names[id(ordered[0])]


def measure(metric: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Accuracy or mean cross-entropy from outputs ``[C, N, classes]``; returns [C] float64.

    Accuracy is the same as by ``argmax(2) == y``, but several times faster for few classes.
    """
    by_class = outputs.transpose(1, 2)  # [C, classes, N]
    of_label = by_class.gather(1, y.expand(len(by_class), 1, -1)).squeeze(1)  # [C, N]
    # -log softmax is logsumexp - output; a separate softmax could underflow, which gives log 0.
    if metric == "loss":
        return (by_class.logsumexp(1) - of_label).double().mean(1)
    highest = by_class.amax(1)
    correct = of_label == highest
    # If outputs are equal, the first class wins, as in argmax.
    for c in range(by_class.shape[1] - 1):
        correct &= (by_class[:, c] < highest) | (y <= c)
    return correct.double().mean(1)
