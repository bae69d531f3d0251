"""Alone: local SGD of any module, one client after another, for modules that cannot be stacked.

Convolutions over large images are slower in a stack. Dropout needs its own random numbers for each
client. What a module remembers of one client must not reach another. Compared with
``engine.plain``, one copy of the module serves all clients, and its parameters are views of one
flat vector.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...parse.module import copied, trainable
from ...streams import LOCK, stream
from ...worlds.federation import Federation
from ..minibatches import Plan
from ..model import Model
from ..outputs import look


class Alone:
    """One copy of the module, which trains one row after another; same methods as ``Stack``.

    theta  [P] the parameters of the copy are views of this vector
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int):
        self.net, self.most = net, most
        self.x, self.y = fed.x, fed.y
        self.generators = [like.device] if like.is_cuda else []
        self.flat = like.new_empty(most, net.P)
        self.theta = like.new_empty(net.P)
        self.remembers = look(net, fed.x, training=True).remembers
        self._begin()

    def _begin(self) -> None:
        """Take a copy of the module whose parameters are views of ``theta``."""
        with LOCK:
            self.module = copied(self.net.module).to(self.theta).train()
        self.parameters: list[Tensor] = list(trainable(self.module).values())
        views = self.net.split(self.theta)
        for parameter, view in zip(self.parameters, views, strict=True):
            parameter.data = view

    def begin_round(self, plan: Plan, lr: float) -> None:
        """Use the minibatches and the step size of another round."""
        self.plan, self.lr = plan, lr
        self.blocks = plan.blocks.to(self.x.device)
        # Converted once a round: to convert them singly costs a tenth of a short training.
        self.fill, self.clients = plan.fill.tolist(), plan.clients.tolist()
        self.first, self.steps = plan.first.tolist(), plan.steps.tolist()

    @torch.no_grad()
    def train(self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None) -> Tensor:
        """All SGD steps from ``thetas[run]`` on the plan's entries; returns updates [rows, P].

        out  [rows, P] memory for the updates; if it is None, the next call overwrites them
        """
        updates = self.flat[: len(run)] if out is None else out
        starts = thetas.expand(len(run), -1) if len(thetas) == 1 else thetas[run]
        # Modules draw from the global generators, so these are seeded anew for every client.
        with LOCK, torch.random.fork_rng(devices=self.generators):
            for start, e, update in zip(starts, entry.tolist(), updates, strict=True):
                # Round and client decide, not the row: the noise is the same in every coalition.
                noise = stream(self.plan.seed, "dropout", self.plan.t, self.clients[e])
                self._seed(noise.initial_seed())
                if self.remembers:
                    self._begin()  # forget what the client before has left in the module
                # This sets all parameters, because they are views of this vector.
                self.theta.copy_(start)
                for block in range(self.first[e], self.first[e] + self.steps[e]):
                    self._step(self.blocks[block, : self.fill[block]])
                torch.sub(self.theta, start, out=update)
        return updates

    def _seed(self, noise: int) -> None:
        """Seed the generator of the CPU, and that of the GPU where one is used."""
        # torch.manual_seed would take ten times as long as a training step.
        torch.default_generator.manual_seed(noise)
        if self.generators:
            torch.cuda.manual_seed(noise)

    def _step(self, index: Tensor) -> None:
        """One SGD step of the client whose parameters the copy holds."""
        with torch.enable_grad():
            outputs = self.module(self.x[index])
            self.net.objective.loss(outputs, self.y[index]).backward()
        # A parameter that the loss does not depend on has no gradient and keeps its value.
        reached = [parameter for parameter in self.parameters if parameter.grad is not None]
        gradients = [parameter.grad for parameter in reached if parameter.grad is not None]
        torch._foreach_mul_(gradients, self.lr)
        torch._foreach_sub_(reached, gradients)
        for parameter in reached:
            parameter.grad = None  # cheaper than to set zeros and to add to them
