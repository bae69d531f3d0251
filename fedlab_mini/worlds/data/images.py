"""Images: read the digit, letter and CIFAR-10 sets into arrays, pixels as bytes."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np

from .registry import Card
from .store import DataUnavailable, in_use, verified

Arrays = tuple[np.ndarray, np.ndarray]  # images [N, ...], labels [N]


def digits(card: Card, part: str | None) -> Arrays:
    """scikit-learn's digits: images [1797, 8, 8] with values 0..16."""
    from sklearn.datasets import load_digits  # here, since it takes a second to import

    bunch = load_digits()
    return bunch.images, bunch.target


def mnist5k(card: Card, part: str | None) -> Arrays:
    """The embedded MNIST images: [5000, 28, 28] bytes."""
    path = verified(card, card.files[0])
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["x"], arrays["y"]


def mnist(card: Card, part: str | None) -> Arrays:
    """MNIST, one part: [N, 28, 28] bytes."""
    # The registry lists images and labels of the training part, then those of the test part.
    images_file, labels_file = card.files[:2] if part == "train" else card.files[2:]
    return _idx(verified(card, images_file)), _idx(verified(card, labels_file))


def emnist_letters(card: Card, part: str | None) -> Arrays:
    """EMNIST letters, one part: [N, 28, 28] bytes, upright; labels 0..25.

    The files hold transposed images and labels 1..26.
    """
    images, labels = mnist(card, part)
    return images.transpose(0, 2, 1), labels - 1


def cifar10(card: Card, part: str | None) -> Arrays:
    """The first 4,000 training or 1,000 test images of CIFAR-10: [N, 3, 32, 32] bytes.

    The arrays come from the subset file or from the two binary batches. Both give the same arrays,
    which are checked by hashes.
    """
    images_name, labels_name = f"x_{part}", f"y_{part}"
    if in_use(card) == card.accepts:
        subset = verified(card, card.accepts[0])
        with np.load(subset, allow_pickle=False) as arrays:
            images, labels = arrays[images_name], arrays[labels_name]
    else:
        images, labels = _cifar_batch(card, part)
    # Hashes ensure that both sources give the same arrays.
    for name, array in ((images_name, images), (labels_name, labels)):
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        expected = card.arrays[name]
        if digest != expected:
            raise DataUnavailable(
                f"cifar10: array {name} differs from the registry.\n"
                f"  expected SHA-256  {expected}\n  found SHA-256     {digest}"
            )
    # [N, 32, 32, 3], which is hashed -> [N, 3, 32, 32], which data sets use
    return images.transpose(0, 3, 1, 2), labels


def _cifar_batch(card: Card, part: str | None) -> Arrays:
    """A batch of records; each is a label byte, then 32 x 32 bytes of red, of green, of blue."""
    path = verified(card, card.files[0 if part == "train" else 1])
    record = np.dtype([("label", np.uint8), ("image", np.uint8, (3, 32, 32))])
    records = np.fromfile(path, record, card.counts[str(part)])
    # [N, 3, 32, 32] -> [N, 32, 32, 3], as in the subset file
    return records["image"].transpose(0, 2, 3, 1), records["label"]


def _idx(path: Path) -> np.ndarray:
    """The idx format: two zero bytes, type 8 (bytes), number of axes, big-endian sizes, values."""
    content = gzip.decompress(path.read_bytes())
    # The fourth byte is the number of axes; each has a four-byte size.
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, offset=4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    return values.reshape(shape)
