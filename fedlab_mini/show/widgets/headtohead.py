"""HeadToHeadExplorer: which score comes out best, and does it reach the ceiling? Chapter 10."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import traitlets
from scipy import stats

from ... import checks
from ...judge.evidence import Interval, interval
from .base import Explorer, Numbers, by_name, program

CEILING = "(the truth itself)"
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
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode()).tag(sync=True)
    measures = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ways = traitlets.List(traitlets.Int()).tag(sync=True)  # 1: more is better, -1: less is
    # [measures, kinds, names and ceiling, seeds]; no seeds where nothing is measured
    values = traitlets.List(traitlets.List(traitlets.List(traitlets.List()))).tag(sync=True)
    # half an interval of 2, 3, ... seeds, in standard deviations
    spans = traitlets.List(traitlets.Float()).tag(sync=True)
    scenario = traitlets.Unicode().tag(sync=True)
    metric = traitlets.Unicode().tag(sync=True)
    seeds = traitlets.Int(min=2).tag(sync=True)

    def __init__(
        self,
        frame: pd.DataFrame,
        methods: Sequence[str] | None = None,
        *,
        scenario: str | None = None,
        metric: str | None = None,
    ):
        checks.instance("frame", frame, pd.DataFrame, "the table that fm.compare returns")
        if lacking := {"seed", "scenario", "method", "metric", "value"} - set(frame):
            raise ValueError(f"frame: expected what fm.compare returns, lacks {sorted(lacking)}")
        count, kinds = frame.seed.nunique(), list(dict.fromkeys(frame.scenario))
        if count < 2:
            raise ValueError(f"frame: expected 2 seeds or more, got {count}")
        known = [name for name in dict.fromkeys(frame.method) if name != CEILING]
        names = known[:6] if methods is None else list(methods)
        for name in names:
            checks.choice("methods", name, tuple(known))
        if not 2 <= len(set(names)) == len(names) <= 8:
            raise ValueError(f"methods: expected 2 to 8 different names, got {names}")
        measures = [name for name in MEASURES if name in set(frame.metric)]
        scenario = kinds[0] if scenario is None else scenario
        metric = measures[0] if metric is None else metric
        ordered = frame.sort_values("seed").groupby(["metric", "scenario", "method"]).value
        found = {key: [float(f"{x:.4g}") for x in part] for key, part in ordered}
        rows = [*names, CEILING]
        super().__init__(
            names=names,
            kinds=kinds,
            measures=measures,
            ways=[MEASURES[name] for name in measures],
            values=[[[found.get((m, k, r), []) for r in rows] for k in kinds] for m in measures],
            spans=[float(stats.t.ppf(0.975, n - 1)) / math.sqrt(n) for n in range(2, count + 1)],
            scenario=checks.choice("scenario", scenario, tuple(kinds)),
            metric=checks.choice("metric", metric, tuple(measures)),
            seeds=count,
        )

    def numbers(self) -> Numbers:
        place = self.measures.index(self.metric), self.kinds.index(self.scenario)
        way = self.ways[place[0]]
        rows = [row[: self.seeds] for row in self.values[place[0]][place[1]]]
        shown = [interval(row) if row else NONE for row in rows]
        line = rows[-1] or max(rows[:-1], key=lambda row: way * sum(row) if row else -math.inf)
        gaps = [
            interval([a - b for a, b in zip(row, line, strict=True)]) if row else NONE
            for row in rows
        ]
        best = sum(not (gap.below(0) if way > 0 else gap.above(0)) for gap in gaps[:-1])
        columns = {
            "mean": [found.mean for found in shown],
            "low": [found.low for found in shown],
            "high": [found.high for found in shown],
            "minus the line": [gap.mean for gap in gaps],
        }
        fact = float(best) if all(rows[:-1]) else math.nan
        return {**by_name([*self.names, "ceiling"], columns), "scores": {"at the line": fact}}
