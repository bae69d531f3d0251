"""Minibatches: the settings of local training, and which samples form which minibatch.

A ``Plan`` depends on the seed, the round and the client only: a client's minibatches are the same
in every coalition. Chapter 3 needs that. Below: federation. Above: local.

Up to ``CROWD`` clients all samples are put in order every round, and those of its clients are
picked. In a larger federation that would cost more than the training, so every sample draws a
number of its own, and only the round's clients sort theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import number, whole
from ..streams import numbers, stream
from ..worlds.federation import Federation

CROWD = 1000  # clients


@dataclass(frozen=True)
class LocalSGD:
    """Plain SGD on a client: ``epochs`` passes over its data in minibatches of ``batch`` samples.

    epochs  passes a round; batch  samples a step (the last of a pass may be smaller); lr  step size
    steps   if given, exactly this many steps a round instead of whole epochs
    decay, decay_every  step size of round t = 1, 2, ...: lr * decay ** ((t - 1) // decay_every)
    raises  TypeError for what is no number, ValueError for values that are not positive
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
            if not (name == "steps" and value is None):
                object.__setattr__(self, name, whole(name, value))
        for name in ("lr", "decay"):
            object.__setattr__(self, name, number(name, getattr(self, name), 0, ends="(]"))

    def rate(self, t: int) -> float:
        """Step size of round ``t`` (the first is 1); ValueError if ``decay`` let it overflow."""
        try:
            found = self.lr * self.decay ** ((whole("t", t) - 1) // self.decay_every)
        except OverflowError:
            found = math.inf
        if found == math.inf:
            raise ValueError(f"decay: {self.decay:g} makes the step size of round {t} infinite")
        return found

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
    fill    [S]         how many samples of a block are real; the rest is padding
    first, steps  [E]   where an entry's steps begin, and how many they are
    clients  [E]        whose samples they are; t, seed  the round and the seed they were drawn for
    """

    blocks: Tensor
    fill: Tensor
    first: Tensor
    steps: Tensor
    clients: Tensor
    t: int
    seed: int

    def batches(self, e: int) -> list[Tensor]:
        """Sample indices of entry ``e``, step by step, without the padding."""
        own = slice(int(self.first[e]), int(self.first[e] + self.steps[e]))
        pairs = zip(self.blocks[own], self.fill[own].tolist(), strict=True)
        return [block[:many] for block, many in pairs]


class Layout:
    """What the plans of some entries (client, how many of its samples) share in all rounds.

    place  the entries' clients' samples, as places in an order of all samples, client by client;
           entry: whose they are
    fits, target  [epochs]  of the samples used: which have a step, and where they go
    """

    def __init__(self, shuffles: Shuffles, clients: np.ndarray, counts: np.ndarray):
        local, offsets, owned = shuffles.local, shuffles.offsets, shuffles.sizes[clients]
        batch = local.batch
        each = -(-counts // batch)  # steps of one pass
        steps = each * local.epochs if local.steps is None else np.full_like(each, local.steps)
        passes = -(-steps // each)
        room = passes * each  # whole passes
        first = np.cumsum(room) - room
        entry = np.repeat(np.arange(len(clients)), owned)
        shift = offsets[clients] - np.cumsum(owned) + owned
        self.entry, self.place = entry, np.arange(len(entry)) + np.repeat(shift, owned)
        self.limit = counts[entry] if (counts < owned).any() else None
        self.padding = np.repeat(offsets[clients], room * batch)  # a sample of its own
        who = np.repeat(np.arange(len(clients)), counts)
        within = np.arange(len(who)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = first[who] * batch + within
        self.fits, self.target = [], []
        for epoch in range(int(passes.max())):
            fits = slice(None) if epoch < passes.min() else (epoch < passes)[who]
            self.fits.append(fits)
            self.target.append((start + (epoch * batch * each)[who])[fits])
        last = np.arange(int(room.sum())) - np.repeat(first, room)  # step of its entry, from 0
        left = np.repeat(counts, room) - last % np.repeat(each, room) * batch
        fill = np.minimum(left, batch)
        self.shape = tuple(map(torch.from_numpy, (fill, first, steps, clients)))


class Shuffles:
    """Deals a round's minibatches; one fixed shuffle decides which samples a share means."""

    def __init__(self, fed: Federation, local: LocalSGD, seed: int):
        self.local, self.seed = local, seed
        self.stack: Any = None  # working memory of local training, kept from round to round
        self.layout: tuple[bytes, Layout] | None = None  # of the last entries
        self.sizes = fed.sizes.numpy()
        self.offsets = fed.offsets.numpy()[:-1]
        kind = np.uint16 if fed.clients < 1 << 16 else np.int64  # radix sort where it can
        self.owner = np.repeat(np.arange(fed.clients, dtype=kind), self.sizes)

    @cached_property
    def rank(self) -> np.ndarray:
        """Every sample's place in the fixed shuffle of its client."""
        fixed = self._order("prefix")
        rank = np.empty(len(fixed), dtype=np.int64)
        rank[fixed] = np.arange(len(fixed)) - self.offsets[self.owner[fixed]]
        return rank

    def _order(self, purpose: str, *index: int) -> np.ndarray:
        """A random order of all samples, brought together client by client."""
        chance = stream(self.seed, purpose, *index)
        order = torch.randperm(len(self.owner), generator=chance).numpy()
        return order[np.argsort(self.owner[order], kind="stable")]

    def _dealt(self, t: int, epoch: int, layout: Layout) -> np.ndarray:
        """The samples of a layout's entries in the order of one pass, entry after entry."""
        if len(self.sizes) <= CROWD:
            return self._order("minibatches", t, epoch)[layout.place]
        drawn = numbers(stream(self.seed, "minibatches", t, epoch), layout.place)
        return layout.place[np.lexsort((drawn, layout.entry))]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """Minibatches of round ``t`` for the entries (client, how many of its samples)."""
        key = clients.tobytes() + counts.tobytes()
        if self.layout is None or self.layout[0] != key:
            self.layout = key, Layout(self, clients, counts)
        layout = self.layout[1]
        blocks: Any = layout.padding.copy()
        for epoch, (fits, target) in enumerate(zip(layout.fits, layout.target, strict=True)):
            samples = self._dealt(t, epoch, layout)
            if layout.limit is not None:
                samples = samples[self.rank[samples] < layout.limit]
            blocks[target] = samples[fits]
        table = torch.from_numpy(blocks).view(-1, self.local.batch)
        fill, first, steps, whose = layout.shape
        return Plan(table, fill, first, steps, whose, t, self.seed)
