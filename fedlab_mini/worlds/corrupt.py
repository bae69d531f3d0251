"""Corrupt: what goes wrong. Data corruptions act once, before training; attacks act every round.

Chapter 1 uses it. A corruption says in its repr what it does; the federation keeps that text as
ground truth. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import checks
from .data import Dataset
from .data.dataset import image

Samples = tuple[Tensor, Tensor]  # x [n, d], y [n]
Corrupted = tuple[Tensor, Tensor, Tensor]  # x [n, d], y [n], changed [n] bool


class DataCorruption:
    """What is done to a client's data: ``corruption(x, y, classes, generator)``.

    x [n, d] inputs, y [n] labels in 0..classes-1; returns new x, new y, and changed [n] (bool):
    which samples differ from before. Inputs are left as they are. A subclass says in ``change``
    what it does to copies of x and y.
    raises  TypeError or ValueError naming the argument
    """

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        x, classes = checks.reals("x", x, ["n", "d", "..."]), checks.whole("classes", classes)
        y = checks.wholes("y", y, [len(x)], 0, classes - 1)
        new_x, new_y = self.change(x.clone(), y.clone(), classes, generator)
        return new_x, new_y, (new_x != x).flatten(1).any(1) | (new_y != y)

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """The corrupted inputs and labels; x and y are copies that may be written to."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it changes")


class UpdateAttack:
    """What a client sends instead of its update: ``attack(updates, previous, generator)``.

    updates [m, P]   the honest updates, one row an attacking client
    previous         the server's last step, theta_t - theta_(t-1): [P] or [m, P]; None in round 1
    returns [m, P]   what is sent; the honest updates are left as they are
    """

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it sends")


def _keep(checked: object, **values: object) -> None:
    """Put checked values into a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(checked, name, value)


def _share(checked: object, *names: str) -> None:
    for name in names:
        _keep(checked, **{name: checks.number(name, getattr(checked, name), 0, 1)})


@dataclass(frozen=True)
class flip_labels(DataCorruption):
    """Exactly round(share * n) labels become another class, each other class equally likely."""

    share: float

    def __post_init__(self) -> None:
        _share(self, "share")

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; ValueError if there is only one class."""
        if classes < 2:
            raise ValueError(f"classes: flip_labels needs another class to flip to, got {classes}")
        chosen = _chosen(self.share, y, generator)
        shift = torch.randint(1, classes, (len(chosen),), generator=generator).to(y)
        y[chosen] = (y[chosen] + shift) % classes
        return x, y


@dataclass(frozen=True)
class relabel_as(DataCorruption):
    """round(share * n) random samples get the label ``target``; some may have had it already."""

    target: int
    share: float = 1.0

    def __post_init__(self) -> None:
        _keep(self, target=checks.whole("target", self.target, 0))
        _share(self, "share")

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; ValueError if the target is no class."""
        y[_chosen(self.share, y, generator)] = checks.whole("target", self.target, 0, classes - 1)
        return x, y


@dataclass(frozen=True)
class open_set(DataCorruption):
    """All samples are replaced by samples of classes that the task does not have.

    foreign   a Dataset with the same number of features
    mapping   the task's class that each foreign class is labelled as; None: a random map drawn
              from ``seed`` alone, so that all clients share it: a bijection where class counts
              are equal, one-to-one where the task has more classes, else evenly many-to-one
    Samples are drawn without replacement while ``foreign`` has enough for this client.
    [Nagalapatti & Narayanam 2021: odd digits labelled as even ones]
    """

    foreign: Dataset
    mapping: Sequence[int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checks.instance("foreign", self.foreign, Dataset, "a Dataset (see fm.load)")
        _keep(self, seed=checks.whole("seed", self.seed, 0, 2**63 - 1))
        if self.mapping is not None:
            mapping = checks.wholes("mapping", self.mapping, [self.foreign.classes])
            _keep(self, mapping=tuple(mapping.tolist()))

    def labels_for(self, classes: int) -> Tensor:
        """The map [foreign classes] -> 0..classes-1, the same at every call."""
        if self.mapping is not None:
            return checks.wholes("mapping", self.mapping, [self.foreign.classes], 0, classes - 1)
        stream = Generator().manual_seed(self.seed)
        order = torch.randperm(max(self.foreign.classes, classes), generator=stream)
        return order[: self.foreign.classes] % classes

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; ValueError if the foreign samples have other features."""
        if x.shape[1:] != self.foreign.x.shape[1:]:
            raise ValueError(
                f"foreign: samples of shape {list(self.foreign.x.shape[1:])} cannot stand for "
                f"samples of shape {list(x.shape[1:])}"
            )
        n, supply = len(y), len(self.foreign)
        if n <= supply:
            drawn = torch.randperm(supply, generator=generator)[:n]
        else:
            drawn = torch.randint(supply, (n,), generator=generator)
        drawn = drawn.to(self.foreign.y.device)
        labels = self.labels_for(classes).to(y)
        return self.foreign.x[drawn].to(x), labels[self.foreign.y[drawn].to(y)]


