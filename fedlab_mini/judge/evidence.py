"""Evidence: from one number a seed to a statement. Every comparing sentence of the book rests here.

Below: nothing of the package but checks. Intervals are Student's t: a study has five or ten seeds,
and with so few the percentile bootstrap covers too rarely (about .83 of the time instead of .95 at
five seeds; tests/unit/test_evidence.py simulates both).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from scipy import stats
from torch import Tensor

from .. import checks

Values = Tensor | Sequence[float]


class Interval(NamedTuple):
    """A mean over seeds and the interval that covers the true mean with probability ``level``."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        digits = 2 if self.high - self.low >= 0.02 or self.high == self.low else 3
        mean, low, high = (f"{x:.{digits}f}" for x in self[:3])
        return f"{mean} [{low}, {high}]"

    def above(self, bound: float) -> bool:
        """Is the whole interval above ``bound``?"""
        return self.low > bound

    def below(self, bound: float) -> bool:
        """Is the whole interval below ``bound``?"""
        return self.high < bound


def interval(values: Values, level: float = 0.95) -> Interval:
    """Mean of one value a seed with Student's interval, mean -+ t(n - 1) s / sqrt(n).

    values [n]  at least 2; they count as independent draws, as different seeds are
    level       probability of covering the true mean, .95; exact for normal values, and for the
                skewed or bounded ones of this book measured in tests/unit/test_evidence.py
    raises      ValueError naming the argument              source  [Student 1908]
    """
    x = checks.reals("values", values, ["seeds"], dtype=torch.float64).cpu()
    level = checks.number("level", level, low=0, high=1, ends="()")
    if len(x) < 2:
        raise ValueError(f"values: expected one value a seed, 2 or more, got {len(x)}")
    mean, error = float(x.mean()), float(x.std()) / math.sqrt(len(x))
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1)) * error
    return Interval(mean, mean - half, mean + half, len(x))


def paired(a: Values, b: Values, level: float = 0.95) -> Interval:
    """The interval of a - b, seed by seed: what both sides share in a seed cancels.

    a, b [n]  one value a seed each, in the same order of seeds
    """
    x, y = (
        checks.reals(name, v, ["seeds"], dtype=torch.float64) for name, v in (("a", a), ("b", b))
    )
    if len(x) != len(y):
        raise ValueError(f"b: expected one value for each of the {len(x)} seeds of a, got {len(y)}")
    return interval(x - y, level)


def words(difference: Interval | Iterable[Any]) -> str:
    """The verb that an interval of a difference allows: "higher", "lower" or "not shown"."""
    if not isinstance(difference, Interval):
        raise TypeError(f"difference: expected fm.paired(a, b), got {checks.shown(difference)}")
    if difference.above(0):
        return "higher"
    return "lower" if difference.below(0) else "not shown"
