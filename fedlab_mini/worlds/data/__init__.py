"""Data: labelled samples by name. `load("digits")` gives a `Dataset`; chapter 1 begins with one.

"digits", "mnist5k", "sms-synthetic" and "heart" come with the package. Other sets are in the folder
that FEDLAB_DATA names, or in the user's cache, and are checked by SHA-256. `python -m fedlab_mini
data list` shows which sets are present.
"""

from __future__ import annotations

import numpy as np
import torch

from ...parse import checks
from . import images
from .dataset import Dataset
from .heart import heart
from .registry import CARDS, Card, card
from .store import DataUnavailable, fetch, folder
from .text import messages

MESSAGES = ("sms-synthetic", "sms")
READERS = {
    "digits": images.digits,
    "mnist5k": images.mnist5k,
    "mnist": images.mnist,
    "emnist-letters": images.emnist_letters,
    "cifar10": images.cifar10,
}

__all__ = ["CARDS", "DataUnavailable", "Dataset", "fetch", "folder", "load"]


def load(
    name: str,
    *,
    part: str | None = None,
    dtype: torch.dtype = torch.float32,
    features: str | None = None,
    vocabulary: int | None = None,
) -> Dataset:
    """A data set by name; it never downloads anything.

    name        "digits", "mnist5k", "sms-synthetic", "heart" (embedded); "mnist", "emnist-letters",
                "sms", "cifar10" (real sets, see `folder`)
    part        "train" (default), "test" or "all" for sets with an official split, else None
    dtype       floating type of the inputs
    features    for messages: "bag-of-words" (default) or "tokens"; see `text.rows_of`
    vocabulary  for messages: how many words are kept (default 500, for tokens 1000)
    raises      TypeError or ValueError naming the argument; `DataUnavailable` if a file is missing
                or wrong
    """
    data_card = card(name)
    checks.floating("dtype", dtype)
    part = _checked_part(data_card, part)
    if data_card.name in MESSAGES:
        return messages(data_card, features, vocabulary, dtype)
    for argument, value in (("features", features), ("vocabulary", vocabulary)):
        if value is not None:
            raise ValueError(f"{argument}: only for sets of messages, but {name} holds none")
    if name == "heart":
        return heart(data_card, dtype)
    return _image_dataset(data_card, part, dtype)


def _checked_part(data_card: Card, part: str | None) -> str | None:
    if "train" not in data_card.counts:
        if part is not None:
            raise ValueError(f"part: {data_card.name} has no official split; got {part!r}")
        return None
    return "train" if part is None else checks.choice("part", part, ("train", "test", "all"))


def _image_dataset(data_card: Card, part: str | None, dtype: torch.dtype) -> Dataset:
    read = READERS[data_card.name]
    parts = ("train", "test") if part == "all" else (part,)
    arrays = [read(data_card, each) for each in parts]
    # [N, ...] -> [N, d] in each part, then the parts in one array
    pixels = np.concatenate([images.reshape(len(images), -1) for images, _ in arrays])
    labels = np.concatenate([labels for _, labels in arrays])
    # Pixels in [0, 1]; scikit-learn's digits have 17 shades of grey.
    brightest = 16 if data_card.name == "digits" else 255
    x = torch.from_numpy(pixels).to(dtype).div_(brightest)
    return data_card.dataset(x, torch.from_numpy(labels.astype(np.int64)), part=part)
