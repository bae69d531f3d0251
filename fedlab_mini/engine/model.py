"""Model: any ``nn.Module`` seen as a function of one flat parameter vector ``theta [P]``.

Chapter 1 derives it. A module holds its parameters; here they are an argument, as in PyTorch's
``torch.func.functional_call``, and one vector, so that a round's models are the rows of a matrix.
``outputs`` evaluates them, and ``gate.fit`` asks whether a model fits the data.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..parse import checks
from ..parse.checks import instance, reals
from ..parse.metric import (
    Function,
    Metric,
    check_function,
    check_metric,
    refuse_misread_objective,
)
from ..parse.module import Look, copied, inputs_of, some, trainable, vectors, with_gradient
from ..parse.samples import labels_of
from ..streams import LOCK, one_thread, stream
from . import outputs
from .objective import Objective


class Model:
    """An ``nn.Module`` as a function of ``theta``, the vector of all its P parameters.

    module   any module that maps inputs [N, ...] to class scores [N, classes]
    loss     what training minimises in place of cross-entropy: a function of (outputs, labels) such
             as ``nn.MSELoss()``; outputs and labels may then have any shape [N, ...]
    metric   what replaces accuracy, which is the default: a function of (outputs, labels) that
             returns a number, more is better

    P, shapes          how many parameters it has, without frozen ones (``requires_grad=False``),
                       which are constants; their shapes by name, in the order of theta
    init, theta        fresh parameters from a seed; those of the module
    split              theta as one tensor for each parameter
    forward, predict   outputs and classes of samples; evaluate: accuracy or loss of many models
    module, objective  the module as it was given; its loss and metric

    Warning: with the default loss, a module that ends in a softmax or sigmoid trains badly, because
    cross-entropy takes scores before any softmax. With a loss of your own and no metric, there is
    no accuracy: histories have NaN, and whoever asks for accuracy is refused.

    The model always uses the module in its present state, and does not change it.
    raises   TypeError if it is no module; ValueError if it has no parameters to train, or keeps
             anything but parameters from one batch to the next. Threads may share a model; all
             but perceptrons then wait for each other
    """

    def __init__(
        self, module: nn.Module, *, loss: Function | None = None, metric: Function | None = None
    ):
        check_function("loss", loss)
        check_function("metric", metric)
        self.objective = Objective(loss, metric)
        self.module = instance("module", module, nn.Module, "a torch.nn.Module")
        # Whether the package made the module, so that no weights of a user can be lost.
        self._ours = False
        self._parts: outputs.Parts | None = None  # set for a copy, which nobody changes any more
        self._looks: dict[Any, Look] = {}
        outputs.parts(self)  # refuses a module that theta cannot describe

    @property
    def P(self) -> int:
        """The number of parameters."""
        return outputs.parts(self).P

    @property
    def shapes(self) -> dict[str, torch.Size]:
        """The parameters' shapes by name, in the order of theta."""
        return outputs.parts(self).shapes

    def __repr__(self) -> str:
        if layers := outputs.parts(self).layers:
            widths = [layers[0][0], *(width for _, width in layers)]
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
        # PyTorch's initialisers use the global generator, which belongs to the caller.
        with LOCK, torch.random.fork_rng(devices=[]):
            fresh = copied(self.module)
            torch.manual_seed(noise)
            for part in fresh.modules():
                if hasattr(part, "reset_parameters"):
                    # In float32, because PyTorch draws other numbers in float64.
                    part.float().reset_parameters()  # type: ignore[operator]
            drawn = [p.detach().flatten() for p in trainable(fresh).values()]
        return torch.cat(drawn).to(dtype=dtype, device=device)

    def theta(self) -> Tensor:
        """The module's own parameters as one vector [P], for instance of a trained module."""
        own = trainable(self.module).values()
        return torch.cat([p.detach().flatten() for p in own])

    def split(self, theta: Tensor) -> list[Tensor]:
        """Views of ``theta [..., P]``, one for each parameter, each [..., *shape]."""
        parts = outputs.parts(self)
        return parts.split(vectors("theta", theta, parts.P))

    def forward(self, theta: Tensor, x: Tensor) -> Tensor:
        """Outputs [N, classes] for inputs ``x [N, ...]`` under ``theta [P]``, in eval mode."""
        net = outputs.evaluable(self)
        x = inputs_of(outputs.parts(net).layers, x)
        theta = with_gradient("theta", theta, [net.P])
        with outputs.eval_mode(net):
            # Clones, because a forward may write to its arguments; gradients pass through a clone.
            return outputs.outputs(net, net.split(theta.to(x).clone()), x.clone())

    @torch.no_grad()
    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """The class with the highest output [N] for inputs ``x [N, ...]`` under ``theta [P]``."""
        return self.forward(theta, x).argmax(1)

    @torch.no_grad()
    def evaluate(self, thetas: Tensor, x: Tensor, y: Tensor, metric: Metric = "accuracy") -> Tensor:
        """Accuracy (share correct) or mean loss of many models on the same samples.

        thetas [C, P], x [N, ...], y [N]; metric "accuracy", "loss", or a function of (outputs,
        labels), which are class scores [N, classes] and [N]; returns [C] in float64
        """
        check_metric("metric", metric)
        net, own = outputs.evaluable(self, again=True), self.objective.given_loss is not None
        y = checks.alongside("y", y, x)
        x = inputs_of(outputs.parts(net).layers, x)
        thetas = reals("thetas", thetas, ["C", net.P], dtype=x.dtype, finite=False).to(x.device)
        y = labels_of("y", y, x, numbers=own)
        if own:
            two = self.forward(self.theta(), some(x)[:2])
            # Any two labels will do: this only tries the loss and the metric.
            refuse_misread_objective(self.objective, two, y[[0, -1]])
        with one_thread():
            return outputs.quality(net, thetas, x, y, metric)[0]
