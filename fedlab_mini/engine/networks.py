"""Networks: the book's own models, perceptrons and a small convolutional network.

Chapter 1 uses perceptrons, chapter 6 the convolutional one. They are PyTorch's layers in a
row, with two differences: rows of pixels become images, stored channels last, and weights are drawn
when a training run begins (``Model.init``), not when the model is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..streams import LOCK
from .model import Model


class Images(nn.Module):
    """Turns rows ``[N, d]`` into images ``[N, channels, height, width]``, stored channels last.

    Images of this shape are accepted; others, such as images with channels last, are refused.
    """

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.shape = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        # A side of 1 may be left out or stand elsewhere: no number moves.
        sides = [side for side in x.shape[1:] if side > 1]
        if x.ndim > 2 and sides != [side for side in self.shape if side > 1]:
            raise ValueError(f"expected images {[*self.shape]} or rows, got {[*x.shape[1:]]}")
        images = x.reshape(len(x), *self.shape)
        # One channel is first and last; ``vmap`` cannot be asked for either.
        if self.shape[0] == 1:
            return images
        return images.contiguous(memory_format=torch.channels_last)


def _ours(module: nn.Module) -> Model:
    """A model whose module the package has made, so that no weights of a user can be lost."""
    net = Model(module)
    net._ours = True
    return net


def mlp(*widths: int) -> Model:
    """A multilayer perceptron: ``mlp(64, 32, 10)`` has 64 inputs, 32 ReLU units, 10 classes."""
    parts: list[nn.Module] = []
    with LOCK:  # new layers draw their weights from the global generator
        for inputs, outputs in itertools.pairwise(widths):
            parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return _ours(nn.Sequential(*parts[:-1]))


def logistic(inputs: int, classes: int) -> Model:
    """Multinomial logistic regression: one Linear layer."""
    return mlp(inputs, classes)


def cnn(
    shape: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    *,
    channels: Sequence[int] = (16, 32),
    kernel: int = 5,
    hidden: int = 256,
) -> Model:
    """A small convolutional network on rows of pixels: (conv, ReLU, max-pool) twice, then dense.

    shape     (channels, height, width) of an image; the defaults fit MNIST as FLDVE uses it
    channels  maps of the convolutions; kernel  their side; hidden  units of the dense layer
    raises    ValueError if the image is too small for two poolings
    """
    depth, height, width = shape
    even = 1 - kernel % 2  # with this padding an even kernel adds one row and one column
    parts: list[nn.Module] = [Images((depth, height, width))]
    with LOCK:
        for maps in channels:
            convolution = nn.Conv2d(depth, maps, kernel, padding=kernel // 2)
            parts += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
            depth, height, width = maps, (height + even) // 2, (width + even) // 2
        if height < 1 or width < 1:
            raise ValueError(f"shape: {tuple(shape)} is too small for {len(channels)} poolings")
        parts += [nn.Flatten(), nn.Linear(depth * height * width, hidden), nn.ReLU()]
        return _ours(nn.Sequential(*parts, nn.Linear(hidden, classes)))
