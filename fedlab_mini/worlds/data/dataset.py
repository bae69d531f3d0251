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

from ...parse import checks

MOST_CLASSES = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled samples.

    x [N, d]    finite numbers; an image is one row, pixels in [0, 1], channel by channel
    y [N]       integers in 0..classes-1 (kept as int64)
    classes     number of classes; a class may have no samples
    labels      name of every class; by default "0", "1", ...
    shape       (channels, height, width) of an image, None if samples are not images
    part        "train", "test" or "all" of an official split, None if there is none
    vocabulary  what stands in every column, in words; for tokens the word of token id - 1
    groups [N]  who collected each sample, as an index into ``group_names``
    missing     [N, c] True where a value was not recorded; c = 0 if the set does not say
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
    groups: Tensor = None  # type: ignore[assignment]  # zeros unless given
    group_names: tuple[str, ...] = ()
    missing: Tensor = None  # type: ignore[assignment]  # [N, 0] unless given

    def __post_init__(self) -> None:
        labels_of_x = checks.alongside("y", self.y, self.x)
        x = checks.reals("x", self.x, ["N", "d"])
        classes = checks.whole("classes", self.classes, 1, MOST_CLASSES)
        labels = checks.texts("labels", self.labels)
        if labels and len(labels) != classes:
            raise checks.refusal("labels", f"{classes} class names", len(labels))
        names = checks.texts("group_names", self.group_names)
        groups = torch.zeros(len(x)).long() if self.groups is None else self.groups
        missing = torch.zeros(len(x), 0).bool() if self.missing is None else self.missing
        missing = checks.array("missing", missing, [len(x), "..."])
        if missing.dtype != torch.bool:
            raise checks.refusal("missing", "True or False", missing, TypeError)
        checks.store(
            self,
            x=x.clone(),
            y=checks.wholes("y", labels_of_x, [len(x)], 0, classes - 1).clone(),
            classes=classes,
            name=checks.text("name", self.name),
            source=checks.text("source", self.source),
            licence=checks.text("licence", self.licence),
            labels=labels or tuple(map(str, range(classes))),
            shape=None if self.shape is None else image("shape", self.shape, x.shape[1]),
            part=None if self.part is None else checks.text("part", self.part),
            vocabulary=checks.texts("vocabulary", self.vocabulary),
            groups=checks.wholes("groups", groups, [len(x)], 0, max(len(names), 1) - 1).clone(),
            group_names=names,
            missing=missing.clone(),
        )

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        title = self.name if self.part is None else f"{self.name}, {self.part}"
        features = f"{self.x.shape[1]} features"
        if self.shape is not None:
            features += " = " + "x".join(map(str, self.shape))
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"Dataset({title}: {len(self)} samples, {features}, {self.classes} classes, {kind})"

    def subset(self, index: Tensor | np.ndarray | Sequence[int]) -> Dataset:
        """The samples at these positions, in that order."""
        return self._rows(checks.wholes("index", index, ["n"], 0, len(self) - 1).to(self.y.device))

    def _rows(self, keep: Tensor) -> Dataset:
        """The samples at positions, or under a mask."""
        groups, missing = self.groups[keep], self.missing[keep]
        return replace(self, x=self.x[keep], y=self.y[keep], groups=groups, missing=missing)

    def only_classes(self, classes: Sequence[int]) -> Dataset:
        """The samples of these classes, relabelled 0, 1, ... in the order given."""
        chosen = checks.wholes("classes", classes, ["n"], 0, self.classes - 1).tolist()
        count = len(chosen)
        if len(set(chosen)) != count:
            raise checks.refusal("classes", "different classes", chosen)
        # -1 marks the classes that are not chosen.
        new_label = torch.full((self.classes,), -1, device=self.y.device)
        new_label[chosen] = torch.arange(count, device=self.y.device)
        relabelled = new_label[self.y]
        inside = relabelled >= 0
        if not inside.any():
            raise ValueError(f"classes: no sample of {self.name} has one of the classes {chosen}")
        return replace(
            self._rows(inside),
            y=relabelled[inside],
            classes=count,
            labels=tuple(self.labels[label] for label in chosen),
        )

    def sha256(self) -> str:
        """Fingerprint of the samples: shape, type and bytes of x and y."""
        # Shape and type count, because the same bytes in another shape are other samples.
        title = f"{list(self.x.shape)} {self.x.dtype} {self.classes}"
        values = b"".join(part.detach().cpu().numpy().tobytes() for part in (self.x, self.y))
        return hashlib.sha256(title.encode() + values).hexdigest()


def image(name: str, shape: object, features: int | None = None) -> tuple[int, int, int]:
    """An image's (channels, height, width), checked; their product must be ``features``."""
    channels, height, width = checks.wholes(name, shape, [3], 1).tolist()
    if features not in (None, channels * height * width):
        raise ValueError(f"{name}: {shape} does not hold the {features} features of x")
    return channels, height, width
