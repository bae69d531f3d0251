"""Minibatches: the settings of local training, and which samples form which minibatch.

Settings are those of [McMahan et al. 2017]; ``plain.batches`` makes one client's minibatches in a
dozen lines. Here a client's minibatches do not depend on who else takes part, so they are the same
in every coalition, as chapter 3 needs, and those of many clients are dealt at once.

Up to ``CROWD`` clients, a round shuffles all samples and picks those of its clients. In a larger
federation this would cost more than the training. There every sample has a random number of its
own, and only the samples of the round's clients are sorted by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..parse.settings import Count, Positive, Settings
from ..streams import numbers, stream
from ..worlds.federation import Federation

CROWD = 1000  # clients


@dataclass(frozen=True)
class LocalSGD(Settings):
    """Plain SGD on a client: ``epochs`` passes over its data in minibatches of ``batch`` samples.

    epochs  passes per round; batch  samples per step, or fewer at the end of a pass; lr  step size
    steps   if given, exactly this many steps per round instead of whole epochs
    decay, decay_every  step size of round t = 1, 2, ...: lr * decay ** ((t - 1) // decay_every)
    raises  TypeError for values that are not numbers, ValueError for values that are not positive

    Warning: with ``steps``, ``epochs`` decides nothing; with ``decay=1``, neither does
    ``decay_every``.
    """

    epochs: Count = 1
    batch: Count = 32
    lr: Positive = 0.1
    steps: Count | None = None
    decay: Positive = 1.0
    decay_every: Count = 1

    def rate(self, t: int) -> float:
        """Step size of round ``t`` (the first is 1); ValueError if ``decay`` makes it infinite."""
        decays = (t - 1) // self.decay_every
        # A power that overflows raises, but a product becomes infinite; both are refused below.
        try:
            step_size = self.lr * self.decay**decays
        except OverflowError:
            step_size = math.inf
        if step_size == math.inf:
            raise ValueError(f"decay: {self.decay:g} makes the step size of round {t} infinite")
        return step_size

    def passes(self, size: int) -> float:
        """How many passes over its data a client with ``size`` samples makes in a round."""
        if self.steps is None:
            return float(self.epochs)
        whole_passes, steps_left = divmod(self.steps, math.ceil(size / self.batch))
        return whole_passes + min(1.0, steps_left * self.batch / size)


class Plan(NamedTuple):
    """The minibatches of one round for E entries: an entry is a client and the samples it uses.

    Every minibatch has ``batch`` places, so that those of many clients form one table. The last
    minibatch of a pass is padded with samples that have weight 0.

    blocks  [S, batch]  sample indices; entry e trains on ``steps[e]`` rows from ``first[e]`` on
    t, seed             the round and the seed, for dropout
    fill    [S]         how many samples of a block are real; the rest is padding
    first, steps  [E]   where an entry's steps begin, and how many there are
    clients  [E]        the client of each entry
    """

    blocks: Tensor
    t: int
    seed: int
    fill: Tensor
    first: Tensor
    steps: Tensor
    clients: Tensor


class Layout:
    """Where samples go in the blocks of some entries: the same in all rounds.

    places   [n] all samples of the entries' clients, entry by entry, as indices of the federation
    entry_of_place [n]   the entry that each of these samples belongs to
    limits   [n] how many samples that entry uses, or None if all entries use all samples
    padding  [S * batch] what the blocks hold before they are filled: each client's first sample
    passes   for each pass: a mask of the used samples that it contains, and their places
    of_plan  the fill, first, steps and clients of a ``Plan``
    """

    def __init__(self, shuffles: Shuffles, clients: np.ndarray, counts: np.ndarray):
        local, batch = shuffles.local, shuffles.local.batch
        owned = shuffles.sizes[clients]
        offsets = shuffles.offsets[clients]
        entries = np.arange(len(clients))

        steps_of_pass = -(-counts // batch)  # rounded up
        if local.steps is None:
            steps = steps_of_pass * local.epochs
        else:
            steps = np.full_like(steps_of_pass, local.steps)
        # If ``steps`` is given, a small client makes more passes than a large one.
        pass_counts = -(-steps // steps_of_pass)
        # Whole passes, even if the steps end in the middle of one.
        block_counts = pass_counts * steps_of_pass
        first = np.cumsum(block_counts) - block_counts

        self.entry_of_place = np.repeat(entries, owned)
        self.places = np.repeat(offsets, owned) + _within(owned)
        # None if every client uses all its samples: the fixed shuffle is not computed then.
        self.limits = counts[self.entry_of_place] if (counts < owned).any() else None
        # A sample of the client itself, because another client's may be NaN, and 0 * NaN is NaN.
        self.padding = np.repeat(offsets, block_counts * batch)

        # The blocks are one row of S * batch places here. The samples of a pass follow each other
        # without a gap, and the places left before the next pass remain padding.
        entry_of_used = np.repeat(entries, counts)  # the entry of every sample used
        target = first[entry_of_used] * batch + _within(counts)
        self.passes: list[tuple[Any, np.ndarray]] = []
        for epoch in range(int(pass_counts.max())):
            # A slice makes no copy, but a mask does.
            everyone = epoch < pass_counts.min()
            takes_part = slice(None) if everyone else (epoch < pass_counts)[entry_of_used]
            shift = epoch * batch * steps_of_pass
            self.passes.append((takes_part, (target + shift[entry_of_used])[takes_part]))

        step_of_pass = _within(block_counts) % np.repeat(steps_of_pass, block_counts)
        samples_left = np.repeat(counts, block_counts) - step_of_pass * batch
        of_plan = np.minimum(samples_left, batch), first, steps, clients
        self.of_plan = tuple(map(torch.from_numpy, of_plan))


def _within(lengths: np.ndarray) -> np.ndarray:
    """Positions 0 .. length - 1 for each of the lengths, one after another."""
    # [2, 3] -> [0, 1, 0, 1, 2], in one operation for all lengths
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)


class Shuffles:
    """Makes a round's minibatches; one fixed shuffle decides which samples a share contains."""

    def __init__(self, fed: Federation, local: LocalSGD, seed: int):
        self.local, self.seed = local, seed
        # Working memory of local training, kept from round to round.
        self.stack: Any = None
        self.layout: tuple[bytes, Layout] | None = None  # the layout used last
        self.sizes = fed.sizes.numpy()
        self.offsets = fed.offsets.numpy()[:-1]
        # For 16-bit integers NumPy's stable sort is a radix sort, which is several times faster.
        id_type = np.uint16 if fed.clients < 1 << 16 else np.int64
        self.owner = np.repeat(np.arange(fed.clients, dtype=id_type), self.sizes)

    @cached_property
    def rank(self) -> np.ndarray:
        """Every sample's position in the fixed shuffle of its client."""
        fixed_order = self.shuffled("prefix")
        # The inverse of a permutation: each position is written at the sample that stands there.
        rank = np.empty(len(fixed_order), dtype=np.int64)
        rank[fixed_order] = np.arange(len(fixed_order)) - self.offsets[self.owner[fixed_order]]
        return rank

    def shuffled(self, purpose: str, *index: int) -> np.ndarray:
        """All samples, client by client, with each client's samples in random order."""
        generator = stream(self.seed, purpose, *index)
        order = torch.randperm(len(self.owner), generator=generator).numpy()
        # A stable sort keeps each client's samples in shuffled order, as ``plain.shuffled`` does.
        return order[np.argsort(self.owner[order], kind="stable")]

    def one_pass(self, t: int, epoch: int, layout: Layout) -> np.ndarray:
        """The samples of a layout's entries, entry by entry, in the order of one pass."""
        if len(self.sizes) <= CROWD:
            return self.shuffled("minibatches", t, epoch)[layout.places]
        drawn = numbers(stream(self.seed, "minibatches", t, epoch), layout.places)
        # lexsort sorts by its last key first: by entry, and within an entry by the random numbers.
        return layout.places[np.lexsort((drawn, layout.entry_of_place))]

    def plan(self, t: int, clients: np.ndarray, counts: np.ndarray) -> Plan:
        """Minibatches of round ``t`` for the entries: clients, and how many samples each uses."""
        # If all clients participate in every round, a training run makes only one layout.
        key = clients.tobytes() + counts.tobytes()
        if self.layout is None or self.layout[0] != key:
            self.layout = key, Layout(self, clients, counts)
        layout = self.layout[1]
        blocks: Any = layout.padding.copy()
        for epoch, (takes_part, target) in enumerate(layout.passes):
            samples = self.one_pass(t, epoch, layout)
            if layout.limits is not None:
                # Samples and limits are in order of entries; an entry's samples share one limit.
                samples = samples[self.rank[samples] < layout.limits]
            blocks[target] = samples[takes_part]
        table = torch.from_numpy(blocks).view(-1, self.local.batch)
        return Plan(table, t, self.seed, *layout.of_plan)
