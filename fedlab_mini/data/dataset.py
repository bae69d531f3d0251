"""Dataset: labelled samples as two tensors, with their name, source and licence.

Chapter 1 introduces it. Every loader of this package returns one; `federation` deals it to clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled samples.

    x [N, d]    floating and finite; an image is one row, pixels in [0, 1], channel by channel
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
        _check_inputs(self.x, self.shape)
        _check_labels(self.y, self.classes, len(self.x))
        names = tuple(self.labels) or tuple(str(c) for c in range(self.classes))
        if len(names) != self.classes:
            raise ValueError(f"labels: expected {self.classes} class names, got {len(names)}")
        object.__setattr__(self, "labels", names)
        object.__setattr__(self, "y", self.y.long())

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        title = self.name if self.part is None else f"{self.name}, {self.part}"
        features = f"{self.x.shape[1]} features"
        if self.shape is not None:
            features += " = " + "x".join(str(side) for side in self.shape)
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"Dataset({title}: {len(self)} samples, {features}, {self.classes} classes, {kind})"

    def subset(self, index: Tensor | Sequence[int]) -> Dataset:
        """The samples at these positions, in that order, or under a boolean mask [N]."""
        index = torch.as_tensor(index, device=self.y.device)
        if index.ndim != 1 or index.is_floating_point() or len(index) == 0:
            raise ValueError(
                "index: expected at least one position, or a boolean mask [N], "
                f"got shape {list(index.shape)} of {index.dtype}"
            )
        if index.dtype == torch.bool and len(index) != len(self):
            raise ValueError(f"index: expected a mask of length {len(self)}, got {len(index)}")
        if index.dtype != torch.bool:
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= len(self):
                raise ValueError(
                    f"index: expected positions in 0..{len(self) - 1}, got {low}..{high}"
                )
        return replace(self, x=self.x[index], y=self.y[index])

    def only_classes(self, classes: Sequence[int]) -> Dataset:
        """The samples of these classes, relabelled 0, 1, ... in the order given."""
        wanted = [int(c) for c in classes]
        if not wanted or len(set(wanted)) != len(wanted):
            raise ValueError(f"classes: expected different classes, at least one, got {wanted}")
        if min(wanted) < 0 or max(wanted) >= self.classes:
            raise ValueError(f"classes: expected classes in 0..{self.classes - 1}, got {wanted}")
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
        return replace(self, x=self.x.to(dtype=dtype, device=device), y=self.y.to(device=device))

    def sha256(self) -> str:
        """Fingerprint of the samples: shape, type and bytes of x and y."""
        digest = hashlib.sha256(f"{list(self.x.shape)} {self.x.dtype} {self.classes}".encode())
        for tensor in (self.x, self.y):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def _check_inputs(x: Tensor, shape: tuple[int, int, int] | None) -> None:
    if not torch.is_tensor(x) or not x.is_floating_point():
        kind = x.dtype if torch.is_tensor(x) else type(x).__name__
        raise TypeError(f"x: expected a floating-point tensor [N, d], got {kind}")
    if x.ndim != 2 or min(x.shape) < 1:
        raise ValueError(f"x: expected [N, d] with N >= 1 and d >= 1, got shape {list(x.shape)}")
    if not torch.isfinite(x).all():
        raise ValueError("x: holds NaN or infinite values")
    if shape is not None and (len(shape) != 3 or shape[0] * shape[1] * shape[2] != x.shape[1]):
        raise ValueError(f"shape: {shape} does not hold the {x.shape[1]} features of x")


def _check_labels(y: Tensor, classes: int, samples: int) -> None:
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise ValueError(f"classes: expected an integer of at least 1, got {classes!r}")
    if not torch.is_tensor(y) or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        kind = y.dtype if torch.is_tensor(y) else type(y).__name__
        raise TypeError(f"y: expected a tensor of integers [N], got {kind}")
    if y.shape != (samples,):
        raise ValueError(f"y: expected shape [{samples}] as x has, got {list(y.shape)}")
    if int(y.min()) < 0 or int(y.max()) >= classes:
        raise ValueError(
            f"y: expected labels in 0..{classes - 1}, got {int(y.min())}..{int(y.max())}"
        )
