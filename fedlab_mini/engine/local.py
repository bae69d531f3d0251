"""Local training: what the clients of a round do, many of them in one stack.

Chapter 1 derives the stacked step; ``plain.py`` is its readable twin, one client after another.
Below: minibatches, model. Above: updates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..streams import stream
from ..worlds.federation import Federation
from .minibatches import LocalSGD, Plan, Shuffles
from .model import LOCK, Model, no_denormals, one_thread

__all__ = ["LocalSGD", "Plan", "Shuffles", "finite_rows", "train_rows"]

STACK = 5 << 20  # bytes of parameters trained in one stack: they stay in the cache
TABLE = 1 << 20  # minibatch places whose tables are made at a time: all steps of most stacks


def train_rows(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    run: Tensor,
    entry: Tensor,
    plan: Plan,
    lr: float,
    *,
    out: Tensor | None = None,
    shuffles: Shuffles | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Train R rows, row r from ``thetas[run[r]]`` on the minibatches of entry ``entry[r]``.

    thetas [B, P]; run, entry [R], entries with more steps, then more samples first; lr step size
    out       [R, P] where the updates go; shuffles  whose working memory serves again
    yields    (slice of rows, updates [rows, P]) stack by stack; without ``out`` the next stack
              overwrites the updates, so memory is bounded by a stack, not by R
    """
    with one_thread(), no_denormals():
        if not net.layers:
            for r, (b, e) in enumerate(zip(run.tolist(), entry.tolist(), strict=True)):
                update = _general(net, fed, thetas[b], plan, e, lr)[None]
                yield slice(r, r + 1), update if out is None else out[r : r + 1].copy_(update)
            return
        many = min(len(run), max(1, STACK // (net.P * thetas.element_size())))
        stack = shuffles.stack if shuffles else None
        if stack is None or stack.net is not net or len(stack.flat) < many:
            stack = _Stack(net, fed, thetas, many, plan.blocks.shape[1])
        if shuffles:
            shuffles.stack = stack
        stack.take(plan, lr)
        for low in range(0, len(run), many):
            rows = slice(low, low + many)
            flat = None if out is None else out[rows]
            yield rows, stack.train(thetas, run[rows], entry[rows], flat)


class _Stack:
    """Working memory in which up to ``many`` Linear/ReLU models are trained at once.

    Gradient and step are one product, W -= g' h. Hidden layers lie sample by sample, [R, b, out];
    the class scores lie class by class, [R, classes, b]: products and softmax are faster so.
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, many: int, batch: int):
        self.net, self.x, self.y = net, fed.x.flatten(1), fed.y
        self.flat = like.new_empty(many, net.P)
        self.parts = [like.new_empty(many, *shape) for shape in net.shapes.values()]
        self.inputs = like.new_empty(many * batch, self.x.shape[1])

    def take(self, plan: Plan, lr: float) -> None:
        """Go on with the minibatches of another round."""
        self.plan, self.blocks = plan, plan.blocks.to(self.x.device)
        real = torch.arange(plan.blocks.shape[1]) < plan.fill[:, None]
        self.scale = (real / plan.fill[:, None].double() * lr).to(self.flat)  # 0 for padding

    @torch.no_grad()
    def train(self, thetas: Tensor, run: Tensor, entry: Tensor, flat: Tensor | None) -> Tensor:
        """All SGD steps from ``thetas[run]`` on the plan's entries; returns updates [rows, P].

        flat    [rows, P] where the updates go; None: to memory that the next call overwrites
        """
        flat = self.flat[: len(run)] if flat is None else flat
        if len(thetas) > 1:
            thetas = torch.index_select(thetas, 0, run.to(thetas.device), out=flat)
        start = self.net.split(thetas)  # one row for all, or one each
        parts = [part[: len(run)].copy_(s) for part, s in zip(self.parts, start, strict=True)]
        views: dict[tuple[int, int], list[tuple[Tensor, ...]]] = {}
        for low, high, tables in self._steps(self.plan.first[entry], self.plan.steps[entry]):
            if (low, high) not in views:
                views[low, high] = _views([part[low:high] for part in parts])
            self._step(views[low, high], *tables)
        for part, s, update in zip(parts, start, self.net.split(flat), strict=True):
            torch.sub(part, s, out=update)
        return flat

    def _steps(self, first: Tensor, steps: Tensor) -> Iterator[tuple[int, int, list[Tensor]]]:
        """Which rows (low, high) step next, and their index, labels and scale, each [rows, b]."""
        rows, batch = len(first), self.blocks.shape[1]
        window = max(1, TABLE // (rows * batch))
        for s in torch.arange(int(steps[0])).split(window):  # longer rows first
            at = first + torch.minimum(s[:, None], steps - 1)  # [s, R]; who is done steps no more
            cuts = runs(self.plan.fill[at].numpy(), (steps > s[:, None]).sum(1).tolist())
            at = at.flatten().to(self.x.device)
            index = self.blocks.index_select(0, at)  # [s * R, batch]
            labels = self.y.index_select(0, index.flatten())
            scale = self.scale.index_select(0, at)
            tables = [table.view(len(s), rows, batch).unbind() for table in (index, labels, scale)]
            for own, *step in zip(cuts, *tables, strict=True):
                for low, high, width in own:
                    whole = high - low == rows and width == batch
                    yield low, high, step if whole else [t[low:high, :width] for t in step]

    def _step(self, layers: list, index: Tensor, labels: Tensor, scale: Tensor) -> None:
        """One minibatch of some rows."""
        rows, batch = index.shape
        index, scale = index.reshape(-1), scale[:, None]
        inputs = torch.index_select(self.x, 0, index, out=self.inputs[: len(index)])
        h = [inputs.view(rows, batch, -1)]
        *hidden, (weight, _, bias, _) = layers
        for _, turned, _, row in hidden:
            h.append(torch.baddbmm(row, h[-1], turned).relu_())  # [R, b, out]
        g = torch.baddbmm(bias, weight, h[-1].transpose(1, 2)).softmax(1)  # [R, classes, b]
        g.mul_(scale).scatter_add_(1, labels[:, None], -scale)
        for (weight, _, bias, _), below in zip(layers[::-1], h[::-1], strict=True):
            back = None if below is h[0] else torch.bmm(g.transpose(1, 2), weight)
            weight.baddbmm_(g, below, alpha=-1)
            bias.sub_(g.sum(2, keepdim=True))
            if back is not None:
                torch.ops.aten.threshold_backward.grad_input(back, below, 0, grad_input=back)
                g = back.transpose(1, 2)


def _views(parts: list[Tensor]) -> list[tuple[Tensor, ...]]:
    """Of every layer: weight [R, out, in] and turned, bias [R, out, 1] and [R, 1, out]."""
    pairs = zip(parts[0::2], parts[1::2], strict=True)
    return [(w, w.transpose(1, 2), b[:, :, None], b[:, None, :]) for w, b in pairs]


def runs(fill: np.ndarray, active: list[int]) -> list[list[tuple[int, int, int]]]:
    """Of every step the runs of rows (low, high, width) that take it together.

    fill [s, R]  samples of each row's minibatch; active [s]  how many rows, from the first, take it
    """
    if (fill == fill[0, 0]).all():
        return [[(0, many, int(fill[0, 0]))] for many in active]
    return [alike(row[:many]) for row, many in zip(fill, active, strict=True)]


def alike(fill: np.ndarray, least: int = 16, grain: int = 8) -> list[tuple[int, int, int]]:
    """Cut rows into runs (low, high, width) of similarly full minibatches.

    fill [R]  samples of each row's minibatch; a run's width is the largest of its rows, so short
    minibatches of small clients are not computed at full length; runs have ``least`` rows or more
    """
    cuts = np.flatnonzero(np.diff(-(-fill // grain))) + 1
    runs, low = [], 0
    for cut in [*cuts.tolist(), len(fill)]:
        if cut == len(fill) or (cut - low >= least and len(fill) - cut >= least):
            runs.append((low, cut, int(fill[low:cut].max())))
            low = cut
    return runs


def _general(net: Model, fed: Federation, start: Tensor, plan: Plan, e: int, lr: float) -> Tensor:
    """The SGD steps of plan entry ``e`` with any module, by autograd; returns its update [P]."""
    theta = start.clone().requires_grad_()
    noise = stream(plan.seed, "dropout", plan.t, int(plan.clients[e]))
    with LOCK, torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(noise.initial_seed())  # modules draw from the global generator
        net.module.train()
        for index in plan.batches(e):
            index = index.to(fed.x.device)
            loss = cross_entropy(net.forward(theta, fed.x[index]), fed.y[index])
            (gradient,) = torch.autograd.grad(loss, theta)
            with torch.no_grad():
                theta -= lr * gradient
    return theta.detach() - start


def finite_rows(updates: Tensor) -> Tensor:
    """Which rows [m] of updates [m, P] hold no NaN and no infinite value."""
    if updates.numel() == 0:
        return torch.ones(len(updates), dtype=torch.bool)
    finite = torch.isfinite(updates.sum(1))  # a finite sum has finite terms: one fast pass
    if not finite.all():  # a sum may overflow: look again at every value
        finite = torch.isfinite(updates.amin(1)) & torch.isfinite(updates.amax(1))
    return finite
