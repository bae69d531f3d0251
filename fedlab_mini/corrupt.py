"""Corrupt: what goes wrong. Data corruptions act once, before training; attacks act every round.

Chapters 1 and 11 use it. A corruption says in its repr what it does; the federation keeps that
text as ground truth. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from .data import Dataset

Corrupted = tuple[Tensor, Tensor, Tensor]  # x [n, d], y [n], changed [n] bool


class DataCorruption:
    """Marks what is done to a client's data: ``corruption(x, y, classes, generator)``.

    x [n, d] inputs, y [n] labels in 0..classes-1; returns new x, new y, and changed [n] (bool):
    which samples differ from before. Inputs are left as they are.
    """


class UpdateAttack:
    """Marks what a client sends instead of its update: ``attack(updates, previous, generator)``.

    updates [m, P]   the honest updates, one row an attacking client
    previous         the server's last step, theta_t - theta_(t-1): [P] or [m, P]; None in round 1
    returns [m, P]   what is sent
    """


@dataclass(frozen=True)
class flip_labels(DataCorruption):
    """Exactly round(share * n) labels become another class, each other class equally likely."""

    share: float

    def __post_init__(self) -> None:
        _check_share("share", self.share)

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; ValueError if there is only one class."""
        _check_data(x, y, classes)
        if classes < 2:
            raise ValueError(f"classes: flip_labels needs another class to flip to, got {classes}")
        chosen = _chosen(self.share, y, generator)
        shift = torch.randint(1, classes, (len(chosen),), generator=generator).to(y)
        flipped = y.clone()
        flipped[chosen] = (y[chosen] + shift) % classes
        return x.clone(), flipped, flipped != y


@dataclass(frozen=True)
class relabel_as(DataCorruption):
    """round(share * n) random samples get the label ``target``; some may have had it already."""

    target: int
    share: float = 1.0

    def __post_init__(self) -> None:
        _check_share("share", self.share)

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; ValueError if the target is no class."""
        _check_data(x, y, classes)
        _check_class("target", self.target, classes)
        relabelled = y.clone()
        relabelled[_chosen(self.share, y, generator)] = self.target
        return x.clone(), relabelled, relabelled != y


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
        if not isinstance(self.foreign, Dataset):
            raise TypeError(f"foreign: expected a Dataset, got {type(self.foreign).__name__}")
        if self.mapping is not None:
            if len(self.mapping) != self.foreign.classes:
                raise ValueError(
                    f"mapping: expected one class for each of {self.foreign.classes} foreign ones, "
                    f"got {len(self.mapping)}"
                )
            object.__setattr__(self, "mapping", tuple(int(c) for c in self.mapping))

    def labels_for(self, classes: int) -> Tensor:
        """The map [foreign classes] -> 0..classes-1, the same at every call."""
        if self.mapping is not None:
            for target in self.mapping:
                _check_class("mapping", target, classes)
            return torch.tensor(self.mapping)
        stream = Generator().manual_seed(self.seed)
        order = torch.randperm(max(self.foreign.classes, classes), generator=stream)
        return order[: self.foreign.classes] % classes

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; ValueError if the foreign samples have other features."""
        _check_data(x, y, classes)
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
        relabelled = self.labels_for(classes).to(y)[self.foreign.y[drawn].to(y)]
        changed = torch.ones(n, dtype=torch.bool, device=y.device)
        return self.foreign.x[drawn].to(x), relabelled, changed


