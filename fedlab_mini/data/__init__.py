"""Data: labelled samples by name. `load("digits")` gives a `Dataset`; chapter 1 begins with one.

Embedded sets need no download: "digits", "mnist5k", "sms-synthetic". Real sets are found on a
search path and checked by SHA-256; `python -m fedlab_mini.data list` shows what is there.
"""

from __future__ import annotations

import numpy as np
import torch

from . import images
from .dataset import Dataset
from .fetch import fetch
from .registry import CARDS, Card, card
from .sms import synthetic_sms
from .store import DataUnavailable, roots
from .text import read_sms, text_dataset

__all__ = [
    "CARDS",
    "DataUnavailable",
    "Dataset",
    "fetch",
    "load",
    "roots",
    "synthetic_sms",
    "text_dataset",
]


def load(
    name: str,
    *,
    part: str | None = None,
    dtype: torch.dtype = torch.float32,
    features: str | None = None,
    vocabulary: int | None = None,
) -> Dataset:
    """A data set by name; never downloads.

    name        "digits", "mnist5k", "sms-synthetic" (embedded); "mnist", "emnist-letters", "sms",
                "cifar10" (real sets on the search path)
    part        "train" (default), "test" or "all", for sets with an official split; else None
    dtype       floating type of the inputs
    features    for messages: "bag-of-words" (default) or "tokens"; see `text_dataset`
    vocabulary  for messages: how many words are kept (default 500, for tokens 1000)
    raises      ValueError naming the argument; `DataUnavailable` if a file is missing or wrong
    """
    chosen = card(name)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype: expected a floating-point torch.dtype, got {dtype!r}")
    part = _part(chosen, part)
    if chosen.shape is None:
        messages = synthetic_sms() if name == "sms-synthetic" else read_sms(chosen)
        return text_dataset(
            messages,
            features=features or "bag-of-words",
            vocabulary=vocabulary,
            dtype=dtype,
            name=name,
            source=chosen.source,
            licence=chosen.licence,
        )
    for argument, value in (("features", features), ("vocabulary", vocabulary)):
        if value is not None:
            raise ValueError(f"{argument}: {name} holds images; only sets of messages take it")
    return _image_dataset(chosen, part, dtype)


def _part(chosen: Card, part: str | None) -> str | None:
    if "train" not in chosen.counts:
        if part is not None:
            raise ValueError(f"part: {chosen.name} has no official split; got {part!r}")
        return None
    part = "train" if part is None else part
    if part not in ("train", "test", "all"):
        raise ValueError(f'part: expected "train", "test" or "all", got {part!r}')
    return part


def _image_dataset(chosen: Card, part: str | None, dtype: torch.dtype) -> Dataset:
    pieces = [_arrays(chosen, p) for p in (("train", "test") if part == "all" else (part,))]
    bright = 16 if chosen.name == "digits" else 255
    pixels = np.concatenate([x.reshape(len(x), -1) for x, _ in pieces])
    labels = np.concatenate([y for _, y in pieces])
    return Dataset(
        torch.from_numpy(pixels).to(dtype).div_(bright),
        torch.from_numpy(labels.astype(np.int64)),
        len(chosen.labels),
        name=chosen.name,
        source=chosen.source,
        licence=chosen.licence,
        labels=chosen.labels,
        shape=chosen.shape,
        part=part,
    )


def _arrays(chosen: Card, part: str | None) -> images.Arrays:
    if chosen.name == "digits":
        return images.digits()
    if chosen.name == "mnist5k":
        return images.mnist5k(chosen)
    read = {
        "mnist": images.mnist,
        "emnist-letters": images.emnist_letters,
        "cifar10": images.cifar10,
    }[chosen.name]
    return read(chosen, part)
