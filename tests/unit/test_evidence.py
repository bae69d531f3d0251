"""Intervals: the rule against other people's mathematics, and which verbs they allow."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from fedlab_mini import evidence
from fedlab_mini.judge import imagined

SEEDS = [0.2, 0.5, 0.4, 0.9, 0.3]


def shares(successes: int, seeds: int) -> list[float]:
    """One value per seed: 1 for a success, 0 elsewhere."""
    return [1.0] * successes + [0.0] * (seeds - successes)


def test_where_seeds_differ_it_is_students_interval_at_a_fifth_of_the_error() -> None:
    for level, theirs in [(0.95, 0.99), (0.99, 0.998)]:
        expected = stats.ttest_1samp(SEEDS, 0).confidence_interval(theirs)
        found = evidence.interval(torch.tensor(SEEDS, dtype=torch.float64), level)
        assert found == pytest.approx((0.46, expected.low, expected.high, 5))
    assert evidence.interval(SEEDS, low=0, high=1)[1:3] == (0, 1)
    assert evidence.interval(SEEDS, low=0).high > 1


@pytest.mark.parametrize(("seeds", "level"), [(2, 0.95), (5, 0.9), (20, 0.95)])
def test_for_zeros_and_ones_it_is_clopper_and_pearsons(seeds: int, level: float) -> None:
    for successes in range(seeds + 1):
        # scipy has no bound for none or all: it is an end of the range.
        low = stats.beta.ppf((1 - level) / 2, successes, seeds - successes + 1) if successes else 0
        high = 1.0
        if successes < seeds:
            high = stats.beta.ppf((1 + level) / 2, successes + 1, seeds - successes)
        found = evidence.interval(shares(successes, seeds), level, low=0, high=1)
        assert found[1:3] == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("seeds", [4, 10])
def test_where_seeds_crowd_an_end_one_more_is_imagined_at_the_other(seeds: int) -> None:
    """Against 200,000 draws of the weights: the ends are quantiles, to what those draws tell."""
    chance = np.random.default_rng(seeds)
    values = chance.uniform(0.5, 1, seeds)
    values[: math.ceil(3 * seeds / 4)] = 1
    found = evidence.interval(values, low=0, high=1)
    weights = chance.dirichlet(np.ones(seeds + 1), 200_000)
    below = weights @ np.append(values, 0) <= found.low
    above = weights @ np.append(values, 1) >= found.high
    assert [below.mean(), above.mean()] == pytest.approx([0.025, 0.025], abs=0.0015)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_no_seed_makes_a_jump_until_all_agree(seeds: int) -> None:
    """One more seed at the end moves both ends by at most 2 / n between t's and the imagined."""
    chance = np.random.default_rng(seeds)
    values = chance.uniform(0.8, 1, seeds)
    for crowd in range(seeds):
        values[:crowd] = 1
        t = [*stats.ttest_1samp(values, 0).confidence_interval(0.99)]
        t = [max(t[0], 0), min(t[1], 1)]
        crowded = [imagined.bound(values, 0, 0.025), imagined.bound(values, 1, 0.975)]
        found = evidence.interval(values, low=0, high=1)
        weight = min(max(2 * crowd / seeds - 0.5, 0), 1)
        expected = [(1 - weight) * a + weight * b for a, b in zip(t, crowded, strict=True)]
        assert found[1:3] == pytest.approx(expected, abs=1e-9)


def test_the_share_of_a_simplex_is_exact() -> None:
    """Two, three and four points by hand."""
    assert imagined.share_below(1.0, [0.0, 4.0]) == pytest.approx(1 / 4)
    # P(w <= 1/2) for the largest of three weights on one point: 1 - (1/2)^2, by geometry.
    assert imagined.share_below(0.5, [0.0, 0.0, 1.0]) == pytest.approx(1 - 0.5**2)
    assert imagined.share_below(0.5, [0.0, 1.0, 1.0, 1.0]) == pytest.approx(0.5**3)


def test_seeds_that_agree_leave_room_and_without_a_range_bound_nothing() -> None:
    for value in (0.0, 0.3, 1.0):
        found = evidence.interval([value] * 5, low=0, high=1)
        assert found.low == pytest.approx(value * 0.025**0.2)
        assert found.high == pytest.approx(1 - (1 - value) * 0.025**0.2)
    hair = torch.tensor([1.0000001, 0.99999994, 1.0, 1.0, 1.0])  # rounding is no spread
    assert evidence.interval(hair, low=0, high=1) == evidence.interval([1.0] * 5, low=0, high=1)
    assert evidence.interval([1.0000001, 0.9, 0.8], low=0, high=1).mean == pytest.approx(0.9)
    found = evidence.interval([0.5] * 5)
    assert found == (0.5, -math.inf, math.inf, 5)


