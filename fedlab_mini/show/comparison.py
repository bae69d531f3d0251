"""Comparison: what ``fm.compare`` found, as a table or a figure.

Chapter 10 reads them. Below: plots, judge.compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from .. import checks
from ..judge.compare import compared_frame
from ..judge.compare.cell import MEASURES, span
from ..judge.compare.methods import CEILING
from ..judge.evidence import interval
from . import plots

if TYPE_CHECKING:
    import pandas


def summary(
    frame: pandas.DataFrame,
    metric: str = MEASURES[0],
    *,
    methods: Sequence[str] | None = None,
    scenarios: Sequence[str] | None = None,
    spread: bool = True,
) -> plots.Table:
    """A metric of methods (rows) in scenarios (columns), over seeds.

    frame    from ``compare``; the row "(the truth itself)" is the ceiling
    methods, scenarios  those to show, in this order; None: all
    spread   mean and interval; without it the mean alone
    raises   TypeError for what is no such frame, ValueError for what it lacks
    """
    checks.flag("spread", spread)
    measured = _measured(frame, metric)
    rows = _picked("methods", methods, measured.method)
    columns = _picked("scenarios", scenarios, measured.scenario)
    low, high = span(metric)
    groups = dict(iter(measured.groupby(["method", "scenario"], sort=False)))
    cells: dict[str, dict[str, object]] = {row: dict.fromkeys(columns, "") for row in rows}
    for row, column in itertools.product(rows, columns):
        if (row, column) in groups:
            values = groups[row, column].sort_values("seed").value.tolist()
            several = spread and len(values) > 1
            mean = sum(values) / len(values)
            cells[row][column] = interval(values, low=low, high=high) if several else mean
    shown = "mean and 95 % interval" if spread else "mean"
    caption = f"{metric}: {shown} over {measured.seed.nunique()} seeds."
    return plots.table(cells, rows="method", caption=caption)


def _picked(name: str, asked: Sequence[str] | None, column: pandas.Series) -> list[str]:
    """What was asked for, each known to the column; without that all that the column has."""
    known = tuple(map(str, dict.fromkeys(column)))
    if asked is None:
        return list(known)
    checks.instance(name, asked, Sequence, "a list of names")
    if not asked:
        raise ValueError(f"{name}: expected at least one name, got {checks.shown(asked)}")
    return [checks.choice(name, one, known) for one in asked]


def figure(frame: pandas.DataFrame, scenario: str, metric: str = MEASURES[0]) -> Figure:
    """A dot a seed for every method in one scenario; the dashed line is the truth's own ceiling.

    raises TypeError for what is no such frame, ValueError for a metric or scenario that it lacks
    """
    measured = _measured(frame, metric)
    checks.choice("scenario", scenario, tuple(dict.fromkeys(measured.scenario)))
    there = measured[measured.scenario == scenario].groupby("method", sort=False)
    values = {str(method): group.sort_values("seed").value.tolist() for method, group in there}
    # The truth is no rival of the methods but the line that they are held against.
    ceiling = values.pop(CEILING, None)
    line = {} if ceiling is None else {"ceiling": sum(ceiling) / len(ceiling)}
    low, high = span(metric)
    where = f"{metric}, {scenario}"
    return plots.dots(values, xlabel=where, reference=line, low=low, high=high)


def _measured(frame: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    compared_frame(frame)
    checks.choice("metric", metric, tuple(dict.fromkeys(frame.metric)))
    return frame[frame.metric == metric]
