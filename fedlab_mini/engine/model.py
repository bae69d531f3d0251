"""Model: any ``nn.Module`` seen as a function of one flat parameter vector ``theta [P]``.

Chapter 1 derives it. Stacks of Linear and ReLU layers are recognised and evaluated many at a time
(``thetas [C, P]``); every other module takes the slower path, one parameter vector after another.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..checks import choice, flag, instance, reals, whole, wholes
from ..streams import stream

CACHE = 4 << 20  # bytes of activations or parameters that are worked on at a time
DENORMAL = 5e-324
LOCK = threading.RLock()  # a module's parameters and mode are shared, its chance is global: one
# thread at a time calls modules; stacks of Linear and ReLU layers need none of it


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Small products run faster on one thread; the former number is restored afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """Numbers too small for full precision count as 0: each would cost a hundred usual ones.

    Holds for this thread; restored afterwards.
    """
    before = DENORMAL * 1.0 == 0  # there is no other way to ask
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Images(nn.Module):
    """Turns rows ``[N, d]`` into images ``[N, channels, height, width]``, stored channels last."""

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.shape = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.shape).contiguous(memory_format=torch.channels_last)


class Model:
    """An ``nn.Module`` as a function of ``theta``, the vector of all its P parameters.

    module   any module that maps inputs [N, ...] to class scores [N, classes]
    stacked  use the stacked path where the layers allow it (False forces the general path)

    ``P`` parameters; ``layers`` the (inputs, outputs) of a Linear/ReLU stack, or None.
    raises   TypeError if it is no module; ValueError if it has no parameters, frozen ones, or state
             beside them. Threads may share a model; all but stacks then take turns
    """

    def __init__(self, module: nn.Module, *, stacked: bool = True):
        self.module = instance("module", module, nn.Module, "a torch.nn.Module")
        for name, part in module.named_modules():
            norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
            if norm or getattr(part, "track_running_stats", False):
                raise ValueError(
                    f"module: layer {name!r} ({type(part).__name__}) mixes the samples of a batch "
                    "or keeps statistics of them; use GroupNorm or LayerNorm"
                )
        for name, p in module.named_parameters():
            if not (p.requires_grad and p.is_floating_point()):
                why = "of " + str(p.dtype) if p.requires_grad else "frozen"
                raise ValueError(f"module: parameter {name!r} is {why}; theta trains all, as reals")
        self.shapes = {name: p.shape for name, p in module.named_parameters()}
        self.P = sum(shape.numel() for shape in self.shapes.values())
        if self.P == 0:
            raise ValueError("module: has no parameters to train")
        self.layers = _linear_stack(module) if flag("stacked", stacked) else None

    def __repr__(self) -> str:
        if self.layers:
            widths = [self.layers[0][0], *(out for _, out in self.layers)]
            return f"Model({'-'.join(map(str, widths))}, P={self.P})"
        return f"Model({type(self.module).__name__}, P={self.P})"

    def __fingerprint__(self) -> tuple[object, ...]:
        """For checkpoints: the module as ``init`` leaves it, not as it happens to be."""
        module = copy.deepcopy(self.module).train()
        nn.utils.vector_to_parameters(self.init(0).to(self.theta()), module.parameters())
        return bool(self.layers), module

    def init(self, seed: int, *, dtype: torch.dtype = torch.float32, device=None) -> Tensor:
        """Fresh parameters ``theta [P]`` from PyTorch's own initialisers, decided by the seed.

        Layers without a ``reset_parameters`` method keep the values the module was given with.
        """
        number = stream(seed, "initial model").initial_seed()
        with LOCK:
            fresh = copy.deepcopy(self.module).float()  # in float64 other numbers would be drawn
            given = [p.detach().clone() for p in fresh.parameters()]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(number)
                for part in fresh.modules():
                    if hasattr(part, "reset_parameters"):
                        part.reset_parameters()  # type: ignore[operator]
            parts = zip(fresh.parameters(), given, self.module.parameters(), strict=True)
            drawn = [own if torch.equal(new, old) else new for new, old, own in parts]
        return torch.cat([p.detach().flatten() for p in drawn]).to(dtype=dtype, device=device)

    def theta(self) -> Tensor:
        """The module's own parameters as one vector [P] (a trained module's, for instance)."""
        return torch.cat([p.detach().flatten() for p in self.module.parameters()])

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views on ``theta [..., P]``, one a parameter, each [..., *shape]."""
        parts = theta.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        pairs = zip(parts, self.shapes.values(), strict=True)
        return [part.view(part.shape[:-1] + shape) for part, shape in pairs]

    def forward(self, theta: Tensor, x: Tensor) -> Tensor:
        """Class scores [N, classes] of inputs ``x [N, ...]`` under ``theta [P]``."""
        if self.layers:
            x = x.flatten(1)
        with LOCK:
            parts = dict(zip(self.shapes, self.split(theta), strict=True))
            return functional_call(self.module, parts, x)

    def outputs(self, x: Tensor) -> int:
        """How many scores an input like those of ``x`` gives; ValueError if it does not fit."""
        wanted = self.layers[0][0] if self.layers else None
        if wanted is not None and x[:1].numel() != wanted:
            raise ValueError(f"net: takes {wanted} inputs, the data have {x[:1].numel()}")
        with LOCK, torch.no_grad():
            self.module.eval()
            try:
                out = self.forward(self.theta().to(x), x[:1])
            except Exception as error:  # a module may fail in any way
                raise ValueError(
                    f"net: fails on data of shape {tuple(x.shape[1:])}: {error}"
                ) from error
        if not torch.is_tensor(out) or out.ndim != 2 or len(out) != 1:
            gives = f"shape {list(out.shape)}" if torch.is_tensor(out) else type(out).__name__
            raise ValueError(f"net: one input gives {gives}, expected [1, classes]")
        return out.shape[1]

    def check(self, x: Tensor, classes: int) -> None:
        """Raise ValueError unless inputs like ``x`` give exactly ``classes`` scores."""
        if (found := self.outputs(x)) != classes:
            raise ValueError(f"net: gives {found} outputs, the data have {classes} classes")

    @torch.no_grad()
    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """The likeliest class [N] of inputs ``x [N, ...]`` under ``theta [P]``."""
        x = reals("x", x, ["N", "..."], finite=False)
        theta = reals("theta", theta, [self.P], dtype=x.dtype, finite=False).to(x.device)
        with LOCK:
            self.module.eval()
            return self.forward(theta, x).argmax(1)

    @torch.no_grad()
    def evaluate(self, thetas: Tensor, x: Tensor, y: Tensor, metric: str = "accuracy") -> Tensor:
        """Accuracy (share correct) or mean cross-entropy of many models on the same samples.

        thetas [C, P], x [N, ...], y [N]; metric "accuracy" or "loss"; returns [C] in float64
        """
        check_metric(metric)
        x = reals("x", x, ["N", "..."], finite=False)
        thetas = reals("thetas", thetas, ["C", self.P], dtype=x.dtype, finite=False).to(x.device)
        y = wholes("y", y, [len(x)], 0, self.layers[-1][1] - 1 if self.layers else None)
        y = y.to(x.device)
        with one_thread(), no_denormals():
            if self.layers:
                return self._evaluate_stack(thetas, x.flatten(1), y, metric)
            with LOCK:
                self.module.eval()
                scores = (torch.cat([self.forward(t, p) for p in x.split(256)]) for t in thetas)
                return torch.cat([measure(s.T[None], y, metric) for s in scores])

    def _evaluate_stack(self, thetas: Tensor, x: Tensor, y: Tensor, metric: str) -> Tensor:
        width = max(out for _, out in self.layers or ())
        many = max(1, CACHE // (width * len(x) * x.element_size()))
        columns = x.T  # [d, N]
        results = []
        for chunk in thetas.split(many):
            parts = self.split(chunk)
            h = parts[0].flatten(0, 1) @ columns  # [c * out, N]
            h = h.unflatten(0, (len(chunk), -1)).add_(parts[1][:, :, None])
            for weight, bias in zip(parts[2::2], parts[3::2], strict=True):
                h = torch.baddbmm(bias[:, :, None], weight, h.relu_())  # [c, out, N]
            results.append(measure(h, y, metric))
        return torch.cat(results)


def check_metric(metric: str) -> None:
    """Refuse anything but the two metrics."""
    choice("metric", metric, ("accuracy", "loss"))


def measure(scores: Tensor, y: Tensor, metric: str) -> Tensor:
    """Accuracy or mean cross-entropy from class scores ``[C, classes, N]``; returns [C] float64.

    Accuracy is what ``argmax(1) == y`` gives, several times faster over a short middle dimension.
    """
    own = scores.gather(1, y.expand(len(scores), 1, -1)).squeeze(1)  # [C, N]
    if metric == "loss":
        return (scores.logsumexp(1) - own).double().mean(1)
    best = scores.amax(1)
    hit = own == best
    for c in range(scores.shape[1] - 1):  # equal scores: the first class wins, as in argmax
        hit &= (scores[:, c] < best) | (y <= c)
    return hit.double().mean(1)


def _linear_stack(module: nn.Module) -> tuple[tuple[int, int], ...] | None:
    """The (in, out) of each Linear layer if the module is Linear-ReLU-...-Linear, else None."""
    parts = list(module) if isinstance(module, nn.Sequential) else [module]
    if parts and isinstance(parts[0], nn.Flatten) and parts[0].start_dim == 1:
        parts = parts[1:]
    linear: list[Any] = parts[0::2]
    between = parts[1::2]
    fits = (
        len(parts) % 2 == 1
        and all(type(p) is nn.Linear and p.bias is not None for p in linear)
        and all(type(p) is nn.ReLU for p in between)
    )
    return tuple((p.in_features, p.out_features) for p in linear) if fits else None


def mlp(*widths: int) -> Model:
    """A multilayer perceptron: ``mlp(64, 32, 10)``: 64 inputs, 32 hidden ReLU units, 10 classes."""
    if len(widths) < 2:
        raise ValueError(f"widths: expected at least inputs and classes, got {widths}")
    parts: list[nn.Module] = []
    with LOCK:  # layers begin with numbers from the global generator
        for inputs, outputs in itertools.pairwise(whole("widths", width) for width in widths):
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
    classes, even = whole("classes", classes), 1 - kernel % 2  # an even kernel adds a row, a column
    parts: list[nn.Module] = [Images((depth, height, width))]
    with LOCK:
        for maps in wholes("channels", channels, ["layers"], 1).tolist():
            convolution = nn.Conv2d(depth, maps, kernel, padding=kernel // 2)
            parts += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
            depth, height, width = maps, (height + even) // 2, (width + even) // 2
        if height < 1 or width < 1:
            raise ValueError(f"shape: {tuple(shape)} is too small for {len(channels)} poolings")
        parts += [nn.Flatten(), nn.Linear(depth * height * width, hidden), nn.ReLU()]
        return Model(nn.Sequential(*parts, nn.Linear(hidden, classes)))
