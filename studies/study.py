"""Study: one table or figure as a pure function of a seed, with what a paper says of it, as data.

Above: results (stored rows and verdicts), store (files), code (what a result depends on).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.show import plots

if TYPE_CHECKING:
    from .results import Results

Row = tuple[str, str, str, float]  # scenario, method, metric, value
COLUMNS = ["seed", "scenario", "method", "metric", "value"]
Place = str | tuple[str, str]  # a method, or a method and its scenario
Derived = Iterable[tuple[str, str, str, Tensor]]  # scenario, method, metric, values [seeds]
BLOCK = 100  # seeds to confirm: the first block begins with 100, the second with 200


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper about one metric, as data: what is measured and where it must lie.

    metric   of ``a``; with ``b`` it is a - b, seed by seed. Both are methods of the scenario
             ``at``, or pairs (method, scenario)
    low, high  the sentence holds if the whole interval lies between them, and does not hold if it
             lies outside
    equal    "no difference" without a width: at best it is not shown to differ
    printed  the paper's own number of a, or of a - b     item  where it stands, as "Fig. 2a"
    source   "paper", or "book" for what the paper does not say
    """

    sentence: str
    metric: str
    a: Place
    b: Place = ""
    at: str = ""
    low: float = -math.inf
    high: float = math.inf
    equal: bool = False
    printed: float | None = None
    item: str = ""
    source: str = "paper"

    def __post_init__(self) -> None:
        bounded = math.isfinite(self.low) or math.isfinite(self.high)
        if bounded == self.equal:
            raise ValueError(f"{self.sentence!r}: expected low or high, or equal=True; not both")
        if self.source not in ("paper", "book"):
            raise ValueError(f"source: expected 'paper' or 'book', got {self.source!r}")

    @property
    def mark(self) -> str:
        """A hash of what is claimed: who changes it has another claim."""
        asked = [self.metric, self.a, self.b, self.at, repr(self.low), repr(self.high), self.equal]
        return mark_of([self.sentence, *asked])


def mark_of(content: Any) -> str:
    """Ten digits that stand for a sentence."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table, figure or question: what the paper did and says, what we do, what follows.

    name      of its files, such as "frcce-rounds"        item  "F-RCCE, Fig. 2a"
    says      the paper's sentences and numbers, in our words
    protocol  setting -> (the paper's, ours); where its text is silent, the first says so
    rows      seed -> rows (scenario, method, metric, value); a pure function
    claims    what the paper says, and what no chapter tells
    derived   further metrics, seed by seed, from the stored rows
    figure    Results -> Figure
    seeds     to look at, from 0                           confirm  seeds of a block that confirms
    cannot    why parts cannot be tested, or empty
    ragged    may seeds have different rows?
    """

    name: str
    item: str
    says: str
    protocol: Mapping[str, tuple[str, str]]
    rows: Callable[..., Iterable[Row]]
    claims: tuple[Claim, ...] = ()
    derived: Callable[[Results], Derived] | None = None
    figure: Callable[[Results], Figure] | None = None
    seeds: int = 5
    confirm: int = 5
    cannot: str = ""
    ragged: bool = False

    def block(self, number: int) -> list[int]:
        """The seeds of a block that confirms; the first has number 1."""
        return [BLOCK * number + place for place in range(self.confirm)]

    def settings(self) -> plots.Table:
        """The protocol as a table: the paper's and ours side by side."""
        data = {k: {"paper": p, "here": ours} for k, (p, ours) in self.protocol.items()}
        return plots.table(data, rows="setting", caption=f"{self.item}: the protocol.")
