"""Study: one table or figure as a pure function of a seed, with the paper's claims as data.

Above: results (stored rows and verdicts), store (files), audit (reruns).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.show import plots

if TYPE_CHECKING:
    from .results import Results

Row = tuple[str, str, str, float]  # scenario, method, metric, value
COLUMNS = ["seed", "scenario", "method", "metric", "value"]
Place = str | tuple[str, ...]  # a method, or a method and its scenario
Derived = Iterable[tuple[str, str, str, Tensor]]  # scenario, method, metric, values [seeds]
SEPARATOR = " | "  # of the parts of a question
BLOCK = 100  # seeds to confirm: the first block begins with 100, the second with 200


def rows_of(scenario: str, method: str, found: Iterable[tuple[str, float]]) -> Iterator[Row]:
    """Rows of one method in one scenario; found: metric, value."""
    return ((scenario, method, *pair) for pair in found)


@dataclass(frozen=True)
class Claim:
    """An empirical claim as data: what is measured, its bounds, and the source.

    metric   of ``a``; with ``b`` it is a - b, seed by seed. Both are methods of the scenario
             ``at``, or pairs (method, scenario)
    low, high  the claim holds if the whole interval lies between them, and does not hold if it
             lies outside
    equal    "no difference" from 0, or from low if low equals high; at best the difference is
             not shown
    printed  the paper's number for a, or for a - b         item  its place, such as "Fig. 2a"
    source   "paper", or "book" for a claim that the paper does not contain

    A row of the ledger also has
    id       stable: paper, place and number, such as F-RCCE-2a-1
    study    whose rows are read; ``b`` may be of another one, ``rival_study``
    distance how far our protocol is from the paper's; ``departures`` are the settings in which it
             differs, where one to three do
    bound    the source of low and high: the paper, or the book if the paper gives none
    decides  the cause of the outcome      reason  why nothing is tested, or no number compared
    """

    sentence: str
    metric: str
    a: Place
    b: Place = ""
    at: str = ""
    low: float = -math.inf
    high: float = math.inf
    equal: bool = False
    printed: str | float = ""
    item: str = ""
    source: str = "paper"
    id: str = ""
    paper: str = ""
    study: str = ""
    rival_study: str = ""
    distance: str = ""
    departures: str = ""
    bound: str = ""
    decides: str = ""
    reason: str = ""
    remark: str = ""

    def __post_init__(self) -> None:
        bounded = self.low != self.high and any(map(math.isfinite, (self.low, self.high)))
        if bounded == self.equal:
            raise ValueError(f"{self.sentence!r}: expected low or high, or equal=True; not both")
        if self.source not in ("paper", "book"):
            said = f"expected 'paper' or 'book', got {self.source!r}"
            raise ValueError(f"{self.sentence!r}: source: {said}")

    @classmethod
    def told(
        cls,
        sentence: str,
        asked: Sequence[str],
        above: float = -math.inf,
        below: float = math.inf,
        within: Sequence[float] | None = None,
        undecided: float | None = None,
    ) -> Claim:
        """The claim of a chapter about ``asked``, in the words of ``tell``."""
        metric, *places = asked
        cut = places.index("minus") if "minus" in places else len(places)
        if undecided is not None:
            within = undecided, undecided
        low, high = within or (above, below)
        sides = tuple(places[:cut]), tuple(places[cut + 1 :])
        return cls(sentence, metric, *sides, low=low, high=high, equal=undecided is not None)

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high; for "no difference" both are the same number."""
        return (0.0, 0.0) if self.equal and math.isinf(self.low) else (self.low, self.high)

    @property
    def asked(self) -> tuple[str, ...]:
        """The metric, method and scenario, and those of the rival behind "minus"."""
        rival = ("minus", *flat(self.b, self.at)) if self.b else ()
        return (self.metric, *flat(self.a, self.at), *rival)

    @property
    def question(self) -> str:
        """The id of the question, which does not depend on the wording."""
        return question(self.asked, self.ends)


def flat(method: Place, scenario: str) -> tuple[str, ...]:
    """A method and its scenario, given in either form."""
    return method if isinstance(method, tuple) else (method, scenario)


