"""Intervals: how often they cover the truth, and which verbs they allow."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from fedlab_mini import evidence

DRAWS = {  # one value a seed; the mean of each is 0
    "normal": lambda g, size: g.standard_normal(size),
    "uniform": lambda g, size: g.uniform(-1, 1, size),
    "AUC of a middling detector": lambda g, size: g.beta(4, 2, size) - 2 / 3,
    "skewed": lambda g, size: g.gamma(4, 1, size) - 4,
}


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("name", DRAWS)
def test_the_interval_covers_the_truth_as_often_as_it_says(name: str, seeds: int) -> None:
    """4,000 simulated studies; .93 to .97 for the nominal .95, a little less for skewed values."""
    studies = DRAWS[name](np.random.default_rng(seeds), (4000, seeds))
    found = [evidence.interval(values) for values in studies]
    covered = sum(i.low <= 0 <= i.high for i in found) / len(found)
    assert (0.90 if name == "skewed" else 0.93) <= covered <= 0.97


def test_the_bootstrap_covers_too_rarely_at_five_seeds() -> None:
    """Why the interval is Student's: percentile bootstrap on the same simulated studies."""
    g = np.random.default_rng(0)
    studies = g.standard_normal((1000, 5))
    again = studies[np.arange(1000)[:, None, None], g.integers(0, 5, (1000, 400, 5))].mean(2)
    low, high = np.quantile(again, [0.025, 0.975], axis=1)
    assert 0.78 < ((low <= 0) & (high >= 0)).mean() < 0.88


def test_the_interval_is_that_of_scipy() -> None:
    values = torch.tensor([0.2, 0.5, 0.4, 0.9, 0.3], dtype=torch.float64)
    theirs = stats.ttest_1samp(values.numpy(), 0).confidence_interval(0.9)
    ours = evidence.interval(values, level=0.9)
    assert ours[1:3] == pytest.approx((theirs.low, theirs.high))
    assert ours.n == 5
    assert ours.mean == pytest.approx(0.46)
    assert str(evidence.interval([0.5, 0.5])) == "0.50 [0.50, 0.50]"


def test_pairs_cancel_what_a_seed_shares() -> None:
    shared = np.random.default_rng(1).normal(0, 10, 8)
    a, b = shared + np.linspace(0.9, 1.1, 8), shared
    assert evidence.words(evidence.paired(a, b)) == "higher"
    assert evidence.words(evidence.paired(b, a)) == "lower"
    both = evidence.interval(a).mean - evidence.interval(b).mean
    assert evidence.paired(a, b).mean == pytest.approx(both)


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [([1, 1], [1, 1], "not shown"), ([2, 2], [1, 1], "higher"), ([1, 3], [2, 2], "not shown")],
)
def test_a_verb_needs_an_interval_without_zero(a: list, b: list, word: str) -> None:
    assert evidence.words(evidence.paired(a, b)) == word


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"values: .* 2 or more, got 1"):
        evidence.interval([1.0])
    with pytest.raises(ValueError, match=r"b: .* each of the 2 seeds"):
        evidence.paired([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="level"):
        evidence.interval([1.0, 2.0], level=1.0)
    with pytest.raises(TypeError, match="difference"):
        evidence.words((0.1, 0.2))