@dataclass(frozen=True, init=False)
class swap_labels(DataCorruption):
    """All labels a become b and all b become a, for each pair: ``swap_labels((2, 4), (1, 7))``."""

    pairs: tuple[tuple[int, int], ...] = field(default=())

    def __init__(self, *pairs: tuple[int, int]) -> None:
        if not pairs or any(not isinstance(p, tuple | list) or len(p) != 2 for p in pairs):
            raise ValueError(f"pairs: expected pairs of classes such as (2, 4), got {pairs!r}")
        flat = [c for pair in pairs for c in pair]
        if len(set(flat)) != len(flat):
            raise ValueError(f"pairs: expected every class at most once, got {pairs!r}")
        object.__setattr__(self, "pairs", tuple((int(a), int(b)) for a, b in pairs))

    def __repr__(self) -> str:
        return f"swap_labels({', '.join(map(str, self.pairs))})"

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; nothing is random here. ValueError if a pair names no class."""
        _check_data(x, y, classes)
        table = torch.arange(classes, device=y.device)
        for a, b in self.pairs:
            _check_class("pairs", a, classes)
            _check_class("pairs", b, classes)
            table[a], table[b] = b, a
        swapped = table[y].to(y.dtype)
        return x.clone(), swapped, swapped != y


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
        _check_share("share", self.share)
        _check_share("messages", self.messages)
        if self.form not in ("counts", "tokens"):
            raise ValueError(f'form: expected "counts" or "tokens", got {self.form!r}')

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; ValueError if x does not hold whole numbers of at least 0."""
        _check_data(x, y, classes)
        if x.ndim != 2 or (x < 0).any() or (x != x.round()).any():
            raise ValueError(
                "x: delete_words needs word counts or token ids [n, d], whole and at least 0; "
                "delete words before scaling"
            )
        rows = _chosen(self.messages, y, generator)
        shortened = x.clone()
        shorten = _drop_counts if self.form == "counts" else _drop_tokens
        shortened[rows] = shorten(x[rows], self.share, generator)
        return shortened, y.clone(), (shortened != x).any(1)


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
        _check_share("share", self.share)
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"shape: expected (channels, height, width), got {self.shape!r}")
        if not 1 <= self.size <= min(self.shape[1:]):
            raise ValueError(f"size: expected 1..{min(self.shape[1:])} pixels, got {self.size!r}")

    def stamp(self, x: Tensor) -> Tensor:
        """x [n, d] with the square set to 1, as a new tensor: the trigger, for testing a model."""
        channels, height, width = self.shape
        if x.ndim != 2 or x.shape[1] != channels * height * width:
            raise ValueError(f"shape: {self.shape} does not hold the features of x {list(x.shape)}")
        images = x.clone().view(-1, channels, height, width)
        images[:, :, -self.size :, -self.size :] = 1
        return images.view(x.shape)

    def __call__(self, x: Tensor, y: Tensor, classes: int, generator: Generator) -> Corrupted:
        """See `DataCorruption`; ValueError if the target is no class or the shape does not fit."""
        _check_data(x, y, classes)
        rows = _chosen(self.share, y, generator)
        stamped, relabelled = x.clone(), y.clone()
        stamped[rows] = self.stamp(x)[rows]
        if self.target is not None:
            _check_class("target", self.target, classes)
            relabelled[rows] = self.target
        return stamped, relabelled, (stamped != x).any(1) | (relabelled != y)


@dataclass(frozen=True)
class sign_flip(UpdateAttack):
    """Sends the update backwards: ``-strength * update``."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.strength < float("inf"):
            raise ValueError(f"strength: expected a finite number above 0, got {self.strength!r}")

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; nothing is random here."""
        _check_updates(updates)
        return -self.strength * updates


@dataclass(frozen=True)
class free_ride(UpdateAttack):
    """Trains nothing: sends Gaussian noise, of standard deviation ``noise`` in every parameter."""

    noise: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.noise < float("inf"):
            raise ValueError(f"noise: expected a finite number of at least 0, got {self.noise!r}")

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; only the shape of the honest updates is used."""
        _check_updates(updates)
        drawn = torch.randn(updates.shape, generator=generator, dtype=torch.float64)
        return (self.noise * drawn).to(updates)


@dataclass(frozen=True)
class scale(UpdateAttack):
    """Sends ``factor * update``: a large factor boosts, a small one hides."""

    factor: float

    def __post_init__(self) -> None:
        if not abs(self.factor) < float("inf"):
            raise ValueError(f"factor: expected a finite number, got {self.factor!r}")

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; nothing is random here."""
        _check_updates(updates)
        return self.factor * updates


@dataclass(frozen=True)
class replay(UpdateAttack):
    """Trains nothing: sends the server's last step back; zeros in round 1."""

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        """See `UpdateAttack`; ValueError if ``previous`` does not fit the updates."""
        _check_updates(updates)
        if previous is None:
            return torch.zeros_like(updates)
        if previous.shape not in (updates.shape, updates.shape[1:]):
            raise ValueError(
                f"previous: expected shape {list(updates.shape[1:])} or {list(updates.shape)}, "
                f"got {list(previous.shape)}"
            )
        return previous.to(updates).expand_as(updates).clone()


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"{name}: expected a number in [0, 1], got {share!r}")


def _check_class(name: str, label: int, classes: int) -> None:
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < classes:
        raise ValueError(f"{name}: expected a class in 0..{classes - 1}, got {label!r}")


def _check_data(x: Tensor, y: Tensor, classes: int) -> None:
    if y.ndim != 1 or y.is_floating_point() or x.ndim < 2 or len(x) != len(y):
        raise ValueError(
            f"x, y: expected x [n, ...] and integer labels y [n], got {list(x.shape)} and "
            f"{list(y.shape)} of {y.dtype}"
        )
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= classes):
        raise ValueError(f"y: expected labels in 0..{classes - 1}")


def _check_updates(updates: Tensor) -> None:
    if updates.ndim != 2 or not updates.is_floating_point():
        raise ValueError(
            f"updates: expected floating [m, P], got {list(updates.shape)} of {updates.dtype}"
        )


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
