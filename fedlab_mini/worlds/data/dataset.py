"""Dataset: labelled samples as two tensors, with their name, source and licence.

Chapter 1 introduces it. Every loader of this package returns one; `federation` deals it to clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ... import checks


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled samples.

    x [N, d]    finite numbers; an image is one row, pixels in [0, 1], channel by channel
    y [N]       integers in 0..classes-1 (kept as int64)
    classes     number of classes; a class may be without samples
    labels      name of every class; by default "0", "1", ...
    shape       (channels, height, width) of an image, None where samples are no images
    part        "train", "test" or "all" of an official split, None where there is none
    vocabulary  the word behind every column (bag of words) or token id - 1 (tokens)
    raises      TypeError or ValueError naming the argument
    """

    x: Tensor
    y: Tensor
    classes: int
    name: str = "data"
    source: str = "given by the user"
    licence: str = "not stated"
    labels: tuple[str, ...] = ()
    shape: tuple[int, int, int] | None = None
    part: str | None = None
    vocabulary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        x = checks.reals("x", self.x, ["N", "d"])
        classes = checks.whole("classes", self.classes)
        y = checks.wholes("y", self.y, [len(x)], 0, classes - 1)
        names = checks.instance("labels", self.labels, Sequence, "a tuple of class names")
        if names and len(names) != classes:
            raise ValueError(f"labels: expected {classes} class names, got {len(names)}")
        labels = tuple(names) or tuple(map(str, range(classes)))
        if not isinstance(self.vocabulary, list | tuple):
            raise TypeError(f"vocabulary: expected words, got {checks.shown(self.vocabulary)}")
        words = tuple(checks.text("vocabulary", word) for word in self.vocabulary)
        given = {"x": x, "y": y, "classes": classes, "labels": labels, "vocabulary": words}
        given |= {n: checks.text(n, getattr(self, n)) for n in ("name", "source", "licence")}
        if self.part is not None:
            given["part"] = checks.text("part", self.part)
        if self.shape is not None:
            given["shape"] = image("shape", self.shape, x.shape[1])
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        title = self.name if self.part is None else f"{self.name}, {self.part}"
        features = f"{self.x.shape[1]} features"
        if self.shape is not None:
            features += " = " + "x".join(str(side) for side in self.shape)
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"Dataset({title}: {len(self)} samples, {features}, {self.classes} classes, {kind})"

    def subset(self, index: Tensor | np.ndarray | Sequence[int]) -> Dataset:
        """The samples at these positions, in that order, or under a boolean mask [N]."""
        found = checks.array("index", index, ["n"]).to(self.y.device)
        if found.dtype != torch.bool:
            found = checks.wholes("index", found, ["n"], 0, len(self) - 1)
        elif len(found) != len(self) or not found.any():
            raise ValueError(
                f"index: expected a mask of length {len(self)} that keeps a sample, "
                f"got {int(found.sum())} of {len(found)}"
            )
        return replace(self, x=self.x[found], y=self.y[found])

    def only_classes(self, classes: Sequence[int]) -> Dataset:
        """The samples of these classes, relabelled 0, 1, ... in the order given."""
        wanted = checks.wholes("classes", classes, ["n"], 0, self.classes - 1).tolist()
        if len(set(wanted)) != len(wanted):
            raise ValueError(f"classes: expected different classes, got {wanted}")
        new = torch.full((self.classes,), -1, device=self.y.device)
        new[wanted] = torch.arange(len(wanted), device=self.y.device)
        keep = new[self.y] >= 0
        if not keep.any():
            raise ValueError(f"classes: no sample of {self.name} has a class among {wanted}")
        return replace(
            self,
            x=self.x[keep],
            y=new[self.y[keep]],
            classes=len(wanted),
            labels=tuple(self.labels[c] for c in wanted),
        )

    def to(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Dataset:
        """The same samples in another floating-point type or on another device."""
        device = checks.device("device", device)
        dtype = self.x.dtype if dtype is None else checks.floating("dtype", dtype)
        return replace(self, x=self.x.to(dtype=dtype, device=device), y=self.y.to(device=device))

    def sha256(self) -> str:
        """Fingerprint of the samples: shape, type and bytes of x and y."""
        digest = hashlib.sha256(f"{list(self.x.shape)} {self.x.dtype} {self.classes}".encode())
        for tensor in (self.x, self.y):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def image(name: str, shape: object, features: int | None = None) -> tuple[int, int, int]:
    """An image's (channels, height, width), checked; ``features`` is what it has to hold."""
    channels, height, width = checks.wholes(name, shape, [3], 1).tolist()
    if features not in (None, channels * height * width):
        raise ValueError(f"{name}: {shape} does not hold the {features} features of x")
    return channels, height, width
