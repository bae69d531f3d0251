"""HeadToHeadExplorer: which score is best, and does it reach the ceiling? Chapter 10 shows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from fedlab_mini.judge.evidence import Interval, interval, paired
from fedlab_mini.parse import checks
from fedlab_mini.show.widgets.base import Explorer, Numbers, by_name, half_widths, program

from ..compared import CEILING, shown
from ..judging import compared_frame
from ..measures import MEASURES

if TYPE_CHECKING:
    import pandas

ASKED = (
    *("tau", "AUC", "removal, worst first", "stability, training"),
    *("accuracy gained by weights", "seconds"),
)
NONE = Interval(math.nan, math.nan, math.nan, 0)


class HeadToHeadExplorer(Explorer):
    """A comparison of scores in one scenario and one measure: dots, intervals, a line.

    frame     what ``fb.compare`` returned, for 2 seeds or more
    methods   2 to 8 of its methods; default: the first six
    scenario, metric  shown first; default: the first of each
    seeds     how many seeds count, from the first one; default: all. The page asks for the result
              with all seeds, and shows the result with fewer
    raises    TypeError or ValueError naming the argument

    The line is the ceiling, or the best mean if a measure has no ceiling. A score is at the line
    unless the 95 % interval of its difference, seed by seed, is on the worse side of the line.
    """

    _esm = program("kit", "interval", Path(__file__).with_suffix(".js"))
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode()).tag(sync=True)
    measures = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # 1: more is better, -1: less is better
    ways = traitlets.List(traitlets.Int()).tag(sync=True)
    # [measures, kinds, names and ceiling, seeds]; no seeds if nothing is measured
    values = traitlets.List(traitlets.List(traitlets.List(traitlets.List()))).tag(sync=True)
    # [measures, 2]: lowest and highest possible value; None if there is no such end
    ranges = traitlets.List(traitlets.List()).tag(sync=True)
    # half an interval of 2, 3, ... seeds, in standard deviations
    spans = traitlets.List(traitlets.Float()).tag(sync=True)
    scenario = traitlets.Unicode().tag(sync=True)
    metric = traitlets.Unicode().tag(sync=True)
    seeds = traitlets.Int(min=2).tag(sync=True)

    def __init__(
        self,
        frame: pandas.DataFrame,
        methods: Sequence[str] | None = None,
        *,
        scenario: str | None = None,
        metric: str | None = None,
        seeds: int | None = None,
    ):
        seed_count, kinds = (
            compared_frame(frame).seed.nunique(),
            list(dict.fromkeys(frame.scenario)),
        )
        if seed_count < 2:
            raise ValueError(f"frame: expected 2 seeds or more, got {seed_count}")
        # The ceiling is the line in the figure, not one of the methods.
        known_methods = [method for method in dict.fromkeys(frame.method) if method != CEILING]
        method_names = known_methods[:6] if methods is None else list(methods)
        for method in method_names:
            checks.choice("methods", method, tuple(known_methods))
        if not 2 <= len(set(method_names)) == len(method_names) <= 8:
            raise ValueError(f"methods: expected 2 to 8 different names, got {method_names}")
        measures = [measure for measure in ASKED if measure in set(frame.metric)]
        scenario = kinds[0] if scenario is None else scenario
        metric = measures[0] if metric is None else metric
        # JSON has no infinity, so a missing end is None.
        ranges = [
            [end if math.isfinite(end) else None for end in MEASURES[name][:2]] for name in measures
        ]
        super().__init__(
            names=[shown(name) for name in method_names],
            kinds=[shown(kind) for kind in kinds],
            measures=measures,
            ways=[1 if MEASURES[measure].more else -1 for measure in measures],
            values=_values(frame, measures, kinds, [*method_names, CEILING]),
            ranges=ranges,
            spans=half_widths(seed_count),
            scenario=shown(checks.choice("scenario", scenario, tuple(kinds))),
            metric=checks.choice("metric", metric, tuple(measures)),
            seeds=seed_count if seeds is None else checks.whole("seeds", seeds, 2, seed_count),
        )

    @property
    def seed_count(self) -> int:
        """The number of seeds."""
        return len(self.spans) + 1

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # it follows the seeds
        if self.seeds < self.seed_count:
            return ("with all seeds",)
        return ("mean", "low", "high", "minus the line", "at the line", "with all seeds")

    def numbers(self) -> Numbers:
        score_columns, count_at_line = self._judged(self.seeds)
        counts = {"at the line": count_at_line, "with all seeds": self._judged(self.seed_count)[1]}
        return {**by_name([*self.names, "ceiling"], score_columns), "scores": counts}

    def _judged(self, seeds: int) -> tuple[dict[str, list[float]], float]:
        """Columns of the table with so many seeds, and how many scores are at the line."""
        at_measure, at_kind = (self.measures.index(self.metric), self.kinds.index(self.scenario))
        sign = self.ways[at_measure]
        # [scores and ceiling, seeds], the ceiling last; a row without seeds was not measured.
        rows = [row[:seeds] for row in self.values[at_measure][at_kind]]
        # All rows have the same number of seeds, so the best sum is the best mean.
        line = rows[-1] or max(rows[:-1], key=lambda row: sign * sum(row) if row else -math.inf)
        low, high, *_ = MEASURES[self.metric]
        intervals = [interval(row, low=low, high=high) if row else NONE for row in rows]
        gaps = [paired(row, line, low=low, high=high) if row else NONE for row in rows]
        # A score that is not shown to be worse, seed by seed, counts as at the line.
        shown_worse = [gap.below(0) if sign > 0 else gap.above(0) for gap in gaps[:-1]]
        score_columns = {
            "mean": [seed_interval.mean for seed_interval in intervals],
            "low": [seed_interval.low for seed_interval in intervals],
            "high": [seed_interval.high for seed_interval in intervals],
            "minus the line": [gap.mean for gap in gaps],
        }
        # A score without values would count as at the line, so then nothing is counted.
        count_at_line = float(shown_worse.count(False)) if all(rows[:-1]) else math.nan
        return score_columns, count_at_line


def _values(
    frame: pandas.DataFrame, measures: list[str], kinds: list[str], methods: list[str]
) -> list[Any]:
    """Values [measures, kinds, methods, seeds] with four digits, which is enough for the page."""
    # In the order of seeds, because `paired` subtracts value by value.
    seed_groups = frame.sort_values("seed").groupby(["metric", "scenario", "method"]).value
    values_by_key = {
        key: [float(f"{value:.4g}") for value in seed_values] for key, seed_values in seed_groups
    }
    return [
        [[values_by_key.get((measure, kind, method), []) for method in methods] for kind in kinds]
        for measure in measures
    ]
