"""Corrupt: changes to a client's data, once, before training.

Chapter 1 uses it. The repr of a corruption says what it does; the federation keeps this text in
`truth`. Nothing is changed in place. ``attacks`` holds the changes to updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from ..parse import checks
from ..parse.samples import Samples
from ..parse.settings import Natural, Settings, Share
from .data.dataset import image

Corrupted = tuple[Tensor, Tensor, Tensor]  # x [n, d], y [n], changed [n] bool


def differing(before: Samples, after: Samples) -> Tensor:
    """Which samples (x, y) have changed, [n] bool."""
    (x, y), (new_x, new_y) = before, after
    return (new_x != x).flatten(1).any(1) | (new_y != y)


class DataCorruption(Settings):
    """A change to a client's data: ``corruption(x, y, classes, generator)``.

    x [n, d] inputs, y [n] labels in 0..classes-1; returns new x, new y, and changed [n] (bool):
    which samples differ from before. The arguments do not change. A subclass defines in ``change``
    what it does to copies of x and y.
    raises  TypeError or ValueError naming the argument
    """

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        x = checks.reals("x", x, ["n", "d", "..."])
        classes = checks.whole("classes", classes)
        y = checks.wholes("y", y, [len(x)], 0, classes - 1)
        checks.instance("generator", generator, Generator, "a torch.Generator")
        new_x, new_y = self.change(x.clone(), y.clone(), classes, generator)
        # The samples are compared, because a new label may equal the old one.
        return new_x, new_y, differing((x, y), (new_x, new_y))

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """The corrupted inputs and labels; x and y are copies that may be written to."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it changes")


@dataclass(frozen=True)
class FlipLabels(DataCorruption):
    """Exactly round(share * n) labels become another class, each other class equally likely."""

    share: Share

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        if classes < 2:
            raise checks.refusal("classes", "2 or more, as labels flip to another one", classes)
        flipped = _random_positions(self.share, y, generator)
        # A shift by at least one class never gives the old label.
        shift = torch.randint(1, classes, (len(flipped),), generator=generator).to(y)
        y[flipped] = (y[flipped] + shift) % classes
        return x, y


@dataclass(frozen=True)
class RelabelAs(DataCorruption):
    """round(share * n) random samples get the label ``target``; some may already have it."""

    target: Natural
    share: Share = 1.0

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        relabelled = _random_positions(self.share, y, generator)
        y[relabelled] = checks.whole("target", self.target, 0, classes - 1)
        return x, y


@dataclass(frozen=True, init=False)
class SwapLabels(DataCorruption):
    """All labels a become b and all b become a, for each pair: ``SwapLabels((2, 4), (1, 7))``."""

    pairs: tuple[tuple[int, int], ...] = ()

    def __init__(self, *pairs: tuple[int, int]) -> None:
        pair_matrix = checks.wholes("pairs", pairs, ["pairs", 2])
        if len(pair_matrix.unique()) != pair_matrix.numel():
            raise checks.refusal("pairs", "every class at most once", pairs)
        checks.store(self, pairs=tuple(map(tuple, pair_matrix.tolist())))

    def __repr__(self) -> str:
        return f"SwapLabels({', '.join(map(str, self.pairs))})"

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        pairs = checks.wholes("pairs", self.pairs, ["pairs", 2], 0, classes - 1)
        first_class, second_class = pairs.to(y).T
        # A table makes all swaps at once, so that no swapped label is swapped back.
        new_label = torch.arange(classes, device=y.device)
        new_label[first_class] = second_class
        new_label[second_class] = first_class
        return x, new_label[y]


