"""Claims: tests of sentences on stored rows, from "is higher" to "is not shown to differ".

A test takes a study's results and returns the verdict and what was measured. Below: study.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from torch import Tensor

from fedlab_mini.judge.evidence import interval, paired

from .study import FAILS, HOLDS, NOT_SHOWN, Claim, Measure, Results, Test


def bounded(measure: Measure, low: float = -math.inf, high: float = math.inf) -> Test:
    """The interval that ``measure`` takes from the results lies between two bounds."""

    def test(results: Results) -> tuple[str, str]:
        found = measure(results)
        if found.above(low) and found.below(high):
            return HOLDS, str(found)
        return (FAILS if found.above(high) or found.below(low) else NOT_SHOWN), str(found)

    return test


def higher(metric: str, a: str, b: str, by: float = 0.0) -> Test:
    """Variant a is above variant b: the paired interval lies above zero, or above ``by``."""
    return bounded(lambda results: results.paired(metric, a, b), by)


def lower(metric: str, a: str, b: str) -> Test:
    """Variant a is below variant b; what is measured is a minus b, a negative number."""
    return bounded(lambda results: results.paired(metric, a, b), high=0.0)


def not_above(measure: Measure, value: float = 0.0) -> Test:
    """That the interval lies above a value is not shown."""

    def test(results: Results) -> tuple[str, str]:
        found = measure(results)
        return (FAILS if found.above(value) else HOLDS), str(found)

    return test


def holding(measure: Measure, value: float = 0.0) -> Test:
    """The interval that ``measure`` takes from the results holds a value: nothing is shown."""

    def test(results: Results) -> tuple[str, str]:
        found = measure(results)
        return (FAILS if found.above(value) or found.below(value) else HOLDS), str(found)

    return test


def alike(metric: str, a: str, b: str) -> Test:
    """No difference is shown: the paired interval holds zero."""
    return holding(lambda results: results.paired(metric, a, b))


def covers(metric: str, variant: str, value: float) -> Test:
    """The metric's interval holds a value, such as chance."""
    return holding(lambda results: results.interval(metric, variant), value)


def beyond(metric: str, variant: str, bound: float) -> Test:
    """The metric's interval lies above a bound."""
    return bounded(lambda results: results.interval(metric, variant), bound)


def within(metric: str, low: float, high: float, a: str, b: str | None = None) -> Test:
    """The interval of a (or of a minus b) lies between two bounds: "about equal" has a width."""
    # One variant, or the difference of two: both are an interval.
    if b is None:
        return bounded(lambda results: results.interval(metric, a), low, high)
    return bounded(lambda results: results.paired(metric, a, b), low, high)


def ours(sentence: str, test: Test, key: str = "", stated: str = "") -> Claim:
    """A sentence of this book's alone; see `Claim`."""
    return Claim(sentence, test, paper=False, key=key, stated=stated)


def sentences(
    tests: Mapping[str, Test | tuple[Test, str]],
    start: str = "",
    paper: bool = False,
    stated: str = "",
) -> tuple[Claim, ...]:
    """Claims from a table: sentence -> its test, or its test and the key of what is measured.

    start  before every sentence         paper, stated  as in `Claim`, for all of them
    """
    made = []
    for sentence, given in tests.items():
        # Most sentences need no key: no text shows their number.
        test, key = given if isinstance(given, tuple) else (given, "")
        made.append(Claim(start + sentence, test, paper, key, stated))
    return tuple(made)


def state(claims: Iterable[Claim], stated: Mapping[str, tuple[str, str]]) -> Iterator[Claim]:
    """The same claims; some with the verdict that a chapter states, and a key: sentence -> both."""
    left = dict(stated)
    for claim in claims:
        verdict, key = left.pop(claim.sentence, (claim.stated, claim.key))
        yield replace(claim, stated=verdict, key=key)
    assert not left, f"no such sentence: {list(left)}"


Place = tuple[str, str]  # metric, variant


def minus(one: Place, other: Place) -> Measure:
    """The interval of one metric of a variant minus another, seed by seed."""
    return lambda results: paired(results.values(*one), results.values(*other))


def ratio(one: Place, other: Place) -> Measure:
    """The interval of one metric of a variant over another, seed by seed."""
    return lambda results: interval(results.values(*one) / results.values(*other))


def every_seed(
    values: Callable[[Results], Tensor],
    low: float = -math.inf,
    high: float = math.inf,
    shown: Callable[[Tensor], object] = interval,
) -> Test:
    """Each seed's value lies between two bounds; ``shown`` says what is measured."""

    def test(results: Results) -> tuple[str, str]:
        measured = values(results)
        inside = bool(((measured >= low) & (measured <= high)).all())
        return (HOLDS if inside else FAILS), str(shown(measured))

    return test
