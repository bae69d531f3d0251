"""HeadToHeadExplorer: which score comes out best, and does it reach the ceiling? Chapter 10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import traitlets

from ... import checks
from ...judge.compare import compared_frame
from ...judge.compare.cell import span
from ...judge.compare.methods import CEILING
from ...judge.evidence import Interval, interval, paired
from ...judge.student import strict, student
from .base import Explorer, Numbers, by_name, program

if TYPE_CHECKING:
    import pandas

MEASURES = {  # 1: more is better
    "tau with retraining": 1,
    "detection AUC": 1,
    "removal, worst first": 1,
    "stability, training": 1,
    "accuracy gained by weights": 1,
    "seconds": -1,
}
NONE = Interval(math.nan, math.nan, math.nan, 0)


class HeadToHeadExplorer(Explorer):
    """A comparison, scenario by scenario and measure by measure: dots, intervals, the line.

    frame     what ``fm.compare`` returned, for 2 seeds or more
    methods   2 to 8 of its methods; default: the first six
    scenario, metric  shown at first; default: the first ones
    seeds     how many of the seeds count, from the first on; at first all
    raises    TypeError or ValueError naming the argument

    The line is the ceiling, or, in a measure that has none, the best mean. A score is at the line
    unless the 95 % interval of its difference, seed by seed, lies on the worse side of it.
    """

    _esm = program("kit", "headtohead")
    hides = ("mean", "low", "high", "minus the line", "at the line")
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode()).tag(sync=True)
    measures = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ways = traitlets.List(traitlets.Int()).tag(sync=True)  # 1: more is better, -1: less is
    # [measures, kinds, names and ceiling, seeds]; no seeds where nothing is measured
    values = traitlets.List(traitlets.List(traitlets.List(traitlets.List()))).tag(sync=True)
    # [measures, 2]: lowest and highest possible value; None where there is no such end
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
    ):
        seeds, kinds = compared_frame(frame).seed.nunique(), list(dict.fromkeys(frame.scenario))
        if seeds < 2:
            raise ValueError(f"frame: expected 2 seeds or more, got {seeds}")
        # The truth is the line of the picture, not one of the methods.
        known = [name for name in dict.fromkeys(frame.method) if name != CEILING]
        names = known[:6] if methods is None else list(methods)
        for name in names:
            checks.choice("methods", name, tuple(known))
        if not 2 <= len(set(names)) == len(names) <= 8:
            raise ValueError(f"methods: expected 2 to 8 different names, got {names}")
        measures = [measure for measure in MEASURES if measure in set(frame.metric)]
        scenario = kinds[0] if scenario is None else scenario
        metric = measures[0] if metric is None else metric
        error = strict(0.95)
        quantiles = [student(count, error) / math.sqrt(count) for count in range(2, seeds + 1)]
        ends = [[end if math.isfinite(end) else None for end in span(name)] for name in measures]
        super().__init__(
            names=names,
            kinds=kinds,
            measures=measures,
            ways=[MEASURES[measure] for measure in measures],
            values=_values(frame, measures, kinds, [*names, CEILING]),
            ranges=ends,
            spans=quantiles,
            scenario=checks.choice("scenario", scenario, tuple(kinds)),
            metric=checks.choice("metric", metric, tuple(measures)),
            seeds=seeds,
        )

    def numbers(self) -> Numbers:
        measure, kind = self.measures.index(self.metric), self.kinds.index(self.scenario)
        way = self.ways[measure]
        rows = [row[: self.seeds] for row in self.values[measure][kind]]
        line = rows[-1] or max(rows[:-1], key=lambda row: way * sum(row) if row else -math.inf)
        low, high = span(self.metric)
        intervals = [interval(row, low=low, high=high) if row else NONE for row in rows]
        gaps = [paired(row, line, low=low, high=high) if row else NONE for row in rows]
        # Not shown to be worse, seed by seed, is what counts as being at the line.
        worse = [gap.below(0) if way > 0 else gap.above(0) for gap in gaps[:-1]]
        columns = {
            "mean": [shown.mean for shown in intervals],
            "low": [shown.low for shown in intervals],
            "high": [shown.high for shown in intervals],
            "minus the line": [gap.mean for gap in gaps],
        }
        at_line = float(worse.count(False)) if all(rows[:-1]) else math.nan
        return {**by_name([*self.names, "ceiling"], columns), "scores": {"at the line": at_line}}


def _values(
    frame: pandas.DataFrame, measures: list[str], kinds: list[str], methods: list[str]
) -> list:
    """Values [measures, kinds, methods, seeds], to four digits: the page need not hold more."""
    ordered = frame.sort_values("seed").groupby(["metric", "scenario", "method"]).value
    values = {key: [float(f"{value:.4g}") for value in group] for key, group in ordered}
    return [
        [[values.get((measure, kind, method), []) for method in methods] for kind in kinds]
        for measure in measures
    ]