@pytest.mark.parametrize("values", [(1e9, 1e9 + 100, 1e9 + 500), (1e-9, 1.1e-9, 1.5e-9)])
def test_seeds_agree_if_only_rounding_of_their_type_tells_them_apart(values):
    for ends in ({}, {"low": 0}, {"low": 0, "high": 2 * max(values)}):
        found = evidence.interval(values, **ends)
        assert 0 < found.high - found.low < 100 * np.std(values)
    assert math.isfinite(evidence.paired(values, [values[0]] * 3).low)
    for kind in (np.float32, np.float64):
        hair = kind(0.7) * (1 + np.array([0, 1, -1, 2], kind) * np.finfo(kind).eps)
        assert str(evidence.interval(hair)) == "0.70 (all 4 seeds agree)"
        assert evidence.paired(hair, np.full(4, kind(0.2)))[1:3] == (-math.inf, math.inf)
        assert math.isfinite(evidence.interval(hair + kind(1e-3) * np.arange(4)).low)


def test_values_whose_squares_overflow_are_refused() -> None:
    assert evidence.interval([1e149, 2e149]).mean == 1.5e149
    for values in ([1e308, 1.5e308], [-1e200, 0.0]):
        with pytest.raises(ValueError, match=r"^values: expected values in \[-1e\+150, 1e\+150\]"):
            evidence.interval(values)


def test_pairs_cancel_what_a_seed_shares_and_a_verb_needs_an_interval_without_zero() -> None:
    shared = np.random.default_rng(1).normal(0, 10, 8)
    a, b = shared + np.linspace(0.9, 1.1, 8), shared
    assert evidence.words(evidence.paired(a, b)) == "higher"
    assert evidence.words(evidence.paired([1, 0], [0.5, 0.5], low=0, high=1)) == "not shown"
    # The range of a difference is twice as wide.
    found = evidence.paired([1.0] * 5, [0.0] * 5, low=0, high=1)
    assert found == evidence.interval([1.0] * 5, low=-1, high=1)
    found = evidence.Interval(0.5, 0.4, 0.6, 5)
    assert [found.above(0.39), found.above(0.4)] == [True, False]
    assert [found.below(0.61), found.below(0.6)] == [True, False]
    within = [found.within(*ends) for ends in ((0.4, 0.6), (0.41, 1), (0, 0.59))]
    assert within == [True, False, False]


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((0.5, 0.495, 0.504), "0.500 [0.495, 0.504]"),
        ((204.52, 195.46, 217.58), "205 [195, 218]"),
        ((0.02, 0.004, 0.03), "0.020 [0.004, 0.030]"),  # which side of 0 it lies on is seen
        ((0.05, 1e-9, 0.1), "0.05 [0.00, 0.10]"),  # unless more than four decimals were needed
    ],
)
def test_the_ends_look_different(interval: tuple[float, float, float], said: str) -> None:
    assert str(evidence.Interval(*interval, 5)) == said


def test_counts_are_said_as_counts() -> None:
    found = evidence.count(shares(18, 20))
    assert str(found) == "18 of 20 seeds"
    assert found.could() == "18 of 20; 68 to 99 % of seeds could"
    assert found[1:3] == pytest.approx((0.683, 0.988), abs=0.001)
    none = evidence.count([0, 0, 0, 0, 0])
    assert str(none) == "none of 5 seeds"
    assert none.could() == "none of 5; up to 45 % of seeds could"
    assert evidence.count([1.0] * 10).could() == "10 of 10; up to 26 % of seeds could not"


def test_what_could_have_been_seen_is_seen_so_often() -> None:
    """The power of the t interval, against another implementation."""
    for seeds, power in [(5, 0.8), (20, 0.9)]:
        effect = evidence.visible(seeds, 0.95, power)
        critical = stats.t.ppf(0.995, seeds - 1)
        theirs = stats.nct.sf(critical, seeds - 1, effect * math.sqrt(seeds))
        assert theirs == pytest.approx(power, abs=1e-4)
    spread = float(np.std(SEEDS, ddof=1))
    assert evidence.detectable(SEEDS) == pytest.approx(evidence.visible(5) * spread)
    # Seeds that agree have no spread: the arm of the interval, infinite where nothing bounds it.
    arm = evidence.interval([0.0] * 5, low=-1, high=1).high
    assert evidence.detectable([0.0] * 5, low=-1, high=1) == pytest.approx(arm)
    assert evidence.detectable([0.0] * 5) == math.inf
    for effect, level, seeds in [(1, 0.95, 16), (2, 0.95, 7), (1, 0.99, 21)]:
        assert evidence.seeds_needed(effect, 0.8, level) == seeds
