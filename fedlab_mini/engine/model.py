"""Model: any ``nn.Module`` seen as a function of one flat parameter vector ``theta [P]``.

Chapter 1 derives it. Perceptrons, that is stacks of Linear and ReLU layers, are recognised and
evaluated many at a time (``thetas [C, P]``) by hand; other modules many at a time by ``vmap`` where
``probe`` finds that it can, and one after another where not. Below: probe. Above: local.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .. import checks
from ..checks import choice, flag, instance, reals, whole, wholes
from ..streams import LOCK, no_denormals, one_thread, stream
from .probe import numbers_per_sample

CACHE = 4 << 20  # bytes of activations or parameters that are worked on at a time
# Samples that a module is asked about at a time, or more where the cache holds them.
BLOCK = 512
# Numbers kept of a sample, up to which convolutions train faster in a stack.
SMALL_IMAGES = 8_000


class Images(nn.Module):
    """Turns rows ``[N, d]`` into images ``[N, channels, height, width]``, stored channels last."""

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.shape = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        images = x.reshape(len(x), *self.shape)
        # One channel is first and last; ``vmap`` cannot be asked for either.
        if self.shape[0] == 1:
            return images
        return images.contiguous(memory_format=torch.channels_last)


class Model:
    """An ``nn.Module`` as a function of ``theta``, the vector of all its P parameters.

    module   any module that maps inputs [N, ...] to class scores [N, classes]
    stacked  treat perceptrons as such (False: like any other module)

    ``P`` parameters; ``layers`` the (inputs, outputs) of a perceptron's layers, or None.
    raises   TypeError if it is no module; ValueError if it has no parameters, frozen ones, or
             keeps anything but parameters from one batch to the next. Threads may share a model;
             all but perceptrons then take turns
    """

    def __init__(self, module: nn.Module, *, stacked: bool = True):
        self.module = instance("module", module, nn.Module, "a torch.nn.Module")
        _refuse_statistics(module)
        _refuse_untrained(module)
        self.shapes = {name: p.shape for name, p in module.named_parameters()}
        self.P = sum(shape.numel() for shape in self.shapes.values())
        if self.P == 0:
            raise ValueError("module: has no parameters to train")
        self.layers = _perceptron_layers(module) if flag("stacked", stacked) else None
        self._buffers = [name for name, _ in module.named_buffers()]
        self._probed: dict[Any, int | None] = {}

    def __repr__(self) -> str:
        if self.layers:
            widths = [self.layers[0][0], *(outputs for _, outputs in self.layers)]
            return f"Model({'-'.join(map(str, widths))}, P={self.P})"
        return f"Model({type(self.module).__name__}, P={self.P})"

    def __fingerprint__(self) -> tuple[object, ...]:
        """For checkpoints: the module as ``init`` leaves it, not as it happens to be."""
        module = copy.deepcopy(self.module).train()
        nn.utils.vector_to_parameters(self.init(0).to(self.theta()), module.parameters())
        return bool(self.layers), module

    def init(
        self, seed: int, *, dtype: torch.dtype = torch.float32, device=None
    ) -> Tensor:
        """Fresh parameters ``theta [P]`` from PyTorch's own initialisers, decided by the seed.

        Layers without a ``reset_parameters`` method keep the values the module was given with.
        """
        dtype, device = checks.floating("dtype", dtype), checks.device("device", device)
        noise = stream(seed, "initial model").initial_seed()
        with LOCK:
            # In float64 other numbers would be drawn.
            fresh = copy.deepcopy(self.module).float()
            before = [p.detach().clone() for p in fresh.parameters()]
            # PyTorch's initialisers draw from the global generator, which is the caller's.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(noise)
                for part in fresh.modules():
                    if hasattr(part, "reset_parameters"):
                        part.reset_parameters()  # type: ignore[operator]
            # What no initialiser has drawn anew is given with all digits, not as its float32 copy.
            triples = zip(
                fresh.parameters(), before, self.module.parameters(), strict=True
            )
            drawn = [
                given if torch.equal(new, old) else new for new, old, given in triples
            ]
        return torch.cat([p.detach().flatten() for p in drawn]).to(
            dtype=dtype, device=device
        )

    def theta(self) -> Tensor:
        """The module's own parameters as one vector [P] (a trained module's, for instance)."""
        return torch.cat([p.detach().flatten() for p in self.module.parameters()])

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views on ``theta [..., P]``, one a parameter, each [..., *shape]."""
        numbers = checks.array("theta", theta, ["..."])
        if numbers.ndim == 0 or numbers.shape[-1] != self.P:
            got = checks.shown(numbers)
            raise ValueError(f"theta: expected an array [..., {self.P}], got {got}")
        # a tensor keeps its gradient
        theta = theta if torch.is_tensor(theta) else numbers
        pieces = theta.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        pairs = zip(pieces, self.shapes.values(), strict=True)
        return [piece.reshape(piece.shape[:-1] + shape) for piece, shape in pairs]

    def forward(self, theta: Tensor, x: Tensor) -> Tensor:
        """Class scores [N, classes] of inputs ``x [N, ...]`` under ``theta [P]``."""
        x = self._inputs(x)
        theta = _with_gradient("theta", theta, [self.P])
        return self.scores(self.split(theta.to(x)), x)

    def scores(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Class scores [N, classes] of ``x [N, ...]`` in whatever mode the module is.

        parameters  one tensor each, in the order of ``shapes``, of the type of ``x``
        """
        if self.layers:
            x = x.flatten(1)
        with LOCK:
            named = dict(zip(self.shapes, parameters, strict=True)) | self._constants(x)
            return functional_call(self.module, named, x)

    def stacked_scores(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Scores [R, N, classes] of R models ``[R, *shape]``, each about its own ``x [R, N, ...]``.

        Only where ``numbers_per_sample`` is a number.
        """
        return vmap(self.scores)(list(parameters), x)

    def numbers_per_sample(self, x: Tensor, *, training: bool) -> int | None:
        """What ``probe`` says of inputs like ``x``; found out once for their shape and type."""
        key = training, x.shape[1:], x.dtype, x.device
        if key not in self._probed:
            zeros = x.new_zeros(x.shape[1:])
            # Valid where inputs are indices, too.
            samples = torch.stack([zeros, zeros + 1])
            models = torch.stack([self.init(0), self.init(1)]).to(x).requires_grad_()
            with LOCK:
                self.module.train(training)
                parameters = self.split(models)
                images = SMALL_IMAGES if training else 0
                self._probed[key] = numbers_per_sample(
                    self.scores, parameters, samples, images
                )
        return self._probed[key]

    def outputs(self, x: Tensor) -> int:
        """How many scores an input like those of ``x`` gives; ValueError if it does not fit."""
        x = reals("x", x, ["N", "..."], finite=False)
        wanted = self.layers[0][0] if self.layers else None
        if wanted is not None and x[:1].numel() != wanted:
            raise ValueError(f"net: takes {wanted} inputs, the data have {x[:1].numel()}")
        with LOCK, torch.no_grad(), torch.random.fork_rng(devices=[]):
            parameters = self.split(self.theta().to(x))
            self.module.eval()
            try:
                answer = self.scores(parameters, x[:1])
                changed = self._changed_buffers(parameters, x[:2])
            except Exception as error:  # a module may fail in any way
                raise ValueError(
                    f"net: fails on data of shape {tuple(x.shape[1:])}: {error}"
                ) from error
        if changed:
            raise ValueError(
                f"net: changes its buffer {', '.join(map(repr, changed))} when it is trained; "
                "a client sends parameters only, so nothing else may be learnt"
            )
        if not torch.is_tensor(answer) or answer.ndim != 2 or len(answer) != 1:
            is_tensor = torch.is_tensor(answer)
            gives = f"shape {list(answer.shape)}" if is_tensor else type(answer).__name__
            raise ValueError(f"net: one input gives {gives}, expected [1, classes]")
        return answer.shape[1]

    def check(self, x: Tensor, classes: int) -> None:
        """Raise ValueError unless inputs like ``x`` give exactly ``classes`` scores."""
        classes = whole("classes", classes)
        if (outputs := self.outputs(x)) != classes:
            raise ValueError(
                f"net: gives {outputs} outputs, the data have {classes} classes"
            )

    @torch.no_grad()
    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """The likeliest class [N] of inputs ``x [N, ...]`` under ``theta [P]``."""
        x = self._inputs(x)
        theta = reals("theta", theta, [self.P], dtype=x.dtype, finite=False).to(x.device)
        with LOCK:
            self.module.eval()
            return self.scores(self.split(theta), x).argmax(1)

    @torch.no_grad()
    def evaluate(
        self, thetas: Tensor, x: Tensor, y: Tensor, metric: str = "accuracy"
    ) -> Tensor:
        """Accuracy (share correct) or mean cross-entropy of many models on the same samples.

        thetas [C, P], x [N, ...], y [N]; metric "accuracy" or "loss"; returns [C] in float64
        """
        check_metric(metric)
        x = self._inputs(x)
        thetas = reals("thetas", thetas, ["C", self.P], dtype=x.dtype, finite=False).to(
            x.device
        )
        y = wholes("y", y, [len(x)]).to(x.device)
        answers = self._perceptron_answers if self.layers else self._module_answers
        results: list[Tensor] = []
        with one_thread(), no_denormals():
            for scores in answers(thetas, x):
                # Only an answer tells how many classes a module has.
                if not results:
                    wholes("y", y, [len(x)], 0, scores.shape[1] - 1)
                results.append(measure(scores, y, metric))
        return torch.cat(results)

    def _perceptron_answers(self, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
        """Class scores [c, classes, N] of the models, as many at a time as the cache holds."""
        width = max(outputs for _, outputs in self.layers or ())
        at_once = max(1, CACHE // (width * len(x) * x.element_size()))
        columns = x.flatten(1).T  # [d, N]
        for chunk in thetas.split(at_once):
            weight, bias, *later = self.split(chunk)
            # All first layers meet the same inputs: they are one tall matrix.
            h = weight.flatten(0, 1) @ columns  # [c * out, N]
            h = h.unflatten(0, (len(chunk), -1)).add_(bias[:, :, None])
            for weight, bias in zip(later[0::2], later[1::2], strict=True):
                h = torch.baddbmm(bias[:, :, None], weight, h.relu_())  # [c, out, N]
            yield h

    def _module_answers(self, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
        """The same of any module: class scores [c, classes, N]."""
        with LOCK:
            numbers = self.numbers_per_sample(x, training=False)
            self.module.eval()
            if numbers is None:
                for theta in thetas:
                    parameters = self.split(theta)
                    scores = [self.scores(parameters, block) for block in x.split(BLOCK)]
                    yield torch.cat(scores).T[None]
                return
            # Samples of all models together.
            fitting = CACHE // (numbers * x.element_size())
            for chunk in thetas.split(max(1, fitting // len(x))):
                parameters = self.split(chunk)
                # [N, ...] -> [c, N, ...] without a copy, and then in blocks of samples
                blocks = x.expand(len(chunk), *x.shape).split(max(BLOCK, fitting), 1)
                scores = [self.stacked_scores(parameters, block) for block in blocks]
                yield torch.cat(scores, 1).transpose(1, 2)

    def _inputs(self, x: Tensor) -> Tensor:
        """Samples [N, ...] of the width that a perceptron takes."""
        x = _with_gradient("x", x, ["N", "..."])
        if self.layers and x.numel() != len(x) * self.layers[0][0]:
            wanted = checks.dims(["N", self.layers[0][0]])
            raise ValueError(f"x: expected an array {wanted}, got {checks.shown(x)}")
        return x

    def _constants(self, x: Tensor) -> dict[str, Tensor]:
        """The module's buffers, real ones in the type of ``x``."""
        buffers = {name: self.module.get_buffer(name) for name in self._buffers}
        return {
            name: buffer.to(x) if buffer.is_floating_point() else buffer.to(x.device)
            for name, buffer in buffers.items()
        }

    def _changed_buffers(self, parameters: list[Tensor], x: Tensor) -> list[str]:
        """Names of buffers that an answer given in training leaves changed."""
        if not self._buffers:
            return []
        before = self._constants(x)
        # Clones, so that the question leaves the module's own buffers as they are.
        named = {name: buffer.clone() for name, buffer in before.items()}
        named |= zip(self.shapes, parameters, strict=True)
        functional_call(self.module.train(), named, x)
        return [name for name in before if not torch.equal(named[name], before[name])]


def _with_gradient(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """As ``checks.reals``, but a tensor that is accepted as it is keeps its gradient."""
    checked = reals(name, value, shape, finite=False)
    return value if torch.is_tensor(value) and value.dtype == checked.dtype else checked


def _refuse_statistics(module: nn.Module) -> None:
    """No layer whose answer to a sample depends on others, of this batch or of earlier ones."""
    for name, part in module.named_modules():
        normalises_batches = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if normalises_batches or getattr(part, "track_running_stats", False):
            raise ValueError(
                f"module: layer {name!r} ({type(part).__name__}) mixes the samples of a batch "
                "or keeps statistics of them; use GroupNorm or LayerNorm"
            )


def _refuse_untrained(module: nn.Module) -> None:
    """No parameter that is frozen or holds no real numbers."""
    for name, p in module.named_parameters():
        if not (p.requires_grad and p.is_floating_point()):
            reason = "of " + str(p.dtype) if p.requires_grad else "frozen"
            raise ValueError(
                f"module: parameter {name!r} is {reason}; theta trains all, as reals"
            )


def _perceptron_layers(module: nn.Module) -> tuple[tuple[int, int], ...] | None:
    """The (in, out) of each Linear layer if the module is Linear-ReLU-...-Linear, else None."""
    parts = list(module) if isinstance(module, nn.Sequential) else [module]
    if parts and isinstance(parts[0], nn.Flatten) and parts[0].start_dim == 1:
        parts = parts[1:]
    linear: list[Any] = parts[0::2]
    between = parts[1::2]
    # Types, not instances: a subclass of Linear may compute anything.
    fits = (
        len(parts) % 2 == 1
        and all(type(p) is nn.Linear and p.bias is not None for p in linear)
        and all(type(p) is nn.ReLU for p in between)
    )
    return tuple((p.in_features, p.out_features) for p in linear) if fits else None


def check_metric(metric: str) -> None:
    """Refuse anything but the two metrics."""
    choice("metric", metric, ("accuracy", "loss"))


def measure(scores: Tensor, y: Tensor, metric: str) -> Tensor:
    """Accuracy or mean cross-entropy from class scores ``[C, classes, N]``; returns [C] float64.

    Accuracy is what ``argmax(1) == y`` gives, several times faster over a short middle dimension.
    """
    score_of_label = scores.gather(1, y.expand(len(scores), 1, -1)).squeeze(1)  # [C, N]
    # -log softmax is logsumexp - score; a softmax of its own could underflow to log 0.
    if metric == "loss":
        return (scores.logsumexp(1) - score_of_label).double().mean(1)
    highest = scores.amax(1)
    correct = score_of_label == highest
    # Equal scores: the first class wins, as in argmax.
    for c in range(scores.shape[1] - 1):
        correct &= (scores[:, c] < highest) | (y <= c)
    return correct.double().mean(1)


def mlp(*widths: int) -> Model:
    """A multilayer perceptron: ``mlp(64, 32, 10)``: 64 inputs, 32 hidden ReLU units, 10 classes."""
    if len(widths) < 2:
        raise ValueError(f"widths: expected at least inputs and classes, got {widths}")
    parts: list[nn.Module] = []
    with LOCK:  # layers begin with numbers from the global generator
        for inputs, outputs in itertools.pairwise(
            whole("widths", width) for width in widths
        ):
            parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return Model(nn.Sequential(*parts[:-1]))


def logistic(inputs: int, classes: int) -> Model:
    """Multinomial logistic regression: one Linear layer."""
    return mlp(whole("inputs", inputs), whole("classes", classes))


def cnn(
    shape: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    *,
    channels: Sequence[int] = (16, 32),
    kernel: int = 5,
    hidden: int = 256,
) -> Model:
    """A small convolutional network on rows of pixels: (conv, ReLU, max-pool) twice, then dense.

    shape     (channels, height, width) of an image; the defaults fit MNIST as FLDVE uses it
    channels  maps of the convolutions; kernel  their side; hidden  units of the dense layer
    raises    ValueError if the image is too small for two poolings
    """
    depth, height, width = wholes("shape", shape, [3], 1).tolist()
    kernel, hidden = whole("kernel", kernel), whole("hidden", hidden)
    # An even kernel adds a row, a column.
    classes, even = whole("classes", classes), 1 - kernel % 2
    parts: list[nn.Module] = [Images((depth, height, width))]
    with LOCK:
        for maps in wholes("channels", channels, ["layers"], 1).tolist():
            convolution = nn.Conv2d(depth, maps, kernel, padding=kernel // 2)
            parts += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
            depth, height, width = maps, (height + even) // 2, (width + even) // 2
        if height < 1 or width < 1:
            raise ValueError(
                f"shape: {tuple(shape)} is too small for {len(channels)} poolings"
            )
        parts += [nn.Flatten(), nn.Linear(depth * height * width, hidden), nn.ReLU()]
        return Model(nn.Sequential(*parts, nn.Linear(hidden, classes)))
