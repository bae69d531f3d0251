"""How often intervals hold the truth: many simulated studies of values whose true mean is known.

    python data/made/interval_coverage.py        simulate, write data/coverage.csv (a minute or two)

Every simulated study draws n seeds of a shape of values and makes two intervals of 95 %: Student's
t as it is usual, and that of ``fm.evidence.interval``. The page *How we know* shows the table, and
a test draws a part of it again with other luck.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedlab_mini.engine.files import whole_file
from fedlab_mini.judge.student import strict, student

FILE = Path(__file__).resolve().parents[2] / "data" / "coverage.csv"
SEEDS = (3, 5, 10, 20)
STUDIES = 20_000
COLUMNS = ("values", "seeds", "t", "rule", "width", "outside", "without width")
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Values that seeds might have: how to draw them, their true mean, and the range they have."""

    draw: Draw
    mean: float
    low: float = -math.inf
    high: float = math.inf


def modes(share: float, often: float, rarely: float, spread: float) -> Draw:
    """Two groups of runs: a share of them is of the rarer kind."""

    def draw(chance: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        centre = np.where(chance.random(size) < share, rarely, often)
        # Four standard deviations at most, so that accuracies stay accuracies.
        return centre + spread * np.clip(chance.standard_normal(size), -4, 4)

    return draw


def ties(chance: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Differences of which most are exactly zero: nothing changed in that seed."""
    changed = np.clip(chance.normal(0.1, 0.1, size), -0.3, 0.5)
    return np.where(chance.random(size) < 0.7, 0.0, changed)


def groups(*parts: tuple[float, float, float]) -> Draw:
    """A share of the runs in each group, uniform from the one end of the group to the other."""
    shares, starts, ends = map(np.array, zip(*parts, strict=True))

    def draw(chance: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        group = chance.choice(len(shares), size, p=shares)
        return starts[group] + (ends - starts)[group] * chance.random(size)

    return draw


def bernoulli(share: float) -> Shape:
    """1 with that share, 0 elsewhere."""
    return Shape(lambda chance, size: (chance.random(size) < share) * 1.0, share, 0, 1)


SHAPES = {
    "normal": Shape(lambda chance, size: chance.standard_normal(size), 0),
    "uniform": Shape(lambda chance, size: chance.random(size), 1 / 2, 0, 1),
    "exponential": Shape(lambda chance, size: chance.exponential(1, size), 1, 0),
    "lognormal": Shape(lambda chance, size: chance.lognormal(0, 1, size), math.exp(1 / 2), 0),
    "beta(20, 1), as an AUC near .95": Shape(
        lambda chance, size: chance.beta(20, 1, size), 20 / 21, 0, 1
    ),
    "differences, 70 % of them exactly 0": Shape(ties, 0.03, -1, 1),
    "0 or 1, half of them 1": bernoulli(0.5),
    "0 or 1, 90 % of them 1": bernoulli(0.9),
    "0 or 1, 98 % of them 1": bernoulli(0.98),
    "40 % at 1, 50 % near it, 10 % anywhere": Shape(
        groups((0.4, 1, 1), (0.5, 0.9, 1), (0.1, 0, 1)), 0.925, 0, 1
    ),
    "55 % at 1, 43 % at .99, 2 % at 0": Shape(
        groups((0.55, 1, 1), (0.43, 0.99, 0.99), (0.02, 0, 0)), 0.9757, 0, 1
    ),
    "two kinds of runs, 80 % and 20 %": Shape(modes(0.2, 0.9, 0.5, 0.02), 0.82, 0, 1),
    "runs of which 10 % collapse": Shape(modes(0.1, 0.9, 0.1, 0.02), 0.82, 0, 1),
}
HARD = ("lognormal", "differences, 70 % of them exactly 0", "55 % at 1, 43 % at .99, 2 % at 0")
HOPELESS = tuple(SHAPES)[-2:]  # no method sees what the seeds do not show


def usual(draws: np.ndarray) -> Ends:
    """Student's t interval of every row."""
    seeds = draws.shape[1]
    arm = student(seeds) * draws.std(1, ddof=1) / math.sqrt(seeds)
    return draws.mean(1) - arm, draws.mean(1) + arm


def ours(draws: np.ndarray, low: float, high: float) -> Ends:
    """The interval of every row by our rule, as ``evidence.interval`` makes it, all at once."""
    seeds, mean = draws.shape[1], draws.mean(1)
    arm = student(seeds, strict(0.95)) * draws.std(1, ddof=1) / math.sqrt(seeds)
    ends = np.stack([np.maximum(low, mean - arm), np.minimum(high, mean + arm)])
    at_an_end = (draws == low).sum(1) + (draws == high).sum(1)
    weight = np.clip(2 * at_an_end / seeds - 0.5, 0, 1)
    weight[np.ptp(draws, axis=1) == 0] = 1
    rows = np.flatnonzero(weight)
    for side, (end, share) in enumerate([(low, 0.025), (high, 0.975)]):
        if len(rows) and math.isfinite(end):
            crowded = imagined(draws[rows], end, share)
            ends[side, rows] += weight[rows] * (crowded - ends[side, rows])
    return ends[0], ends[1]


def imagined(draws: np.ndarray, end: float, share: float) -> np.ndarray:
    """``imagined.bound`` of every row, all at once."""
    points = np.sort(np.column_stack([draws, np.full(len(draws), end)]))
    points, back = np.unique(points, axis=0, return_inverse=True)
    low, high = points[:, 0].copy(), points[:, -1].copy()
    for _ in range(50):
        middle = (low + high) / 2
        gaps = np.maximum(points - middle[:, None], 0)
        part = [np.ones(len(points)), *np.zeros((points.shape[1], len(points)))]
        for point in points.T:
            below = middle - point
            for k, gap in enumerate(gaps.T, start=1):
                whole = np.where(below >= 0, np.maximum(below + gap, 1e-300), 1)
                moved = (below * part[k - 1] + gap * part[k]) / whole
                part[k] = np.where(below >= 0, moved, part[k])
        rising = part[-1] < share
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return ((low + high) / 2)[back.ravel()]


def simulated(name: str, seeds: int, studies: int, luck: int) -> dict[str, float]:
    """Of so many studies: the shares that either interval covers, and how their widths compare."""
    shape = SHAPES[name]
    chance = np.random.default_rng([luck, list(SHAPES).index(name), seeds])
    draws = shape.draw(chance, (studies, seeds))
    (t_low, t_high), (low, high) = usual(draws), ours(draws, shape.low, shape.high)
    hair = 1e-9  # a mean is a sum, and a sum rounds
    return {
        "t": float(((t_low <= shape.mean + hair) & (shape.mean - hair <= t_high)).mean()),
        "rule": float(((low <= shape.mean + hair) & (shape.mean - hair <= high)).mean()),
        "width": float((high - low).mean() / (t_high - t_low).mean()),
        "outside": float(((low < shape.low) | (high > shape.high)).mean()),
        "without width": float((high - low <= 0).mean()),
    }


def main() -> None:
    """Simulate everything and write the table."""
    with whole_file(FILE) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name in SHAPES:
            for seeds in SEEDS:
                found = simulated(name, seeds, STUDIES, luck=0)
                rounded = {key: round(value, 4) for key, value in found.items()}
                writer.writerow({"values": name, "seeds": seeds, **rounded})
    print(f"{FILE}: {STUDIES:,} studies a line")


if __name__ == "__main__":
    main()
