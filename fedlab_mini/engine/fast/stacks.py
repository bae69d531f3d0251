"""Stacks: the SGD steps of many clients at once, as many models as the cache holds.

They must equal a loop over clients, as ``engine.plain`` writes it, up to rounding. Perceptrons
train with gradients by hand, where one operation moves all models (``PerceptronStack.step``). Other
modules train in a stack by ``vmap``, or one by one if a trial (``parse.module.look``) finds that
they cannot be stacked. Minibatches are padded to one width; a padding sample has weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...streams import LOCK, no_denormals
from ...worlds.federation import Federation
from ..minibatches import Plan, Shuffles
from ..model import Model
from ..outputs import CACHE, look, parts, stacked_outputs
from .alone import Alone

STACK = 5 << 20  # bytes of parameters trained in one stack; they fit into the cache
# Minibatch places whose tables are made at a time; enough for all steps of most stacks.
TABLE = 1 << 20


def train_rows(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    run: Tensor,
    entry: Tensor,
    plan: Plan,
    lr: float,
    shuffles: Shuffles,
    out: Tensor | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Train R rows, row r from ``thetas[run[r]]`` on the minibatches of entry ``entry[r]``.

    thetas [B, P]; run, entry [R], sorted: entries with more steps first, then more samples first
    lr        step size; shuffles  holds working memory from earlier rounds, which is used again
    out       [R, P] memory for the updates; without it the next stack overwrites them
    yields    (slice of rows, updates [rows, P]) for each stack
    """
    with no_denormals():
        at_once = rows_at_once(fed, net, plan, len(run))
        stack = shuffles.stack
        if stack is None or stack.net is not net or stack.most < at_once:
            stack = new_stack(fed, net, thetas, plan, at_once)
        shuffles.stack = stack
        stack.begin_round(plan, lr)
        for low in range(0, len(run), at_once):
            rows = slice(low, low + at_once)
            part = None if out is None else out[rows]
            yield rows, stack.train(thetas, run[rows], entry[rows], part)


