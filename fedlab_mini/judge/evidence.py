"""Evidence: from one number per seed to a statement. Every comparison in the book uses it.

Builds on imagined, student and checks. One rule gives all intervals. The page *How we know*
explains the rule and compares its coverage with that of the usual t interval:

- If all seeds agree, one more seed is imagined at the far end of the possible range.
- If no value is exactly at an end of the range, it is Student's t interval at a fifth of the
  allowed error, cut to the range. A stated 95 % is then 99 % for normal values, and about 95 % for
  most skewed values.
- Otherwise, the ends of both intervals are mixed: the more values are at an end, the more the
  imagined seed counts (if all values are 0 or 1, the result is Clopper and Pearson's interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..parse import checks
from .imagined import bound
from .student import seeds_needed as seeds_needed
from .student import strict, visible
from .student import student as student

Values = Tensor | Sequence[float]
# Rounding alone may part values by so many units in the last digit of the largest, in their type.
UNITS = 4
# Values count as at an end if they are closer to it than this share of the range (of the largest
# value, if the range is infinite): most have been computed in float32.
NEAR = 1e-6
LARGEST = 1e150  # the square of a larger value would overflow
INF = math.inf


def decimals(low: float, high: float, usual: int = 2) -> int:
    """How many decimals an interval needs.

    A narrow interval needs more than usual, or its ends would look equal; a wide one needs fewer.
    An end that is not 0 must not look like 0, because it matters on which side of 0 it lies.
    """
    width = high - low
    if not 0 < width < INF:
        return usual
    # The first decimal at which the ends differ.
    first = math.ceil(-math.log10(width / 2))
    digits = 0 if width >= 20 else 1 if width >= 4 else min(6, max(usual, first))
    tried = range(digits, usual + 3) if digits >= usual else ()
    clear = (d for d in tried if not looks_zero(low, d) and not looks_zero(high, d))
    return next(clear, digits)


def looks_zero(number: float, digits: int) -> bool:
    """Is a number printed as 0 although it is not 0?"""
    return number != 0 and round(number, digits) == 0


class Interval(NamedTuple):
    """A mean over seeds, and an interval that covers the true mean with probability ``level``."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        if self.high - self.low == INF:
            return f"{self.mean:.2f} (all {self.n} seeds agree)"
        digits = decimals(self.low, self.high)
        mean, low, high = (f"{value:.{digits}f}" for value in self[:3])
        return f"{mean} [{low}, {high}]"

    def above(self, bound: float) -> bool:
        """Is the whole interval above ``bound``?"""
        return self.low > bound

    def below(self, bound: float) -> bool:
        """Is the whole interval below ``bound``?"""
        return self.high < bound

    def within(self, low: float, high: float) -> bool:
        """Is the whole interval inside [low, high]? Two methods are equal only up to a width."""
        return low <= self.low and self.high <= high


