"""Student's t: how wide an interval is, and how many seeds a difference needs.

Used by evidence, which exports the names. The page *How we know* shows the numbers.
"""

from __future__ import annotations

import math

from ..parse import checks

SPARE = 5  # the t interval is taken at the error that our rule may make, divided by this


def student(count: int, level: float = 0.95) -> float:
    """The quantile of Student's distribution for the mean of ``count`` independent values."""
    # Imported here, because it takes a sixth of a second, and scipy.stats a whole second.
    from scipy import special

    return float(special.stdtrit(count - 1, (1 + level) / 2))


def strict(level: float) -> float:
    """The level of the rule's t interval: .99 for a stated level of .95."""
    return 1 - (1 - level) / SPARE


def visible(count: int, level: float = 0.95, power: float = 0.8) -> float:
    """The difference, in standard deviations, that ``count`` seeds show with this power."""
    from scipy import special

    level = checks.number("level", level, low=0, high=1, ends="()")
    power = checks.number("power", power, low=0.5, high=1, ends="[)")
    # The noncentrality at which the t statistic exceeds the quantile with this power.
    shift = special.nctdtrinc(count - 1, 1 - power, student(count, strict(level)))
    return float(shift) / math.sqrt(count)


def seeds_needed(effect: float, power: float = 0.8, level: float = 0.95) -> int:
    """How many seeds show a true difference of ``effect`` standard deviations, with this power.

    The values are taken as normal (noncentral t). Cost: a few evaluations.
    """
    from scipy import special

    effect = checks.number("effect", effect, low=1e-3)
    seeds = 2
    # Start from the number for a known standard deviation; an estimated one needs a few more.
    if visible(seeds, level, power) > effect:
        normal = special.ndtri((1 + strict(level)) / 2) + special.ndtri(power)
        seeds = max(seeds, math.floor((normal / effect) ** 2))
    while visible(seeds, level, power) > effect:
        seeds += 1
    return seeds
