"""Model: any ``nn.Module`` seen as a function of one flat parameter vector ``theta [P]``.

Chapter 1 derives it. Perceptrons (Linear and ReLU layers) are recognised, and many of them
(``thetas [C, P]``) are evaluated at once by hand. Any other module is evaluated by its own forward:
many models at once by ``vmap`` if ``probe`` finds that this works, and otherwise one after another.
Below: probe. Above: networks, local.
"""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .. import checks
from ..checks import instance, reals, whole, wholes
from ..streams import LOCK, kept_chance, no_denormals, one_thread, other_chance, stream
from .objective import Function, Judge, Metric, Objective, check_metric, judged_by
from .probe import (
    Look,
    copied,
    leaves,
    look,
    own_tensors,
    perceptron_layers,
    places,
    refuse,
    some,
    trainable,
)

CACHE = 4 << 20  # bytes of activations or parameters to work on at a time
# Samples that a module gets at a time, or more if they fit into the cache.
BLOCK = 512
# If autograd keeps at most this many numbers of a sample, convolutions train faster in a stack.
SMALL_IMAGES = 8_000


class Parts(NamedTuple):
    """A module's parts: its parameters' shapes, their number P, and a perceptron's layers."""

    shapes: dict[str, torch.Size]
    P: int
    layers: tuple[tuple[int, int], ...] | None

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views of ``theta [..., P]``, one for each parameter, each [..., *shape]."""
        views, shapes, first = [], self.shapes.values(), theta.shape[:-1]
        for piece, shape in zip(
            theta.split(list(map(torch.Size.numel, shapes)), -1), shapes, strict=True
        ):
            views.append(piece.reshape(first + shape))
        return views


class Model:
    """An ``nn.Module`` as a function of ``theta``, the vector of all its P parameters.

    module   any module that maps inputs [N, ...] to class scores [N, classes]
    loss     what training minimises in place of cross-entropy: a function of (outputs, labels) such
             as ``nn.MSELoss()``; outputs and labels may then have any shape [N, ...]
    metric   what replaces accuracy, which is the default: a function of (outputs, labels) that
             returns a number, more is better

    ``P`` is the number of parameters without frozen ones (``requires_grad=False``), which are
    constants; ``shapes`` are their shapes by name, in the order of theta; ``layers`` are the
    (inputs, outputs) of a perceptron's layers, or None. The model always uses the module in its
    present state, and does not change it.
    raises   TypeError if it is no module; ValueError if it has no parameters to train, or keeps
             anything but parameters from one batch to the next. Threads may share a model; all
             but perceptrons then wait for each other
    """

    shapes: dict[str, torch.Size]
    P: int
    layers: tuple[tuple[int, int], ...] | None
    parts: Parts

    def __init__(
        self, module: nn.Module, *, loss: Function | None = None, metric: Function | None = None
    ):
        self.objective = Objective(loss, metric)
        # The function for each metric's name: outputs [C, N, ...] and labels to values [C].
        words = ("accuracy", "loss")
        self.judges: dict[Any, Judge] = {word: partial(measure, word) for word in words}
        self.judges |= self.objective.instead
        self.module = instance("module", module, nn.Module, "a torch.nn.Module")
        # Whether the package made the module, so that no weights of a user can be lost.
        self.ours = False
        self._taken: Parts | None = None  # set for a copy, which nobody changes any more
        self._looks: dict[Any, Look] = {}
        self._parts()

    def _parts(self) -> Parts:
        """The module's parts as they are now; ValueError if theta cannot describe the module."""
        if self._taken is not None:
            return self._taken
        refuse(self.module)
        shapes = {name: p.shape for name, p in trainable(self.module).items()}
        P = sum(shape.numel() for shape in shapes.values())
        if P == 0:
            raise ValueError("module: has no parameters to train")
        return Parts(shapes, P, perceptron_layers(self.module))

    def __getattr__(self, name: str) -> Any:
        # Read anew each time, because the module may change; a copy has them set, see `_take`.
        if name == "parts":
            return self._parts()
        if name in Parts._fields:
            return getattr(self._parts(), name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def now(self) -> Model:
        """This model with a copy of its module, which later changes to the module do not reach."""
        return self if self._taken is not None else self._copy()

    def _copy(self) -> Model:
        parts = self._parts()
        twin = copy.copy(self)
        with LOCK:
            try:
                twin.module = copied(self.module)
            except Exception as error:  # whatever its attributes raise
                raise ValueError(f"module: cannot be copied ({error})") from error
        # What was found out about an earlier state of the module may be wrong by now.
        twin._looks = self._looks if self._taken is not None else {}
        return twin._take(parts)

    def _take(self, parts: Parts) -> Model:
        self._taken = parts
        vars(self).update(parts._asdict(), parts=parts)
        return self

    def copy(self) -> Model:
        """The same model with a copy of the module, for a caller that may write into it."""
        return self._copy()

    def _asked(self, *, keep: bool = False) -> Model:
        """A model whose module may be evaluated: a copy, unless the module is a perceptron.

        keep  if this model is a copy already, use it, because it stores what ``look`` found
        """
        parts = self._parts()
        if parts.layers is None:
            return self.now() if keep else self._copy()
        return copy.copy(self)._take(parts)

    def __repr__(self) -> str:
        if self.layers:
            widths = [self.layers[0][0], *(outputs for _, outputs in self.layers)]
            return f"Model({'-'.join(map(str, widths))}, P={self.P})"
        return f"Model({type(self.module).__name__}, P={self.P})"

    def init(
        self,
        seed: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device | None = None,
    ) -> Tensor:
        """Fresh parameters ``theta [P]`` from PyTorch's own initialisers, decided by the seed.

        Layers without a ``reset_parameters`` method keep the values of the given module.
        """
        dtype, device = checks.floating("dtype", dtype), checks.device("device", device)
        noise = stream(seed, "initial model").initial_seed()
        with LOCK:
            # Always float32, because PyTorch draws other numbers in float64.
            fresh = copied(self.module).float()
            before = [p.detach().clone() for p in trainable(fresh).values()]
            # PyTorch's initialisers use the global generator, which belongs to the caller.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(noise)
                for part in fresh.modules():
                    if hasattr(part, "reset_parameters"):
                        part.reset_parameters()  # type: ignore[operator]
            # A parameter that no initialiser changed is returned with all digits, not as float32.
            now = trainable(fresh).values(), before, trainable(self.module).values()
            triples = zip(*now, strict=True)
            drawn = [given if torch.equal(new, old) else new for new, old, given in triples]
        return torch.cat([p.detach().flatten() for p in drawn]).to(dtype=dtype, device=device)

    def theta(self) -> Tensor:
        """The module's own parameters as one vector [P], for instance of a trained module."""
        own = trainable(self.module).values()
        return torch.cat([p.detach().flatten() for p in own])

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views of ``theta [..., P]``, one for each parameter, each [..., *shape]."""
        numbers, parts = checks.array("theta", theta, ["..."]), self._parts()
        if numbers.ndim == 0 or numbers.shape[-1] != parts.P:
            got = checks.shown(numbers)
            raise ValueError(f"theta: expected an array [..., {parts.P}], got {got}")
        # The given tensor itself, because it keeps its gradient.
        theta = theta if torch.is_tensor(theta) else numbers
        return parts.split(theta)

    def forward(self, theta: Tensor, x: Tensor) -> Tensor:
        """Outputs [N, classes] for inputs ``x [N, ...]`` under ``theta [P]``, in eval mode."""
        net = self._asked()
        x = net._inputs(x)
        theta = _with_gradient("theta", theta, [net.P])
        with net._judging():
            # Clones, because a forward may write to its arguments; gradients pass through a clone.
            return net.scores(net.split(theta.to(x).clone()), x.clone())

    def scores(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Class scores [N, classes] of ``x [N, ...]`` in the module's present mode.

        parameters  one tensor each, in the order of ``shapes`` and of the type of ``x``
        """
        if self.layers:
            x = x.flatten(1)
        with LOCK:
            named = self._named(parameters) | self._constants(x)
            return functional_call(self.module, named, x, tie_weights=False)

    def stacked_scores(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Scores [R, N, classes] of R models ``[R, *shape]``, each for its own ``x [R, N, ...]``.

        It works only if ``numbers_per_sample`` returns a number.
        """
        return vmap(self.scores)(list(parameters), x)

    def numbers_per_sample(self, x: Tensor, *, training: bool) -> int | None:
        """How many numbers a model keeps of a sample; None if models must run one by one."""
        return self.look(x, training=training).numbers

    def look(self, x: Tensor, *, training: bool) -> Look:
        """What ``probe`` finds for inputs like ``x``; a copy asks once for each shape and type."""
        key = training, x.shape[1:], x.dtype, x.device
        if self._taken is not None and key in self._looks:
            return self._looks[key]
        net = self._copy()
        if key not in net._looks:
            net.module.train(training)
            models = torch.stack([self.init(0), self.init(1)]).to(x).requires_grad_()
            asked = net.split(models), some(x), SMALL_IMAGES if training else 0
            with LOCK, kept_chance(), torch.set_grad_enabled(training):
                net._looks[key] = look(net.module, net.scores, *asked)
        return net._looks[key]

    def outputs(self, x: Tensor) -> int:
        """How many scores the model gives for one input of ``x``; ValueError if it does not fit.

        If the model has its own loss, outputs may have any shape; 0 if this is not [N, n]
        """
        x, net = reals("x", x, ["N", "..."], finite=False), self._asked()
        if torch.is_inference_mode_enabled():
            raise ValueError(
                "net: cannot be used in torch.inference_mode(), which forbids the gradients that "
                "training and some scores need; write torch.no_grad()"
            )
        if layers := net.layers:
            inputs, wanted = x[:1].numel(), layers[0][0]
            if inputs != wanted:
                raise ValueError(f"net: takes {wanted} inputs; the data have {inputs}")
            return layers[-1][1]
        parameters = [part.requires_grad_() for part in net.split(net.theta().to(x))]
        with LOCK, kept_chance():
            net.module.eval()
            try:
                answer = net.scores(parameters, x[:1].clone())
                with torch.no_grad():
                    changed = net._changed(parameters, x[:2].clone())
            except Exception as error:  # a module may fail in any way
                tokens = isinstance(error, RuntimeError) and "Long" in str(error)
                hint = "; write x.long() in its forward" if tokens else ""
                raise ValueError(
                    f"net: fails on data of shape {tuple(x.shape[1:])}: {error}{hint}"
                ) from error
        if changed:
            raise ValueError(f"net: {changed}")
        given_loss, is_tensor = self.objective.given_loss, torch.is_tensor(answer)
        if not is_tensor or answer.shape[:1] != (1,) or not (given_loss or answer.ndim == 2):
            gives = f"shape {list(answer.shape)}" if is_tensor else type(answer).__name__
            expected = "[1, ...]" if given_loss else "[1, classes]"
            raise ValueError(f"net: one input gives {gives}, expected {expected}")
        own = {id(one) for of in (self.module, net.module) for one in of.parameters()}
        if any(id(leaf) in own for leaf in leaves(answer)):
            raise ValueError(
                "net: a hook, an attribute or a replaced forward refers to the parameters of "
                "the original module, so a copy cannot be trained; use the parameters of the "
                "module that it is called with"
            )
        return answer.shape[1] if answer.ndim == 2 else 0

    def output_table(self, x: Tensor) -> str:
        """Name of the last parameter that the scores of ``x`` use, a matrix if there is one."""
        net = self._asked()
        x = net._inputs(x)
        parameters = [part.requires_grad_() for part in net.split(net.theta().to(x))]
        names = {id(part): name for part, name in zip(parameters, net.shapes, strict=True)}
        with torch.enable_grad(), net._judging():
            nearest = leaves(net.scores(parameters, x[:1].clone()))
        # Nearest to the scores first, but matrices before a bias or a scale.
        ordered = sorted(
            (leaf for leaf in nearest if id(leaf) in names), key=lambda leaf: leaf.ndim < 2
        )
        if not ordered:
            raise ValueError("net: its scores depend on none of its parameters")
        return names[id(ordered[0])]

    def check(self, x: Tensor, classes: int) -> None:
        """Raise ValueError unless inputs like ``x`` give ``classes`` scores (0: any number)."""
        classes, outputs = whole("classes", classes, 0), self.outputs(x)
        if not classes and self.objective.given_loss is None:
            raise ValueError(
                "net: its loss is cross-entropy, which needs classes, but the labels are "
                "numbers (classes=0); give another loss, fm.Model(module, loss=...)"
            )
        if classes and outputs != classes:
            hint = ""
            if outputs == classes - 1:
                hint = "; are the classes counted from 0?"
            if self.objective.given_loss is not None:
                hint += "; if the labels are no classes but numbers, give classes=0"
            raise ValueError(
                f"net: gives {outputs} outputs, but the data have {classes} classes{hint}"
            )

    def labels(self, name: str, y: Any, x: Tensor, classes: int | None = None) -> Tensor:
        """Labels of the samples ``x``, checked: classes [N], or any [N, ...] for a given loss.

        classes  how many there are, if that is known
        raises   ValueError also for a loss or metric that fails on them
        """
        if self.objective.given_loss is None:
            high = None if classes is None else classes - 1
            return wholes(name, y, [len(x)], high=high).to(x.device)
        labels = checks.array(name, y, [len(x), "..."])
        numbers = labels.is_floating_point() or labels.dtype == torch.bool
        labels = labels.to(x) if numbers else labels.to(x.device, torch.long)
        self.check_objective(x, labels)
        return labels

    def check_objective(self, x: Tensor, y: Tensor) -> None:
        """Raise ValueError if a given loss or metric fails on such samples and labels."""
        if self.objective != Objective():
            two = self.forward(self.theta(), some(x)[:2])
            self.objective.check(two, y[[0, -1]])

    @torch.no_grad()
    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """The class with the highest score [N] for inputs ``x [N, ...]`` under ``theta [P]``."""
        net = self._asked()
        x = net._inputs(x)
        theta = reals("theta", theta, [net.P], dtype=x.dtype, finite=False).to(x.device)
        with net._judging():
            return net.scores(net.split(theta.clone()), x.clone()).argmax(1)

    @torch.no_grad()
    def evaluate(self, thetas: Tensor, x: Tensor, y: Tensor, metric: Metric = "accuracy") -> Tensor:
        """Accuracy (share correct) or mean loss of many models on the same samples.

        thetas [C, P], x [N, ...], y [N]; metric "accuracy", "loss", or a function of (outputs,
        labels), which are class scores [N, classes] and [N]; returns [C] in float64
        """
        check_metric("metric", metric)
        net = self._asked(keep=True)
        x = net._inputs(x)
        thetas = reals("thetas", thetas, ["C", net.P], dtype=x.dtype, finite=False).to(x.device)
        y = self.labels("y", y, x)
        with one_thread():
            return net.judged(thetas, x, y, metric)[0]

    @torch.no_grad()
    def judged(self, thetas: Tensor, x: Tensor, y: Tensor, *metrics: Metric) -> tuple[Tensor, ...]:
        """Like ``evaluate`` with several metrics, but without checks; returns [C] for each."""
        results: dict[Any, list[Tensor]] = defaultdict(list)
        of_classes = self.objective.given_loss is None
        answers = self._perceptron_answers if self.layers else self._module_answers
        with no_denormals():
            for outputs in answers(thetas, x):
                # Only the outputs show how many classes a module has.
                if of_classes and int(y.max()) >= outputs.shape[2]:
                    wholes("y", y, [len(x)], 0, outputs.shape[2] - 1)
                for place, metric in enumerate(metrics):
                    word = isinstance(metric, str)
                    judge = self.judges[metric] if word else partial(judged_by, metric)
                    results[place].append(judge(outputs, y))
        return tuple(map(torch.cat, results.values()))

    def _perceptron_answers(self, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
        """Outputs [c, N, classes] of the models, as many at a time as the cache holds."""
        width = max(map(itemgetter(1), self.layers or ()))
        at_once = max(1, CACHE // (width * len(x) * x.element_size()))
        columns = x.flatten(1).T  # [d, N]
        for chunk in thetas.split(at_once):
            weight, bias, *later = self.parts.split(chunk)
            # All first layers have the same inputs, so they form one tall matrix.
            h = weight.flatten(0, 1) @ columns  # [c * out, N]
            h = h.unflatten(0, (len(chunk), -1)).add_(bias[:, :, None])
            for weight, bias in zip(later[0::2], later[1::2], strict=True):
                h = torch.baddbmm(bias[:, :, None], weight, h.relu_())  # [c, out, N]
            yield h.transpose(1, 2)

    def _module_answers(self, thetas: Tensor, x: Tensor) -> Iterator[Tensor]:
        """Outputs [c, N, ...] of the models, for any module."""
        with LOCK:
            seen = self.look(x, training=False)
            if seen.numbers is None:
                # If the output for a sample depends on the others, all go in one block.
                block = len(x) if seen.mixes else BLOCK
                for theta in thetas:
                    net = self._copy() if seen.remembers else self
                    parameters = [part.clone() for part in net.split(theta)]
                    with net._judging():
                        own = x.clone().split(block)
                        scores = [net.scores(parameters, some) for some in own]
                    yield torch.cat(scores)[None]
                return
            self.module.eval()
            # How many samples, counted over all models, fit into the cache.
            fitting = CACHE // (seen.numbers * x.element_size())
            for chunk in thetas.split(max(1, fitting // len(x))):
                parameters = self.split(chunk.clone())
                # [N, ...] -> [c, N, ...], a view that cannot be written to, then blocks of samples
                blocks = x.expand(len(chunk), *x.shape).split(max(BLOCK, fitting), 1)
                scores = [self.stacked_scores(parameters, block) for block in blocks]
                yield torch.cat(scores, 1)

    @contextlib.contextmanager
    def _judging(self) -> Iterator[None]:
        """The module in eval mode; random numbers, if it still draws any, are always the same."""
        if self.layers:
            yield
            return
        with LOCK, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            self.module.eval()
            yield

    def _inputs(self, x: Tensor) -> Tensor:
        """Samples [N, ...], checked; a perceptron's must have as many numbers as it has inputs."""
        x = _with_gradient("x", x, ["N", "..."])
        layers = self.layers
        if layers and x.numel() != len(x) * layers[0][0]:
            wanted = checks.dims(["N", layers[0][0]])
            raise ValueError(f"x: expected an array {wanted}, got {checks.shown(x)}")
        return x

    def _constants(self, x: Tensor) -> dict[str, Tensor]:
        """The module's buffers and frozen parameters, floating ones in the type of ``x``."""
        constants = dict(places(self.module, "_buffers"))
        parameters = places(self.module, "_parameters")
        constants |= {name: p.detach() for name, p in parameters if not p.requires_grad}
        return {
            name: value.to(x) if value.is_floating_point() else value.to(x.device)
            for name, value in constants.items()
        }

    def _named(self, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
        """The parameters under every name that they have in the module."""
        given = dict(zip(self.shapes, parameters, strict=True))
        held = list(places(self.module, "_parameters"))
        first = {id(p): name for name, p in reversed(held) if p.requires_grad}
        return {name: given[first[id(p)]] for name, p in held if p.requires_grad}

    def _changed(self, parameters: list[Tensor], x: Tensor) -> str:
        """Says what a forward in training mode changes that it must not; empty if all is well."""
        before, chance = self._constants(x), other_chance()
        twin, kept = self._copy(), own_tensors(self.module)

        def trained(net: Model) -> tuple[dict[str, Tensor], Any]:
            # Clones, so that this forward does not change the module's own buffers.
            named = {name: buffer.clone() for name, buffer in before.items()}
            named |= self._named(parameters)
            torch.default_generator.manual_seed(0)
            module = net.module.train()
            return named, functional_call(module, named, x.clone(), tie_weights=False)

        (named, answer), (_, again) = trained(self), trained(twin)
        changed = [name for name in before if not torch.equal(named[name], before[name])]
        now, what = own_tensors(self.module), "buffer"
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


def _with_gradient(name: str, value: Any, shape: Sequence[int | str]) -> Tensor:
    """Like ``checks.reals``, but a tensor that needs no conversion keeps its gradient."""
    checked = reals(name, value, shape, finite=False)
    return value if torch.is_tensor(value) and value.dtype == checked.dtype else checked


def measure(metric: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Accuracy or mean cross-entropy from outputs ``[C, N, classes]``; returns [C] float64.

    Accuracy is the same as by ``argmax(2) == y``, but several times faster for few classes.
    """
    scores = outputs.transpose(1, 2)  # [C, classes, N]
    score_of_label = scores.gather(1, y.expand(len(scores), 1, -1)).squeeze(1)  # [C, N]
    # -log softmax is logsumexp - score; a separate softmax could underflow, which gives log 0.
    if metric == "loss":
        return (scores.logsumexp(1) - score_of_label).double().mean(1)
    highest = scores.amax(1)
    correct = score_of_label == highest
    # If scores are equal, the first class wins, as in argmax.
    for c in range(scores.shape[1] - 1):
        correct &= (scores[:, c] < highest) | (y <= c)
    return correct.double().mean(1)
