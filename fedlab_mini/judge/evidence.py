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
from scipy import special
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
        width = self.high - self.low
        # A narrow interval needs a third digit; one without width has nothing to show there.
        digits = 3 if 0 < width < 0.02 else 2
        mean, low, high = (f"{value:.{digits}f}" for value in self[:3])
        return f"{mean} [{low}, {high}]"

    def above(self, bound: float) -> bool:
        """Is the whole interval above ``bound``?"""
        return self.low > bound

    def below(self, bound: float) -> bool:
        """Is the whole interval below ``bound``?"""
        return self.high < bound


def student(count: int, level: float = 0.95) -> float:
    """The quantile of Student's distribution for the mean of ``count`` independent values."""
    # scipy.stats has the same number, but takes a second to import.
    return float(special.stdtrit(count - 1, (1 + level) / 2))


def interval(values: Values, level: float = 0.95) -> Interval:
    """Mean of one value a seed with Student's interval, mean -+ t(n - 1) s / sqrt(n).

    values [n]  at least 2; they count as independent draws, as different seeds are
    level       probability of covering the true mean, .95; exact for normal values, and for the
                skewed or bounded ones of this book measured in tests/unit/test_evidence.py
    raises      ValueError naming the argument              source  [Student 1908]
    """
    per_seed = checks.reals("values", values, ["seeds"], dtype=torch.float64).cpu()
    level = checks.number("level", level, low=0, high=1, ends="()")
    count = len(per_seed)
    if count < 2:
        raise ValueError(f"values: expected one value a seed, 2 or more, got {count}")
    mean = float(per_seed.mean())
    standard_error = float(per_seed.std()) / math.sqrt(count)
    half_width = student(count, level) * standard_error
    return Interval(mean, mean - half_width, mean + half_width, count)


def paired(a: Values, b: Values, level: float = 0.95) -> Interval:
    """The interval of a - b, seed by seed: what both sides share in a seed cancels.

    a, b [n]  one value a seed each, in the same order of seeds
    """
    first = checks.reals("a", a, ["seeds"], dtype=torch.float64)
    second = checks.reals("b", b, ["seeds"], dtype=torch.float64)
    if len(first) != len(second):
        expected = f"one value for each of the {len(first)} seeds of a"
        raise ValueError(f"b: expected {expected}, got {len(second)}")
    return interval(first - second, level)


def words(difference: Interval | Iterable[Any]) -> str:
    """The verb that an interval of a difference allows: "higher", "lower" or "not shown"."""
    checks.instance("difference", difference, Interval, "fm.evidence.paired(a, b)")
    assert isinstance(difference, Interval)
    if difference.above(0):
        return "higher"
    return "lower" if difference.below(0) else "not shown"