@dataclass(frozen=True)
class DeleteWords(DataCorruption):
    """round(messages * n) random messages each lose round(share * words) of their words, at random.

    form   "counts": x holds word counts; deleted words are no longer counted
           "tokens": x holds token ids padded with 0; the tokens after a deleted one move left
    [F-RCCE: 20 % of the messages lose 20 % of their words]
    """

    share: Share
    messages: Share = 1.0
    form: Literal["counts", "tokens"] = "counts"

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        if x.ndim != 2 or (x < 0).any() or (x != x.round()).any():
            expected = "word counts or token ids [n, d], as before scaling"
            raise checks.refusal("x", f"{expected}, whole numbers of at least 0", x)
        shortened = _random_positions(self.messages, y, generator)
        shorten = _shorten_counts if self.form == "counts" else _shorten_tokens
        x[shortened] = shorten(x[shortened], self.share, generator)
        return x, y


@dataclass(frozen=True)
class Backdoor(DataCorruption):
    """round(share * n) random images get a bright square in the lower right corner.

    target   the label of these images; None keeps their labels (a pixel-only backdoor)
    shape    (channels, height, width) of an image, see `Dataset.shape`
    size     side of the square in pixels
    """

    target: Natural | None
    share: Share
    shape: tuple[int, int, int]
    size: int = 3

    def __post_init__(self) -> None:
        shape = image("shape", self.shape)
        size = checks.whole("size", self.size, 1, min(shape[1:]))
        checks.store(self, shape=shape, size=size)
        super().__post_init__()

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        image("shape", self.shape, x[0].numel())
        stamped = _random_positions(self.share, y, generator)
        x.view(-1, *self.shape)[stamped, :, -self.size :, -self.size :] = 1
        if self.target is not None:
            y[stamped] = checks.whole("target", self.target, 0, classes - 1)
        return x, y


def _random_positions(share: float, y: Tensor, generator: Generator) -> Tensor:
    """Positions of exactly round(share * n) samples, drawn without replacement."""
    count = round(share * len(y))
    return torch.randperm(len(y), generator=generator)[:count].to(y.device)


def _deleted(message: Tensor, messages: int, share: float, generator: Generator) -> Tensor:
    """Which words are deleted: exactly round(share * words) per row, all equally likely.

    row [W]  the row of every word, ascending; returns [W] bool
    """
    lengths = torch.bincount(message, minlength=messages)
    message_starts = lengths.cumsum(0) - lengths
    random_keys = torch.rand(len(message), generator=generator, dtype=torch.float64)
    # Sorting by the message plus a number in [0, 1) shuffles the words within each message.
    shuffled = (message + random_keys.to(message.device)).argsort()
    # Messages ascend, so after the shuffle place j still belongs to message[j].
    ranks = torch.empty_like(message)
    ranks[shuffled] = torch.arange(len(message), device=message.device) - message_starts[message]
    deletions = (share * lengths.double()).round().long()
    return ranks < deletions[message]


def _shorten_counts(x: Tensor, share: float, generator: Generator) -> Tensor:
    message, word = x.nonzero(as_tuple=True)
    occurrences = x[message, word].long()
    # One entry per occurrence, because a word that occurs three times may be deleted once.
    message = message.repeat_interleave(occurrences)
    word = word.repeat_interleave(occurrences)
    remaining = ~_deleted(message, len(x), share, generator)
    single_counts = torch.ones(int(remaining.sum()), dtype=x.dtype, device=x.device)
    # Accumulated, because a word that occurs twice has two entries for one place.
    return torch.zeros_like(x).index_put(
        (message[remaining], word[remaining]), single_counts, accumulate=True
    )


def _shorten_tokens(x: Tensor, share: float, generator: Generator) -> Tensor:
    message, place = x.nonzero(as_tuple=True)
    gone = _deleted(message, len(x), share, generator)
    with_gaps = x.clone()
    with_gaps[message[gone], place[gone]] = 0
    is_gap = (with_gaps == 0).to(torch.uint8)
    # The sort is stable: the remaining tokens keep their order, and the gaps move to the end.
    tokens_first = is_gap.argsort(dim=1, stable=True)
    return with_gaps.gather(1, tokens_first)
