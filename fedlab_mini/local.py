"""Local training: what the clients of a round do, many of them in one stack.

Chapter 1 derives the stacked step. A ``Plan`` fixes which samples form which minibatch; it depends
on the seed, the round and the client only: a client's minibatches are the same in every coalition.
Below: model, federation. Above: training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from .federation import Federation
from .model import Model, one_thread
from .streams import stream

STACK = 5 << 20  # bytes of parameters trained in one stack: they stay in the cache


@dataclass(frozen=True)
class LocalSGD:
    """Plain SGD on a client: ``epochs`` passes over its data in minibatches of ``batch`` samples.

    epochs  passes a round; batch  samples a step (the last of a pass may be smaller); lr  step size
    steps   if given, exactly this many steps a round instead of whole epochs
    decay, decay_every  step size of round t = 1, 2, ...: lr * decay ** ((t - 1) // decay_every)
    raises  ValueError for values that are not positive
    """

    epochs: int = 1
    batch: int = 32
    lr: float = 0.1
    steps: int | None = None
    decay: float = 1.0
    decay_every: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "decay_every", "steps"):
            value = getattr(self, name)
            if name == "steps" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")
        for name in ("lr", "decay"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: expected a positive number, got {value!r}")

    def rate(self, t: int) -> float:
        """Step size of round ``t`` (the first round is 1)."""
        return self.lr * self.decay ** ((t - 1) // self.decay_every)

    def passes(self, size: int) -> float:
        """How often a client with ``size`` samples goes through its data in a round."""
        if self.steps is None:
            return float(self.epochs)
        full, rest = divmod(self.steps, math.ceil(size / self.batch))
        return full + min(1.0, rest * self.batch / size)


@dataclass(frozen=True)
class Plan:
    """The minibatches of one round for E (client, prefix) entries, padded to whole blocks.

    blocks  [S, batch]  sample indices; entry e owns the rows first[e] .. first[e] + steps[e] - 1
    scale   [S, batch]  1 / (samples in the step) for a real sample, 0 for padding
    first, steps  [E]   where an entry's steps begin, and how many they are
    clients  [E]        whose samples they are; t, seed  the round and the seed they were drawn for
    """

    blocks: Tensor
    scale: Tensor
    first: Tensor
    steps: Tensor
    clients: Tensor
    t: int
    seed: int


class Shuffles:
    """Deals a round's minibatches; one fixed shuffle decides which samples a share means."""

    def __init__(self, fed: Federation, local: LocalSGD, seed: int):
        self.local, self.seed = local, seed
        self.stack: _Stack | None = None  # working memory, kept from round to round
        self.sizes = fed.sizes.numpy()
        self.offsets = fed.offsets.numpy()[:-1]
        self.owner = np.repeat(np.arange(fed.clients), self.sizes)
        fixed = self._by_client(torch.randperm(len(self.owner), generator=stream(seed, "prefix")))
        self.rank = np.empty(len(fixed), dtype=np.int64)  # place in the fixed shuffle
        self.rank[fixed] = np.arange(len(fixed)) - self.offsets[self.owner[fixed]]

    def _by_client(self, order: Tensor) -> np.ndarray:
        """A random order of all samples, brought together client by client."""
        order = order.numpy()
        kind = np.uint16 if len(self.sizes) < 1 << 16 else np.int64  # radix sort where it can
        return order[np.argsort(self.owner[order].astype(kind), kind="stable")]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """Minibatches of round ``t`` for the entries (client, how many of its samples)."""
        batch = self.local.batch
        each = -(-counts // batch)  # steps of one pass
        steps = (
            each * self.local.epochs
            if self.local.steps is None
            else np.full_like(each, self.local.steps)
        )
        room = -(-steps // each) * each  # whole passes
        first = np.cumsum(room) - room
        blocks = np.repeat(self.offsets[clients], room * batch)  # padding: a sample of its own
        filled = np.zeros(len(blocks), dtype=bool)
        owned = self.sizes[clients]
        entry = np.repeat(np.arange(len(clients)), owned)
        place = np.arange(len(entry)) + np.repeat(
            self.offsets[clients] - np.cumsum(owned) + owned, owned
        )
        start = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(start, counts)
        for epoch in range(int((room // each).max())):
            generator = stream(self.seed, "minibatches", t, epoch)
            order = self._by_client(torch.randperm(len(self.owner), generator=generator))[place]
            used = self.rank[order] < counts[entry] if (counts < owned).any() else slice(None)
            samples, who = order[used], entry[used]
            fits = (epoch * each < room)[who]
            target = ((first + epoch * each)[who] * batch + within)[fits]
            blocks[target], filled[target] = samples[fits], True
        filled = filled.reshape(-1, batch)
        scale = filled / np.maximum(filled.sum(1, keepdims=True), 1)
        arrays = (blocks.reshape(-1, batch), scale, first, steps, clients)
        return Plan(*map(torch.from_numpy, arrays), t=t, seed=self.seed)


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
    with one_thread():
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
    """Working memory in which up to ``many`` Linear/ReLU models are trained at once."""

    def __init__(self, net: Model, fed: Federation, like: Tensor, many: int, batch: int):
        self.net = net
        self.x, self.labels = fed.x.flatten(1), one_hot(fed.y, fed.classes).to(like)
        self.flat = like.new_empty(many, net.P)
        self.parts = [like.new_empty(many, *shape) for shape in net.shapes.values()]
        self.inputs = like.new_empty(many * batch, self.x.shape[1])

    def take(self, plan: Plan, lr: float) -> None:
        """Go on with the minibatches of another round."""
        self.plan = plan
        self.blocks, self.scale = plan.blocks.to(self.x.device), (plan.scale * lr).to(self.flat)
        self.fill = (plan.scale > 0).sum(1).numpy()  # real samples of every block

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
        first, steps = self.plan.first[entry], self.plan.steps[entry]
        active = (steps[:, None] > torch.arange(int(steps.max()))).sum(0).tolist()
        for s, rows in enumerate(active):  # longer rows first: the active are a prefix
            for low, high, width in alike(self.fill[first[:rows].numpy() + s]):
                self._step([part[low:high] for part in parts], first[low:high] + s, width)
        for part, s, update in zip(parts, start, self.net.split(flat), strict=True):
            torch.sub(part, s, out=update)
        return flat

    def _step(self, parts: list[Tensor], at: Tensor, batch: int) -> None:
        """One minibatch of some rows; gradient and step are one product, W -= g' h."""
        weights, biases = parts[0::2], [bias[:, None, :] for bias in parts[1::2]]
        rows = len(at)
        index = self.blocks[:, :batch][at].flatten()  # [rows * b]
        inputs = torch.index_select(self.x, 0, index, out=self.inputs[: len(index)])
        h = [inputs.view(rows, batch, -1)]
        for weight, bias in zip(weights, biases, strict=True):  # [R, out, in], [R, 1, out]
            z = torch.baddbmm(bias, h[-1], weight.transpose(1, 2))  # [R, b, out]
            h.append(z.relu_() if len(h) < len(weights) else z)
        g = _softmax_(h.pop()).sub_(self.labels.index_select(0, index).view(rows, batch, -1))
        g.mul_(self.scale[:, :batch][at][:, :, None])  # lr / samples, 0 for padding
        for weight, bias, below in zip(weights[::-1], biases[::-1], h[::-1], strict=True):
            back = None if below is h[0] else torch.bmm(g, weight).mul_(below.sign())
            weight.baddbmm_(g.transpose(1, 2), below, alpha=-1)
            bias.sub_(g.sum(1, keepdim=True))
            g = back


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


def _softmax_(z: Tensor) -> Tensor:
    """In-place softmax over the last, short dimension, where it beats the built-in."""
    z.sub_(z.amax(-1, keepdim=True)).exp_()
    return z.div_(z.sum(-1, keepdim=True))


def _general(net: Model, fed: Federation, start: Tensor, plan: Plan, e: int, lr: float) -> Tensor:
    """The SGD steps of plan entry ``e`` with any module, by autograd; returns its update [P]."""
    theta = start.clone().requires_grad_()
    net.module.train()
    noise = stream(plan.seed, "dropout", plan.t, int(plan.clients[e]))
    with torch.random.fork_rng(devices=[]):  # modules draw from the global generator
        torch.manual_seed(noise.initial_seed())
        for at in range(int(plan.first[e]), int(plan.first[e] + plan.steps[e])):
            index = plan.blocks[at][plan.scale[at] > 0].to(fed.x.device)
            loss = cross_entropy(net.forward(theta, fed.x[index]), fed.y[index])
            (gradient,) = torch.autograd.grad(loss, theta)
            with torch.no_grad():
                theta -= lr * gradient
    return theta.detach() - start


def round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    previous: Tensor,
    updates: Tensor,
) -> Tensor:
    """Fill ``updates`` [m, P] with what the clients ``ids`` [m] send in round ``t``."""
    if len(ids) == 0:
        return updates
    sizes = shuffles.sizes[ids.numpy()]
    plan = shuffles.plan(t, ids.numpy(), sizes)
    order = torch.from_numpy(np.lexsort((-sizes, -plan.steps)))  # stable
    run = torch.zeros_like(order)
    ordered = torch.equal(order, torch.arange(len(order)))  # then rows need no second copy
    out = updates if ordered else None
    rate = shuffles.local.rate(t)
    given = (fed, net, theta[None], run, order, plan, rate)
    for rows, part in train_rows(*given, out=out, shuffles=shuffles):
        if not ordered:
            updates[order[rows]] = part
    return attack(fed, updates, ids, previous.expand(len(ids), -1), shuffles.seed, t)


def attack(
    fed: Federation, updates: Tensor, ids: Tensor, previous: Tensor, seed: int, t: int
) -> Tensor:
    """Let the attackers among the clients ``ids`` [m] change their rows, in place."""
    for k, wrong in fed.attacks.items():
        for row in (ids == k).nonzero().flatten().tolist():  # one stream a client and round
            noise = stream(seed, "attack", t, k)
            updates[row : row + 1] = wrong(updates[row : row + 1], previous[row : row + 1], noise)
    return updates


def finite_rows(updates: Tensor) -> Tensor:
    """Which rows [m] of updates [m, P] hold no NaN and no infinite value."""
    if updates.numel() == 0:
        return torch.ones(len(updates), dtype=torch.bool)
    finite = torch.isfinite(updates.sum(1))  # a finite sum has finite terms: one fast pass
    if not finite.all():  # a sum may overflow: look again at every value
        finite = torch.isfinite(updates.amin(1)) & torch.isfinite(updates.amax(1))
    return finite