@dataclass(frozen=True, init=False)
class swap_labels(DataCorruption):
    """All labels a become b and all b become a, for each pair: ``swap_labels((2, 4), (1, 7))``."""

    pairs: tuple[tuple[int, int], ...] = ()

    def __init__(self, *pairs: tuple[int, int]) -> None:
        found = checks.wholes("pairs", pairs, ["pairs", 2])
        if len(found.unique()) != found.numel():
            raise ValueError(f"pairs: expected every class at most once, got {pairs!r}")
        _keep(self, pairs=tuple((a, b) for a, b in found.tolist()))

    def __repr__(self) -> str:
        return f"swap_labels({', '.join(map(str, self.pairs))})"

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; nothing is random here. ValueError if a pair names no class."""
        one, other = checks.wholes("pairs", self.pairs, ["pairs", 2], 0, classes - 1).to(y).T
        table = torch.arange(classes, device=y.device)
        table[one], table[other] = other, one
        return x, table[y]


@dataclass(frozen=True)
class delete_words(DataCorruption):
    """round(messages * n) random messages each lose round(share * words) of their words, at random.

    form   "counts": x holds word counts; deleted words are no longer counted
           "tokens": x holds token ids padded with 0; deleted tokens go, the rest moves left
    [F-RCCE: 20 % of the messages lose 20 % of their words]
    """

    share: float
    messages: float = 1.0
    form: str = "counts"

    def __post_init__(self) -> None:
        _share(self, "share", "messages")
        checks.choice("form", self.form, ("counts", "tokens"))

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; ValueError if x does not hold whole numbers of at least 0."""
        if x.ndim != 2 or (x < 0).any() or (x != x.round()).any():
            raise ValueError(
                "x: delete_words needs word counts or token ids [n, d], whole and at least 0; "
                "delete words before scaling"
            )
        rows = _chosen(self.messages, y, generator)
        shorten = _drop_counts if self.form == "counts" else _drop_tokens
        x[rows] = shorten(x[rows], self.share, generator)
        return x, y


