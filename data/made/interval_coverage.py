"""How often intervals hold the truth: many simulated studies of values whose true mean is known.

    python data/made/interval_coverage.py        simulate, write both tables (a few minutes)

Every simulated study draws n seeds of a shape of values and makes two intervals of 95 %: Student's
t as it is usual, and that of ``fm.evidence.interval``. They are in data/coverage.csv. In
data/looks.csv, a study draws block after block and is looked at after each, on all its blocks, by
the rule at 1 - .05 / k for k blocks. The page *How we know* shows the tables, and a test draws a
part of them again with other luck.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedlab_mini.judge.student import strict, student
from fedlab_mini.keep.files import whole_file

FILE = Path(__file__).resolve().parents[2] / "data" / "coverage.csv"
LOOKS = FILE.with_name("looks.csv")
BLOCKS, BLOCK = 5, (5, 20)  # looks at a study; seeds in each of its blocks
SEEDS = (3, 5, 10, 20)
STUDIES = 20_000
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


def ties(share: float) -> Draw:
    """Differences of which that share is exactly zero: nothing changed in that seed."""

    def draw(chance: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        changed = np.clip(chance.normal(0.1, 0.1, size), -0.3, 0.5)
        return np.where(chance.random(size) < share, 0.0, changed)

    return draw


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
    "differences, 70 % of them exactly 0": Shape(ties(0.7), 0.03, -1, 1),
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
    "runs of which 15 % are disasters, none at an end": Shape(
        modes(0.15, 0.9, 0.3, 0.02), 0.81, 0, 1
    ),
    "differences, 90 % of them exactly 0": Shape(ties(0.9), 0.01, -1, 1),
}
HARD = ("lognormal", "differences, 70 % of them exactly 0", "55 % at 1, 43 % at .99, 2 % at 0")
HOPELESS = tuple(SHAPES)[-4:]  # no method sees what the seeds do not show
LOOKED_AT = ("normal", "beta(20, 1), as an AUC near .95", "lognormal", *HOPELESS[-2:])


def usual(draws: np.ndarray) -> Ends:
    """Student's t interval of every row."""
    seeds = draws.shape[1]
    arm = student(seeds) * draws.std(1, ddof=1) / math.sqrt(seeds)
    return draws.mean(1) - arm, draws.mean(1) + arm


def ours(draws: np.ndarray, low: float, high: float, level: float = 0.95) -> Ends:
    """The interval of every row by our rule, as ``evidence.interval`` makes it, all at once."""
    seeds, mean = draws.shape[1], draws.mean(1)
    arm = student(seeds, strict(level)) * draws.std(1, ddof=1) / math.sqrt(seeds)
    ends = np.stack([np.maximum(low, mean - arm), np.minimum(high, mean + arm)])
    at_an_end = (draws == low).sum(1) + (draws == high).sum(1)
    weight = np.clip(2 * at_an_end / seeds - 0.5, 0, 1)
    weight[np.ptp(draws, axis=1) == 0] = 1
    rows = np.flatnonzero(weight)
    for side, (end, share) in enumerate([(low, (1 - level) / 2), (high, (1 + level) / 2)]):
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


def looked_at(name: str, block: int, studies: int, luck: int) -> list[dict[str, float]]:
    """After 1, 2 ... blocks: shares of studies whose last look, or any look so far, missed."""
    shape = SHAPES[name]
    chance = np.random.default_rng([luck, list(SHAPES).index(name), block, BLOCKS])
    draws, missed, found = shape.draw(chance, (studies, block * BLOCKS)), 0, []
    for k in range(1, BLOCKS + 1):
        low, high = ours(draws[:, : block * k], shape.low, shape.high, 1 - 0.05 / k)
        now = (low > shape.mean + 1e-9) | (shape.mean - 1e-9 > high)
        missed = missed | now
        found.append({"blocks": k, "last": float(now.mean()), "any": float(missed.mean())})
    return found


def write(path: Path, rows: Iterable[dict[str, object]]) -> None:
    """A table of rounded shares."""
    rounded = [{k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
               for row in rows]  # fmt: skip
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rounded[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rounded)
    print(f"{path}: {STUDIES:,} studies a line")


def main() -> None:
    """Simulate everything and write the tables."""
    asked = [(name, seeds) for name in SHAPES for seeds in SEEDS]
    write(FILE, ({"values": name, "seeds": seeds, **simulated(name, seeds, STUDIES, luck=0)}
                 for name, seeds in asked))  # fmt: skip
    looks = [(name, block) for name in LOOKED_AT for block in BLOCK]
    write(LOOKS, ({"values": name, "seeds": block, **row} for name, block in looks
                  for row in looked_at(name, block, STUDIES, luck=0)))  # fmt: skip


if __name__ == "__main__":
    main()
