"""Student's t: how wide an interval is, and how many seeds a difference needs.

Used by evidence, which offers the names; below: checks. The page *How we know* shows the numbers.
"""

from __future__ import annotations

import math

from .. import checks

SPARE = 5  # the t interval is taken at this fraction of the error that our rule may make


def student(count: int, level: float = 0.95) -> float:
    """The quantile of Student's distribution for the mean of ``count`` independent values."""
    # Here, since it takes a sixth of a second to import, and scipy.stats a whole one.
    from scipy import special

    return float(special.stdtrit(count - 1, (1 + level) / 2))


def strict(level: float) -> float:
    """The level at which the rule takes its t interval: .99 for what is called .95."""
    return 1 - (1 - level) / SPARE


def visible(count: int, level: float = 0.95, power: float = 0.8) -> float:
    """The difference, in standard deviations, that ``count`` seeds show with that power."""
    from scipy import special

    level = checks.number("level", level, low=0, high=1, ends="()")
    power = checks.number("power", power, low=0.5, high=1, ends="[)")
    # The noncentrality at which the t statistic exceeds the quantile with this power.
    shift = special.nctdtrinc(count - 1, 1 - power, student(count, strict(level)))
    return float(shift) / math.sqrt(count)


def seeds_needed(effect: float, power: float = 0.8, level: float = 0.95) -> int:
    """Seeds that show a true difference of ``effect`` standard deviations, with that power.

    The values count as normal (noncentral t). Cost: a few evaluations.
    """
    from scipy import special

    effect = checks.number("effect", effect, low=1e-3)
    seeds = 2
    # With a known standard deviation so few would do; one that is estimated needs a few more.
    if visible(seeds, level, power) > effect:
        normal = special.ndtri((1 + strict(level)) / 2) + special.ndtri(power)
        seeds = max(seeds, math.floor((normal / effect) ** 2))
    while visible(seeds, level, power) > effect:
        seeds += 1
    return seeds