def question(asked: Sequence[str], ends: Iterable[float] = ()) -> str:
    """The id of a question: the metric, its methods, and the numbers it is compared with.

    asked  the metric, method and scenario, and those of a rival behind "minus"
    ends   low and high; infinite ones are dropped, and 0 is used if none is left
    It contains no words, and not whether the answer must be above, below or around a number, so
    a reversed sentence asks the same. a - b and b - a are one question.
    """
    numbers = sorted({float(end) for end in ends if math.isfinite(end)}) or [0.0]
    metric, *places = asked
    if "minus" in places:
        at = places.index("minus")
        own, rival = places[:at], places[at + 1 :]
        if rival < own:
            own, rival, numbers = rival, own, [0.0 - number for number in reversed(numbers)]
        places = [*own, "minus", *rival]
    return SEPARATOR.join([metric, *places, " to ".join(f"{number:g}" for number in numbers)])


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table, figure or question: the paper's claims, its protocol and ours, and the results.

    name      of its files, such as "frcce-rounds"        item  "F-RCCE, Fig. 2a"
    says      the paper's claims and numbers, in our words
    protocol  {setting: (the paper's, ours)}; the first says if the paper does not tell
    rows      seed, settings -> rows (scenario, method, metric, value); a pure function
    claims    those of the ledger, and further ones
    derived   further metrics, seed by seed, from the stored rows
    figure    Results -> Figure
    seeds     number of seeds to look at, from 0             confirm  seeds of a confirming block
    cannot    why parts cannot be tested, or empty
    ragged    whether seeds may have different rows
    probe     settings of ``rows`` that take at most three seconds on embedded data; None if
              all rows are times, which no two runs share
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
    probe: Mapping[str, object] | None = field(default_factory=dict)

    def block(self, number: int) -> list[int]:
        """The seeds of a confirming block; the first block has number 1."""
        return [BLOCK * number + place for place in range(self.confirm)]

    def defaults(self) -> dict[str, Any]:
        """The settings of ``rows``, as they stand in its signature."""
        given = inspect.signature(self.rows).parameters.values()
        return {one.name: one.default for one in given if one.kind is one.KEYWORD_ONLY}

    def told(self) -> list[str]:
        """The settings of ``rows`` as NAME=VALUE."""
        return [f"{name}={_written(value)}" for name, value in self.defaults().items()]

    def changed(self, texts: Sequence[str]) -> dict[str, object]:
        """Settings of ``rows`` from texts NAME=VALUE, such as ``rounds=50``, ``clients=10,20``.

        Separate several numbers with commas, several words with semicolons.
        raises  ValueError that names the settings, or the values that one accepts
        """
        known = self.defaults()
        found: dict[str, object] = {}
        for text in texts:
            name, _, words = text.partition("=")
            if name not in known:
                told = "; ".join(self.told())
                raise ValueError(f"set: {self.name} has the settings {told}; got {text!r}")
            found[name] = _read(f"set: {self.name}: {name}", words, known[name])
        return found

    def settings(self) -> plots.Table:
        """The protocol as a table: the paper's and our settings."""
        data = {k: {"paper": p, "here": ours} for k, (p, ours) in self.protocol.items()}
        return plots.table(data, rows="setting", caption=f"{self.item}: the protocol.")


def _written(default: object) -> str:
    """A setting as text, in the form that ``changed`` reads."""
    parts = default if isinstance(default, tuple) else (default,)
    return (";" if isinstance(parts[0], str) else ",").join(map(str, parts))


def _read(label: str, words: str, default: object) -> object:
    """A setting from the typed text, of the same type as before."""
    several = isinstance(default, tuple)
    first = default[0] if isinstance(default, tuple) else default
    if isinstance(first, Mapping):
        raise ValueError(f"{label} is a table; change it in the study's file")
    # A setting with default None, such as a number of samples, takes a whole number.
    kind: Any = int if first is None else type(first)
    parts = words.split(";" if kind is str else ",") if several else [words]
    try:
        values = tuple(kind(part.strip()) for part in parts)
    except ValueError:
        values = ()
    known = default if isinstance(default, tuple) and kind is str else values
    if not values or not set(values) <= set(known):
        wanted = "some of" if several and kind is str else "such as"
        shown = "a whole number" if first is None else f"{wanted} {_written(default)}"
        raise ValueError(f"{label}: expected {shown}, got {words!r}")
    return values if several else values[0]
