"""VerdictExplorer: from differences of a few seeds to a verdict. Chapter 12 shows it."""

from __future__ import annotations

import math
from itertools import cycle, islice

import traitlets

from ...judge.evidence import Interval, interval
from .base import Explorer, Numbers, half_widths, program

# The chapter's five differences: with this mean, spread and number they come out as they are.
PATTERN = (1, -1, 0, -2, 2)
MOST = 60
OPEN = ("not shown", "not shown to differ")


class VerdictExplorer(Explorer):
    """Differences in accuracy between A and B, one per seed, and what they say about a claim.

    mean, spread  of the differences; the spread is the root of the mean squared distance from the
                  mean, so it stays the same if all differences are repeated
    seeds         the number of differences, 2 to 60
    bound         a claim: A is ahead by more than this
    equal         another claim: A is ahead by exactly this
    """

    _esm = program("kit", "interval", "verdict")
    mean = traitlets.Float(0.02).tag(sync=True)
    spread = traitlets.Float(0.01 * math.sqrt(2)).tag(sync=True)
    seeds = traitlets.Int(len(PATTERN), min=2, max=MOST).tag(sync=True)
    bound = traitlets.Float(0.0).tag(sync=True)
    equal = traitlets.Bool(False).tag(sync=True)
    spans = traitlets.List(traitlets.Float()).tag(sync=True)

    @traitlets.default("spans")
    def _spans(self) -> list[float]:
        return half_widths(MOST)

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # it follows the seeds
        # More seeds than the chapter has would show whether they are enough.
        more = ("low", "high") if self.seeds > len(PATTERN) else ()
        return ("to decide", *more)

    def found(self, seeds: int) -> Interval:
        """The interval of that many differences: a pattern that repeats, moved and stretched."""
        steps = list(islice(cycle(PATTERN), seeds))
        middle = sum(steps) / seeds
        width = math.sqrt(sum((step - middle) ** 2 for step in steps) / seeds)
        return interval(
            [self.mean + self.spread * (step - middle) / width for step in steps], low=-1, high=1
        )

    def judged(self, seeds: int) -> str:
        """The verdict of that many seeds on the claim."""
        difference = self.found(seeds)
        above, below = difference.above(self.bound), difference.below(self.bound)
        if not above and not below:
            return OPEN[self.equal]
        return "holds" if above and not self.equal else "does not hold"

    def numbers(self) -> Numbers:
        difference = self.found(self.seeds)
        enough = (n for n in range(2, MOST + 1) if self.judged(n) not in OPEN)
        return {
            "A minus B": {"low": difference.low, "high": difference.high},
            "seeds": {"to decide": float(next(enough, math.nan))},
        }
