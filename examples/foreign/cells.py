"""What every adapter reads and writes; runs in an environment of its own, with NumPy alone.

A cell is the recorded training run of one scenario and seed of the bench, with the worths of all
coalitions in each round. An adapter is a function from a cell to {score: one number a client}.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

HIDDEN = 32  # units of the network's hidden layer


class Cell:
    """The rounds of one scenario and seed; all clients take part in every round.

    worths  [T, 2^n] minus the loss of the round's model with the updates of S only, weighted by
            size; bit k of the position says whether client k is in S; position 0: no update
    plain   [T, 2^n] the same with equal weights
    theta [T, P], updates [T, n, P], sizes [n]    x, y  the server's samples
    """

    def __init__(self, path: Path):
        with np.load(path) as held:
            self.name, self.seed = str(held["name"]), int(held["seed"])
            self.worths, self.plain = held["worths"], held["plain"]
            self.theta, self.updates, self.sizes = held["theta"], held["updates"], held["sizes"]
            self.x, self.y = held["x"], held["y"]
        self.clients = len(self.sizes)

    def games(self, plain: bool = False) -> Iterator[Callable[..., float]]:
        """Each round's gain as a function of the members: ``v([0, 3])``; 0 without members."""
        for table in self.plain if plain else self.worths:
            gains = (table - table[0]).tolist()
            yield lambda members, gains=gains: gains[sum(1 << int(k) for k in members)]

    def layers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """A vector of parameters [P] as weights and biases of the two layers."""
        inputs = self.x.shape[1]
        classes = (parameters.size - HIDDEN * (inputs + 1)) // (HIDDEN + 1)
        shapes = ((HIDDEN, inputs), (HIDDEN,), (classes, HIDDEN), (classes,))
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        parts = np.split(parameters, ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def accuracy(self, parameters: np.ndarray) -> float:
        """The share of the server's samples that a model gets right."""
        first, bias, last, shift = self.layers(parameters)
        outputs = np.maximum(self.x @ first.T + bias, 0) @ last.T + shift
        return float((outputs.argmax(1) == self.y).mean())


def main(adapter: Callable[[Cell], dict[str, list[float]]]) -> None:
    """``python NAME.py CELLS OUT``: the scores of every cell that the file CELLS lists, as JSON."""
    scores, began = {}, time.process_time()
    for line in Path(sys.argv[1]).read_text().splitlines():
        cell = Cell(Path(line))
        random.seed(cell.seed)
        np.random.seed(cell.seed)  # noqa: NPY002 (the generator that the projects draw from)
        with contextlib.redirect_stdout(io.StringIO()):  # some print every ordering
            found = adapter(cell)
        for name, values in found.items():
            numbers = [float(value) for value in values]
            scores.setdefault(name, []).append([cell.name, cell.seed, numbers])
    held = {"scores": scores, "seconds": time.process_time() - began}
    Path(sys.argv[2]).write_text(json.dumps(held))
