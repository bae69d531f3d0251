"""Alone: local SGD of any module, one client after another, for what no stack can do.

Convolutions over large images are slower in a stack, dropout draws from a stream of each client's
own, what a module remembers is one client's. The module is called as it is: its parameters are
views of one flat vector. Below: minibatches, model. Above: local. Beside: its stacks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..streams import LOCK, stream
from ..worlds.federation import Federation
from .minibatches import Plan
from .model import Model
from .probe import copied, trainable


class Alone:
    """A copy of the module that every row trains in turn; trains as ``Stack`` does.

    theta  [P] what the copy's parameters are views of
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int):
        self.net, self.most = net, most
        self.x, self.y = fed.x, fed.y
        self.generators = [like.device] if like.is_cuda else []
        self.flat = like.new_empty(most, net.P)
        self.theta = like.new_empty(net.P)
        self.remembers = net.look(fed.x, training=True).remembers
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
        """Go on with the minibatches of another round."""
        self.plan, self.lr = plan, lr
        self.blocks = plan.blocks.to(self.x.device)
        # As plain numbers once a round: one after another, they cost a tenth of a short training.
        self.fill, self.clients = plan.fill.tolist(), plan.clients.tolist()
        self.first, self.steps = plan.first.tolist(), plan.steps.tolist()

    @torch.no_grad()
    def train(
        self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None
    ) -> Tensor:
        """All SGD steps from ``thetas[run]`` on the plan's entries; returns updates [rows, P].

        out  [rows, P] where the updates go; None: to memory that the next call overwrites
        """
        updates = self.flat[: len(run)] if out is None else out
        starts = thetas.expand(len(run), -1) if len(thetas) == 1 else thetas[run]
        # Modules draw from the global generators, so what they draw is set for every client.
        with LOCK, torch.random.fork_rng(devices=self.generators):
            for start, e, update in zip(starts, entry.tolist(), updates, strict=True):
                # By round and client, not by row: a client's noise is the same in every coalition.
                noise = stream(self.plan.seed, "dropout", self.plan.t, self.clients[e])
                self._seed(noise.initial_seed())
                if self.remembers:
                    self._begin()  # as if no other client had been there
                # All parameters at once, as they are views of this vector.
                self.theta.copy_(start)
                for block in range(self.first[e], self.first[e] + self.steps[e]):
                    self._step(self.blocks[block, : self.fill[block]])
                torch.sub(self.theta, start, out=update)
        return updates

    def _seed(self, noise: int) -> None:
        """Set the generator of this processor, and of the graphics processor where one is used."""
        # torch.manual_seed takes ten times a step
        torch.default_generator.manual_seed(noise)
        if self.generators:
            torch.cuda.manual_seed(noise)

    def _step(self, index: Tensor) -> None:
        """One minibatch of the client whose parameters the copy holds."""
        with torch.enable_grad():
            outputs = self.module(self.x[index])
            self.net.objective.loss(outputs, self.y[index]).backward()
        # A parameter that the loss does not reach has no gradient, and stays as it is.
        reached = [
            parameter for parameter in self.parameters if parameter.grad is not None
        ]
        gradients = [
            parameter.grad for parameter in reached if parameter.grad is not None
        ]
        torch._foreach_mul_(gradients, self.lr)
        torch._foreach_sub_(reached, gradients)
        for parameter in reached:
            parameter.grad = None  # cheaper than zeros to add to