def rows_at_once(fed: Federation, net: Model, plan: Plan, rows: int) -> int:
    """How many rows fit into the cache, with their parameters and what autograd keeps."""
    number = fed.x.element_size()
    fitting = STACK // (net.P * number)
    # Autograd keeps activations until the backward pass, and they must fit into the cache, too.
    by_hand = parts(net).layers and net.objective.given_loss is None
    if not by_hand and (kept := look(net, fed.x, training=True).numbers):
        batch = plan.blocks.shape[1]
        fitting = min(fitting, CACHE // (kept * batch * number))
    # At least one, because a model may be larger than the cache.
    return min(rows, max(1, fitting))


def new_stack(fed: Federation, net: Model, like: Tensor, plan: Plan, most: int) -> Stack | Alone:
    """Working memory for ``most`` rows, of the kind that the model needs."""
    batch = plan.blocks.shape[1]
    # The gradients by hand are those of cross-entropy.
    if parts(net).layers and net.objective.given_loss is None:
        return PerceptronStack(net, fed, like, most, batch)
    if look(net, fed.x, training=True).numbers:
        return ModuleStack(net, fed, like, most, batch)
    return Alone(net, fed, like, most)


class Stack:
    """Working memory to train up to ``most`` copies of a model at once.

    A subclass defines the SGD step of some of the rows. ``parameters`` holds one tensor
    [most, *shape] for each parameter of the module.
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int, batch: int):
        self.net, self.most = net, most
        self.x, self.y = fed.x, fed.y
        self.flat = like.new_empty(most, net.P)
        self.parameters = [like.new_empty(most, *shape) for shape in net.shapes.values()]

    def begin_round(self, plan: Plan, lr: float) -> None:
        """Use the minibatches and the step size of another round."""
        self.plan, self.blocks = plan, plan.blocks.to(self.x.device)
        is_real = torch.arange(plan.blocks.shape[1]) < plan.fill[:, None]
        # [S, batch]: lr / b for each of the b samples of a minibatch, 0 for padding. The gradient
        # of the losses' sum with these weights is the SGD step: lr times the mean's gradient.
        step_sizes = is_real / plan.fill[:, None].double() * lr
        self.step_sizes = step_sizes.to(self.flat)

    @torch.no_grad()
    def train(self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None) -> Tensor:
        """All SGD steps from ``thetas[run]`` on the plan's entries; returns updates [rows, P].

        out  [rows, P] memory for the updates; if it is None, the next call overwrites them
        """
        updates = self.flat[: len(run)] if out is None else out
        # This memory first holds the starting models; the last loop replaces them by the updates.
        if len(thetas) > 1:
            thetas = torch.index_select(thetas, 0, run.to(thetas.device), out=updates)
        starts = parts(self.net).split(thetas)  # one row for all models, or one row each
        pairs = zip(self.parameters, starts, strict=True)
        # [1 or R, *shape] -> [R, *shape]: a copy for every row, in memory of earlier rounds
        trained = [parameter[: len(run)].copy_(start) for parameter, start in pairs]
        prepared: dict[tuple[int, int], Any] = {}
        for low, high, tables in self._steps(self.plan.first[entry], self.plan.steps[entry]):
            if (low, high) not in prepared:
                prepared[low, high] = self.prepare([part[low:high] for part in trained])
            self.step(prepared[low, high], *tables)
        for end, start, update in zip(trained, starts, parts(self.net).split(updates), strict=True):
            torch.sub(end, start, out=update)
        return updates

    def prepare(self, parameters: list[Tensor]) -> Any:
        """Views of the parameters [rows, *shape] of some rows, as ``step`` needs them."""
        raise NotImplementedError

    def step(self, prepared: Any, index: Tensor, labels: Tensor, step_sizes: Tensor) -> None:
        """One SGD step of some rows: sample indices, labels and step sizes, each [rows, batch]."""
        raise NotImplementedError

    def _steps(self, first: Tensor, steps: Tensor) -> Iterator[tuple[int, int, list[Tensor]]]:
        """Which rows (low, high) step next, and the three tables of their minibatches."""
        rows, batch = len(first), self.blocks.shape[1]
        window = max(1, TABLE // (rows * batch))
        # No row has more steps than the first.
        for step in torch.arange(int(steps[0])).split(window):
            # A row that has finished repeats its last block in this table, but does not step.
            at = first + torch.minimum(step[:, None], steps - 1)  # [s, R]
            # Rows with more steps come first, so the rows that still step are the first ones.
            active = (steps > step[:, None]).sum(1).tolist()
            runs = runs_of_steps(self.plan.fill[at].numpy(), active)
            at = at.flatten().to(self.x.device)
            index = self.blocks.index_select(0, at)  # [s * R, batch]
            labels = self.y.index_select(0, index.flatten())
            labels = labels.unflatten(0, index.shape)
            step_sizes = self.step_sizes.index_select(0, at)
            # [s * R, batch, ...] -> s tables [R, batch, ...], one for each step
            tables = [
                table.unflatten(0, (len(step), rows)).unbind()
                for table in (index, labels, step_sizes)
            ]
            for runs_of_step, *of_step in zip(runs, *tables, strict=True):
                for low, high, width in runs_of_step:
                    everything = high - low == rows and width == batch
                    cut = of_step if everything else [part[low:high, :width] for part in of_step]
                    yield low, high, cut


class PerceptronStack(Stack):
    """Linear and ReLU layers, by hand: gradient and step are one matrix product, W -= g h.

    Hidden outputs have the shape [R, b, out], but class scores [R, classes, b]: products and
    softmax are faster with these layouts.
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int, batch: int):
        super().__init__(net, fed, like, most, batch)
        self.x = fed.x.flatten(1)
        # [most * batch, d]: every step gathers its samples into the same memory
        self.inputs = like.new_empty(most * batch, self.x.shape[1])

    def prepare(self, parameters: list[Tensor]) -> list[tuple[Tensor, ...]]:
        """For each layer: weight [R, out, in], its transpose, bias [R, out, 1] and [R, 1, out]."""
        pairs = zip(parameters[0::2], parameters[1::2], strict=True)
        return [
            (weight, weight.transpose(1, 2), bias[:, :, None], bias[:, None, :])
            for weight, bias in pairs
        ]

    def step(self, layers: Any, index: Tensor, labels: Tensor, step_sizes: Tensor) -> None:
        rows, batch = index.shape
        # [R, b] -> [R * b], and [R, b] -> [R, 1, b] against the classes of g
        index, step_sizes = index.reshape(-1), step_sizes[:, None]
        inputs = torch.index_select(self.x, 0, index, out=self.inputs[: len(index)])
        h = [inputs.view(rows, batch, -1)]
        *hidden, (weight, _, bias, _) = layers
        for _, turned, _, bias_row in hidden:
            h.append(torch.baddbmm(bias_row, h[-1], turned).relu_())  # [R, b, out]
        # [R, classes, b]
        g = torch.baddbmm(bias, weight, h[-1].transpose(1, 2)).softmax(1)
        # The gradient of cross-entropy in the scores is softmax - one-hot, here times lr / b.
        g.mul_(step_sizes).scatter_add_(1, labels[:, None], -step_sizes)
        for (weight, _, bias, _), below in zip(layers[::-1], h[::-1], strict=True):
            # Before the weight changes: the chain rule needs the weight of the forward pass.
            back = None if below is h[0] else torch.bmm(g.transpose(1, 2), weight)
            # [R, out, b] @ [R, b, in] -> [R, out, in], the sum over the minibatch
            weight.baddbmm_(g, below, alpha=-1)
            bias.sub_(g.sum(2, keepdim=True))
            if back is not None:
                # Back through ReLU: where its output was 0, its derivative is 0.
                torch.ops.aten.threshold_backward.grad_input(back, below, 0, grad_input=back)
                g = back.transpose(1, 2)


