"""Images: read the digit, letter and CIFAR-10 sets into arrays, pixels as bytes."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from .registry import Card
from .store import DataUnavailable, in_use, verified

Arrays = tuple[np.ndarray, np.ndarray]  # images [N, ...], labels [N]


def digits(card: Card, part: str | None) -> Arrays:
    """scikit-learn's digits: images [1797, 8, 8] with values 0..16."""
    bunch = load_digits()
    return bunch.images, bunch.target


def mnist5k(card: Card, part: str | None) -> Arrays:
    """The embedded MNIST images: [5000, 28, 28] bytes."""
    with np.load(verified(card, card.files[0]), allow_pickle=False) as arrays:
        return arrays["x"], arrays["y"]


def mnist(card: Card, part: str | None) -> Arrays:
    """MNIST, one part: [N, 28, 28] bytes."""
    images, labels = card.files[:2] if part == "train" else card.files[2:]
    return _idx(verified(card, images)), _idx(verified(card, labels))


def emnist_letters(card: Card, part: str | None) -> Arrays:
    """EMNIST letters, one part: [N, 28, 28] bytes, upright; labels 0..25.

    The files hold transposed images and labels 1..26.
    """
    images, labels = mnist(card, part)
    return images.transpose(0, 2, 1), labels - 1


def cifar10(card: Card, part: str | None) -> Arrays:
    """The first 4,000 training or 1,000 test images of CIFAR-10: [N, 3, 32, 32] bytes.

    From the subset file or from the two binary batches, whichever is on the search path: the same
    arrays, checked by their own hashes.
    """
    if in_use(card) == card.accepts:
        with np.load(verified(card, card.accepts[0]), allow_pickle=False) as arrays:
            images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    else:
        images, labels = _cifar_batch(card, part)
    for name, array in ((f"x_{part}", images), (f"y_{part}", labels)):
        found, expected = hashlib.sha256(array.tobytes()).hexdigest(), card.arrays[name]
        if found != expected:
            raise DataUnavailable(
                f"cifar10: array {name} differs from the registry.\n"
                f"  expected SHA-256  {expected}\n  found SHA-256     {found}"
            )
    return images.transpose(0, 3, 1, 2), labels


def _cifar_batch(card: Card, part: str | None) -> Arrays:
    """A record is a label byte, then 32 x 32 bytes of red, of green, of blue."""
    file = card.files[0] if part == "train" else card.files[1]
    count = card.counts["train" if part == "train" else "test"]
    records = np.fromfile(verified(card, file), np.uint8, count * 3073).reshape(count, 3073)
    images = records[:, 1:].reshape(count, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0]


def _idx(path: Path) -> np.ndarray:
    """The idx format: two zero bytes, type 8 (bytes), number of axes, big-endian sizes, values."""
    with gzip.open(path) as stream:
        content = stream.read()
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