class Count(Interval):
    """For how many seeds something is true; mean, low and high are those of the true share."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{round(self.mean * self.n) or 'none'} of {self.n} seeds"

    def could(self, level: float = 0.95) -> str:
        """What the seeds leave open: "none of 5; up to 45 % of seeds could", 1 - error^(1/n)."""
        error = 1 - checks.number("level", level, low=0, high=1, ends="()")
        number = round(self.mean * self.n)
        if 0 < number < self.n:
            open_ends = f"{100 * self.low:.0f} to {100 * self.high:.0f} % of seeds could"
            return f"{number} of {self.n}; {open_ends}"
        unseen = f"up to {100 * (1 - error ** (1 / self.n)):.0f} % of seeds could"
        return f"{number or 'none'} of {self.n}; {unseen}{' not' if number else ''}"


def interval(
    values: Values, level: float = 0.95, *, low: float = -INF, high: float = INF
) -> Interval:
    """Mean of one value per seed, with an interval for the true mean (see the rule in this file).

    values     [n]  at least 2; they count as independent samples, as different seeds are
    level      probability of covering the true mean, .95
    low, high  the range of the metric, such as 0 and 1; infinite if an end is unknown. If all
               seeds agree and an end is infinite, the interval has no bound on that side
    raises     ValueError naming the argument
    """
    usual, crowded, weight = _both(values, level, low, high)
    ends = [_mixed(*pair, weight) for pair in zip(usual[1:3], crowded[1:3], strict=True)]
    return usual._replace(low=ends[0], high=ends[1])


def _both(
    values: Values, level: float, low: float, high: float
) -> tuple[Interval, Interval, float]:
    """The interval by t, the one by an imagined seed, and the weight of the latter."""
    per_seed = _checked("values", values, low, high)
    if len(per_seed) < 2:
        raise checks.refusal("values", "one value per seed, 2 or more", len(per_seed))
    level = checks.number("level", level, low=0, high=1, ends="()")
    n, mean = len(per_seed), math.fsum(per_seed) / len(per_seed)
    arm = student(n, strict(level)) * _spread(per_seed) / math.sqrt(n)
    # A mean of values in the range lies in the range.
    usual = Interval(mean, max(low, mean - arm), min(high, mean + arm), n)
    agree = min(per_seed) == max(per_seed)
    # The weight grows from 0, with a quarter of the seeds at an end, to 1, with three quarters. So
    # one seed changes it by 2 / n at most, until all agree.
    at_an_end = per_seed.count(low) + per_seed.count(high)
    weight = 1.0 if agree else min(max(2 * at_an_end / n - 0.5, 0.0), 1.0)
    if weight == 0:
        return usual, usual, weight
    # No seed can be imagined at an infinite end: t's end is kept there if the seeds differ.
    start, stop = (
        bound(per_seed, end, share) if math.isfinite(end) else end if agree else other
        for end, share, other in (
            (low, (1 - level) / 2, usual.low),
            (high, (1 + level) / 2, usual.high),
        )
    )
    return usual, usual._replace(low=start, high=stop), weight


def _mixed(usual: float, crowded: float, weight: float) -> float:
    return crowded if weight == 1 else (1 - weight) * usual + weight * crowded


def paired(
    a: Values, b: Values, level: float = 0.95, *, low: float = -INF, high: float = INF
) -> Interval:
    """The interval of a - b, seed by seed: effects that both share in a seed cancel.

    a, b [n]   one value per seed each, in the same order of seeds; two pandas columns are matched
               by their index
    low, high  the range of the metric; the range of the difference is twice as wide
    """
    seeds = checks.ids_of(a)
    b = b if seeds is None else checks.by_id("b", b, seeds)
    first, second = _checked("a", a, low, high), _checked("b", b, low, high)
    if len(first) != len(second):
        raise checks.refusal("b", f"one value for each of the {len(first)} seeds of a", len(second))
    differences = [one - other for one, other in zip(first, second, strict=True)]
    differences = _as_one(differences, _rounding("a", a) + _rounding("b", b))
    return interval(differences, level, low=low - high, high=high - low)


def count(values: Values, level: float = 0.95) -> Count:
    """For how many seeds something is true; values [n], 1 if it is true and 0 if not."""
    per_seed = _checked("values", values, 0, 1)
    if not set(per_seed) <= {0.0, 1.0}:
        raise checks.refusal("values", "0 or 1 per seed", per_seed)
    return Count(*interval(per_seed, level, low=0, high=1))


def words(difference: Interval) -> str:
    """The word that an interval of a difference allows: "higher", "lower" or "not shown"."""
    found = checks.instance("difference", difference, Interval, "fm.evidence.paired(a, b)")
    return "higher" if found.above(0) else "lower" if found.below(0) else "not shown"


def detectable(
    values: Values, level: float = 0.95, power: float = 0.8, *, low: float = -INF, high: float = INF
) -> float:
    """The true difference that as many seeds with this spread would have shown, with that power.

    values     [n]  differences per seed, taken as normal (noncentral t). To the degree that the
               interval uses an imagined seed, its longer arm is used instead, as a guide
    low, high  the range of the differences, if it is known
    """
    _, (mean, start, end, n), weight = _both(values, level, low, high)
    seen = visible(n, level, power) * _spread(_checked("values", values, low, high))
    return _mixed(seen, max(end - mean, mean - start), weight)


def _checked(name: str, values: Values, low: float, high: float) -> list[float]:
    """One value per seed, in the range; values that differ by rounding only are made equal."""
    low, high = checks.span(low, high)
    rounding = _rounding(name, values)
    given = checks.reals(name, values, ["seeds"], dtype=torch.float64).cpu().tolist()
    size = high - low if math.isfinite(high - low) else max(map(abs, given), default=0.0)
    room = NEAR * size
    per_seed = []
    for value in _as_one(given, rounding):
        if abs(value) > LARGEST or not low - room <= value <= high + room:
            ends = f"[{max(low, -LARGEST):g}, {min(high, LARGEST):g}]"
            raise checks.refusal(name, f"values in {ends}", value)
        near = (end for end in (low, high) if abs(value - end) <= room)
        per_seed.append(next(near, value))
    return per_seed


def _rounding(name: str, values: Values) -> float:
    """How far apart rounding alone may put values of this size and type."""
    numbers = checks.array(name, values, ["seeds"])
    kind = numbers.dtype if numbers.is_floating_point() else torch.float64
    return UNITS * torch.finfo(kind).eps * float(numbers.abs().max())


def _as_one(per_seed: list[float], rounding: float) -> list[float]:
    """The values; if they differ by rounding only, each is the middle one."""
    if max(per_seed) - min(per_seed) > rounding:
        return per_seed
    return [sorted(per_seed)[len(per_seed) // 2]] * len(per_seed)


def _spread(per_seed: Sequence[float]) -> float:
    return float(torch.tensor(per_seed, dtype=torch.float64).std())
