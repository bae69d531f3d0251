"""Results: the stored rows of a study, its intervals, and the verdict on each claim.

Above: store, telling. Below: study, metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.judge import evidence
from fedlab_mini.judge.evidence import Count, Interval
from fedlab_mini.show import plots

from .metrics import is_count, span
from .study import SEPARATOR, Claim, Place, Study, flat, question

# Words in stored names of methods and metrics, and the words that tables and figures show instead.
SHOWN = {"printed": "published", "healthy client": "clean client"}
HOLDS, FAILS, NOT_SHOWN, ALIKE = "holds", "does not hold", "not shown", "not shown to differ"
WORDS = (HOLDS, FAILS, NOT_SHOWN, ALIKE)
UNTESTED, ONLY_A_NUMBER = "cannot be tested", "not compared"
CONFIRMED, SEEN, WITHOUT = "confirmed", "exploratory", "without seeds"


def shown(name: str) -> str:
    """A stored name of a method or a metric as tables and figures show it."""
    for stored, word in SHOWN.items():
        name = name.replace(stored, word)
    return name


class Stored(Interval):
    """An interval with its study and the difference that was detectable.

    blocks   the number of blocks k that it uses; its level is 1 - .05 / k
    each     the interval of every block alone, if there are several
    against  a question -> the interval on the seeds that were drawn since it was asked
    """

    study: str
    asked: tuple[str, ...]
    power: float
    confirmed: bool
    blocks: int
    each: list[Interval]
    against: Callable[[str], Stored]


class StoredCount(Stored):
    """A share of seeds with its study, shown as a count: "18 of 20 seeds"."""

    __str__ = Count.__str__
    could = Count.could


class Entry(NamedTuple):
    """A claim and its outcome.

    measured  the interval, or what was found without seeds, as text
    standing  confirmed: on seeds drawn after the question; exploratory: on others; without seeds
    each      the verdict of every block alone, if several were drawn
    """

    item: Claim
    verdict: str
    measured: str = ""
    interval: Stored | None = None
    standing: str = WITHOUT
    each: tuple[str, ...] = ()

    @property
    def seeds(self) -> int:
        """The number of seeds that it uses."""
        return self.interval.n if self.interval else 0

    @property
    def could(self) -> str:
        """The difference that was detectable with 80 % power, if none was shown."""
        if self.interval is None or self.verdict not in (NOT_SHOWN, ALIKE):
            return ""
        return f"{self.interval.power:.2g}"


def word_of(claim: Claim, found: Interval) -> str:
    """The verdict that an interval gives on a claim."""
    low, high = claim.ends
    if found.above(low) and found.below(high):
        return HOLDS
    if found.above(high) or found.below(low):
        return FAILS
    return ALIKE if claim.equal else NOT_SHOWN


def reachable(claim: Claim, seeds: int) -> bool:
    """Whether so many seeds can decide a claim about a count, if all of them agree."""
    if claim.b or not is_count(claim.metric) or claim.equal:
        return True
    best = [evidence.count([value] * seeds) for value in (0, 1)]
    return any(word_of(claim, found) == HOLDS for found in best)


class Results:
    """Stored rows of one half: of the confirming seeds, or of those to look at.

    blocks  seeds of every block, by its number     asked  question -> the first block since then
    """

    def __init__(
        self,
        study: Study,
        frame: pd.DataFrame,
        confirmed: bool = False,
        blocks: Mapping[int, Sequence[int]] | None = None,
        asked: Mapping[str, int] | None = None,
    ):
        self.study, self.frame, self.confirmed = study, frame, confirmed
        self.blocks, self.asked = dict(blocks or {}), dict(asked or {})
        self.other = self  # the other half: seeds to look at beside those that confirm
        self.seeds: list[int] = sorted(frame.seed.unique().tolist())
        columns = [frame.scenario, frame.method, frame.metric]
        self._parts = dict(list(frame.groupby(columns, sort=False)))
        self._derived: dict[tuple[str, str, str], Tensor] = {}
        if study.derived is not None and self.seeds:
            self._derived = {(s, v, m): values for s, v, m, values in study.derived(self)}

    @property
    def look(self) -> Results:
        """The seeds to look at."""
        return self.other if self.confirmed else self

    def only(self, seeds: Collection[int]) -> Results:
        """The rows of only these seeds."""
        blocks = {k: [s for s in own if s in seeds] for k, own in self.blocks.items()}
        blocks = {number: own for number, own in blocks.items() if own}
        frame = self.frame[self.frame.seed.isin(seeds)]
        return Results(self.study, frame, self.confirmed, blocks, self.asked)

    def with_rows_of(self, other: Results) -> Results:
        """These rows and those of another study on the same federations, as rows of this study.

        Only rows of the same seeds and the same half; derived metrics are the other study's.
        """
        theirs = (other if self.confirmed else other.look).only(self.seeds)
        frame = pd.concat([self.frame, theirs.frame])
        study = replace(self.study, derived=other.study.derived)
        return Results(study, frame, self.confirmed, self.blocks, self.asked)

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.seeds)

    @property
    def scenarios(self) -> list[str]:
        """In the order in which the study makes them."""
        return list(dict.fromkeys(self.frame.scenario))

    @property
    def methods(self) -> list[str]:
        """In the order in which the study makes them."""
        return list(dict.fromkeys(self.frame.method))

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """(scenario, method, metric) of all that is stored or derived."""
        return [*self._parts, *self._derived]

    def has(self, metric: str, method: str = "", scenario: str = "") -> bool:
        """Whether there is such a row."""
        place = (scenario, method, metric)
        return place in self._parts or place in self._derived

    def values(self, metric: str, method: Place = "", scenario: str = "") -> Tensor:
        """One value per seed, [seeds], in the order of the seeds.

        method  its name, or a pair (method, scenario)
        raises  KeyError if no row has it; ValueError that names the seeds that lack it
        """
        if isinstance(method, tuple):
            method, scenario = method
        place = (scenario, method, metric)
        if place in self._derived:
            return self._derived[place]
        if place not in self._parts:
            raise KeyError(f"{self.study.name} has no {metric!r} of {method!r} in {scenario!r}")
        part = self._parts[place].sort_values("seed")
        found = part.seed.tolist()
        if found != self.seeds:
            missing = sorted(set(self.seeds) - set(found)) or "none; one stands twice"
            raise ValueError(f"{self.study.name}: {place}: seeds that are missing: {missing}")
        return torch.tensor(part.value.to_numpy(), dtype=torch.float64)

    def minus(self, metric: str, a: Place, b: Place, scenario: str = "") -> Tensor:
        """a minus b, seed by seed, [seeds]."""
        return self.values(metric, a, scenario) - self.values(metric, b, scenario)

    def interval(self, metric: str, method: Place = "", scenario: str = "") -> Stored:
        """Mean and 95 % interval over the seeds, inside the metric's range."""
        values, (low, high) = self.values(metric, method, scenario), span(metric, self.study.name)
        return self.known((metric, *flat(method, scenario)), values, low, high)

    def paired(self, metric: str, a: Place, b: Place, scenario: str = "") -> Stored:
        """The interval of a minus b, seed by seed."""
        low, high = span(metric, self.study.name)
        asked = (metric, *flat(a, scenario), "minus", *flat(b, scenario))
        return self.known(asked, self.minus(metric, a, b, scenario), low - high, high - low)

    def count(self, metric: str, method: Place = "", scenario: str = "") -> StoredCount:
        """The number of seeds for which a metric of 0 and 1 is true: "18 of 20 seeds"."""
        values, (low, high) = self.values(metric, method, scenario), span(metric, self.study.name)
        asked = (metric, *flat(method, scenario))
        found = self.known(asked, values, low, high, kind=StoredCount)
        assert isinstance(found, StoredCount)
        return found

    def measure(
        self,
        name: str,
        values: Callable[[Results], Tensor],
        low: float = -math.inf,
        high: float = math.inf,
    ) -> Stored:
        """The interval of ``values(results)``, one value per seed; low, high: its range."""
        return self.known((name,), values(self), low, high)

    def known(
        self,
        asked: Sequence[str],
        values: Tensor,
        low: float,
        high: float,
        asks: str | None = None,
        kind: type[Stored] = Stored,
    ) -> Stored:
        """The interval of values [seeds] on all blocks drawn since the question was asked.

        asked      metric, method and scenario, and those of a rival behind "minus"
        low, high  the range of the values
        asks       the question of a sentence; without one, any question about these rows counts
        If no question was asked, all seeds count as one block
        """
        blocks = self._since(asked, asks)
        chosen = {seed for block in blocks for seed in block} or set(self.seeds)
        keep = values[torch.tensor([seed in chosen for seed in self.seeds])]
        level = 1 - 0.05 / max(len(blocks), 1)
        found = kind(*evidence.interval(keep, level, low=low, high=high))
        found.study, found.asked = self.study.name, tuple(asked)
        found.power = evidence.detectable(keep, level, low=low, high=high)
        found.confirmed, found.blocks, found.each = self.confirmed, max(len(blocks), 1), []
        if len(blocks) > 1:
            alone = [values[[self.seeds.index(seed) for seed in block]] for block in blocks]
            found.each = [evidence.interval(v, low=low, high=high) for v in alone if len(v) > 1]
        found.against = lambda asks: self.known(asked, values, low, high, asks, kind)
        return found

    def _since(self, asked: Sequence[str], asks: str | None) -> list[Sequence[int]]:
        """The seeds of each block drawn since a question was asked."""
        about = question(asked).rpartition(SEPARATOR)[0]
        stood = [
            number
            for each, number in self.asked.items()
            if each == asks or (asks is None and each.rpartition(SEPARATOR)[0] == about)
        ]
        return [own for number, own in self.blocks.items() if stood and number >= min(stood)]

    def over_all(self, metric: str, method: Place = "", scenario: str = "") -> Stored:
        """The interval, or count, of all seeds that confirm, whatever was asked of them.

        A table shows this: it asks no question, and its cells count the same seeds
        """
        read = self.count if is_count(metric) else self.interval
        return read(metric, method, scenario).against("")

    def curve(
        self, metric: str, method: str = "", scenario: str = ""
    ) -> tuple[list[float], Tensor]:
        """A metric given at several places, as "AUC @ 100": places [n], values [seeds, n]."""
        start = f"{metric} @ "
        own = [m for s, v, m in self._parts if (s, v) == (scenario, method) and m.startswith(start)]
        places = sorted(float(name.removeprefix(start)) for name in own)
        rows = [self.values(f"{start}{place:g}", method, scenario) for place in places]
        return places, torch.stack(rows, dim=1)

    def table(
        self, *metrics: str, scenario: str | None = None, caption: str = "", **look: object
    ) -> plots.Table:
        """Mean and interval, a row per method (and scenario), a column per metric."""
        data: dict[str, dict[str, object]] = {}
        for place, method in dict.fromkeys((s, m) for s, m, _ in self._parts):
            if scenario is None or place == scenario:
                names = [method, "" if scenario else place]
                row = ", ".join(shown(name) for name in names if name)
                cells = {shown(m): self._cell(m, method, place) for m in metrics}
                if any(cells.values()):
                    data[row] = cells
        said = caption or f"{self.study.item}: mean and 95 % interval over {self.whose}."
        return plots.table(data, rows="method", caption=said, **look)  # type: ignore[arg-type]

    def _cell(self, metric: str, method: str, scenario: str) -> object:
        if not self.has(metric, method, scenario):
            return ""
        found = self.over_all(metric, method, scenario)
        # A count is shown as text, because a table would write a share with its interval.
        return str(found) if is_count(metric) else found

    def settings(self) -> plots.Table:
        """The protocol as a table: the paper's and our settings, with the seeds of these rows."""
        protocol = dict(self.study.protocol)
        theirs, ours = protocol["repetitions"]
        blocks = f" in {len(self.blocks)} blocks" if len(self.blocks) > 1 else ""
        drawn = f"{self.n} that confirm{blocks}" if self.confirmed else "none that confirm"
        ours = ours.replace(f"{self.study.confirm} that confirm", drawn)
        return replace(self.study, protocol=protocol | {"repetitions": (theirs, ours)}).settings()

    @property
    def whose(self) -> str:
        """A description of these seeds."""
        return f"{self.n} seeds" + (" that confirm" if self.confirmed else " to look at")

    def figure(self) -> Figure:
        """The study's figure, drawn from these rows."""
        if self.study.figure is None:
            raise ValueError(f"{self.study.name} has no figure; show its table")
        return self.study.figure(self)

    def judge(self, claim: Claim) -> Entry:
        """The outcome of a claim on these rows."""
        if claim.b:
            found = self.paired(claim.metric, claim.a, claim.b, claim.at)
        else:
            read = self.count if is_count(claim.metric) else self.interval
            found = read(claim.metric, claim.a, claim.at)
        found = found.against(claim.question)
        stood = self.confirmed and claim.question in self.asked
        return Entry(
            claim,
            ONLY_A_NUMBER if claim.reason else word_of(claim, found),
            str(found),
            found,
            CONFIRMED if stood else SEEN,
            tuple(word_of(claim, alone) for alone in found.each),
        )

    def verdicts(self) -> dict[str, Entry]:
        """{sentence: outcome}, without claims that also need another study's rows."""
        own = [claim for claim in self.study.claims if not claim.rival_study]
        return {claim.sentence: self.judge(claim) for claim in own}

    def verdict(self, source: str = "paper") -> str:
        """How many claims of the paper (or book) hold, do not hold, or are not shown."""
        words = [e.verdict for e in self.verdicts().values() if e.item.source == source]
        counts = {word: words.count(word) for word in WORDS}
        return ", ".join(f"{word} {count}" for word, count in counts.items() if count) or "none"

    def judged(self) -> plots.Table:
        """For each claim: the verdict, the measured value, the paper's number, the source."""
        data = {}
        for sentence, entry in self.verdicts().items():
            item, could = entry.item, f" ({entry.could} detectable)" if entry.could else ""
            whose = {"paper": item.item or "paper", "book": "this book"}[item.source]
            row = {"verdict": entry.verdict + could, "measured": entry.measured}
            data[sentence] = {**row, "printed": str(item.printed), "source": whose}
        caption = f"{self.study.item}: {self.whose}, mean and 95 % interval."
        return plots.table(data, rows="claim", caption=caption)