@dataclass(frozen=True)
class backdoor(DataCorruption):
    """round(share * n) random images get a bright square in the lower right corner.

    target   the label they get; None leaves labels alone (a pixel-only backdoor)
    shape    (channels, height, width) of an image, as `Dataset.shape` says
    size     side of the square in pixels
    """

    target: int | None
    share: float
    shape: tuple[int, int, int]
    size: int = 3

    def __post_init__(self) -> None:
        _share(self, "share")
        shape = image("shape", self.shape)
        _keep(self, shape=shape, size=checks.whole("size", self.size, 1, min(shape[1:])))
        if self.target is not None:
            _keep(self, target=checks.whole("target", self.target, 0))

    def stamp(self, x: Tensor) -> Tensor:
        """x [n, d] with the square set to 1, as a new tensor: the trigger, for testing a model."""
        x = checks.reals("x", x, ["n", "d"])
        images = x.clone().view(-1, *image("shape", self.shape, x.shape[1]))
        images[:, :, -self.size :, -self.size :] = 1
        return images.view(x.shape)

    def change(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Samples:
        """See `DataCorruption`; ValueError if the target is no class or the shape does not fit."""
        rows = _chosen(self.share, y, generator)
        x[rows] = self.stamp(x)[rows]
        if self.target is not None:
            y[rows] = checks.whole("target", self.target, 0, classes - 1)
        return x, y


@dataclass(frozen=True)
class sign_flip(UpdateAttack):
    """Sends the update backwards: ``-strength * update``."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        _keep(self, strength=checks.number("strength", self.strength, 0, ends="()"))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; nothing is random here."""
        return -self.strength * _rows(updates)


@dataclass(frozen=True)
class free_ride(UpdateAttack):
    """Trains nothing: sends Gaussian noise, of standard deviation ``noise`` in every parameter."""

    noise: float = 1e-3

    def __post_init__(self) -> None:
        _keep(self, noise=checks.number("noise", self.noise, 0))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; only the shape of the honest updates is used."""
        updates = _rows(updates)
        drawn = torch.randn(updates.shape, generator=generator, dtype=torch.float64)
        return (self.noise * drawn).to(updates)


@dataclass(frozen=True)
class scale(UpdateAttack):
    """Sends ``factor * update``: a large factor boosts, a small one hides."""

    factor: float

    def __post_init__(self) -> None:
        _keep(self, factor=checks.number("factor", self.factor))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; nothing is random here."""
        return self.factor * _rows(updates)


@dataclass(frozen=True)
class replay(UpdateAttack):
    """Trains nothing: sends the server's last step back; zeros in round 1."""

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; ValueError if ``previous`` does not fit the updates."""
        updates = _rows(updates)
        if previous is None:
            return torch.zeros_like(updates)
        sent = checks.reals("previous", previous, ["..."], finite=False).to(updates)
        if sent.shape not in (updates.shape, updates.shape[1:]):
            raise ValueError(
                f"previous: expected shape {list(updates.shape[1:])} or {list(updates.shape)}, "
                f"got {list(sent.shape)}"
            )
        return sent.expand_as(updates).clone()


def _rows(updates: Tensor) -> Tensor:
    return checks.reals("updates", updates, ["m", "P"], finite=False)


def _chosen(share: float, y: Tensor, generator: Generator) -> Tensor:
    """Positions of exactly round(share * n) samples, drawn without replacement."""
    return torch.randperm(len(y), generator=generator)[: round(share * len(y))].to(y.device)


def _dropped(row: Tensor, rows: int, share: float, generator: Generator) -> Tensor:
    """Which occurrences go: in each row exactly round(share * its occurrences), all equally likely.

    row [T]  the row of every occurrence, ascending; returns [T] bool
    """
    length = torch.bincount(row, minlength=rows)
    start = length.cumsum(0) - length
    chance = torch.rand(len(row), generator=generator, dtype=torch.float64).to(row.device)
    order = (row + chance).argsort()  # shuffled within each row
    rank = torch.empty_like(row)
    rank[order] = torch.arange(len(row), device=row.device) - start[row]
    return rank < (share * length.double()).round().long()[row]


def _drop_counts(x: Tensor, share: float, generator: Generator) -> Tensor:
    row, word = x.nonzero(as_tuple=True)
    times = x[row, word].long()
    # one entry an occurrence
    row, word = row.repeat_interleave(times), word.repeat_interleave(times)
    keep = ~_dropped(row, len(x), share, generator)
    ones = torch.ones(int(keep.sum()), dtype=x.dtype, device=x.device)
    return torch.zeros_like(x).index_put((row[keep], word[keep]), ones, accumulate=True)


def _drop_tokens(x: Tensor, share: float, generator: Generator) -> Tensor:
    row, place = x.nonzero(as_tuple=True)
    gone = _dropped(row, len(x), share, generator)
    kept = x.clone()
    kept[row[gone], place[gone]] = 0
    left = (kept == 0).to(torch.uint8).argsort(dim=1, stable=True)  # tokens first, in their order
    return kept.gather(1, left)