class ModuleStack(Stack):
    """Any module that ``vmap`` can evaluate in a stack: forward by ``vmap``, gradients by autograd.

    No row's loss depends on another row's parameters, so the gradient of the rows' summed losses
    holds the gradient of every row. One backward pass, outside of ``vmap``, computes them all.
    """

    def train(self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None) -> Tensor:
        # Locked for all steps, or another thread could put the shared module into eval mode.
        with LOCK:
            self.net.module.train()
            return super().train(thetas, run, entry, out)

    def prepare(self, parameters: list[Tensor]) -> list[Tensor]:
        """Leaf tensors for autograd that share the memory of the parameters."""
        return [parameter.detach().requires_grad_() for parameter in parameters]

    def step(self, leaves: Any, index: Tensor, labels: Tensor, step_sizes: Tensor) -> None:
        # The loss contains the learning rate, so its gradient is the step.
        with torch.enable_grad():
            outputs = stacked_outputs(self.net, leaves, self.x[index])  # [R, b, ...]
            loss = self.net.objective.step_loss(outputs, labels, step_sizes)
            # With this option a parameter that no score depends on gets zeros and not None.
            steps = torch.autograd.grad(loss, leaves, materialize_grads=True)
        for leaf, step in zip(leaves, steps, strict=True):
            leaf.sub_(step)


def runs_of_steps(fill: np.ndarray, active: list[int]) -> list[list[tuple[int, int, int]]]:
    """For every step, the groups of rows (low, high, width) that take it together.

    fill [s, R]  samples in each row's minibatch; active [s]  so many rows, the first, take the step
    """
    if (fill == fill[0, 0]).all():
        return [[(0, rows, int(fill[0, 0]))] for rows in active]
    return [alike(row[:rows]) for row, rows in zip(fill, active, strict=True)]


def alike(fill: np.ndarray, least: int = 16, grain: int = 8) -> list[tuple[int, int, int]]:
    """Cut rows into groups (low, high, width) of minibatches of similar length.

    fill [R]  samples in each row's minibatch; a group's width is the largest of these, so that the
    short minibatches of small clients cost less; a group has at least ``least`` rows
    """
    # Lengths are compared in units of ``grain``, so that one more sample rarely begins a group.
    cuts = np.flatnonzero(np.diff(-(-fill // grain))) + 1
    runs, low = [], 0
    for cut in [*cuts.tolist(), len(fill)]:
        if cut == len(fill) or (cut - low >= least and len(fill) - cut >= least):
            runs.append((low, cut, int(fill[low:cut].max())))
            low = cut
    return runs
