"""Comparison: what ``fm.compare`` found, as a table or a figure.

Chapter 10 reads them. Below: plots, judge.compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from .. import checks
from ..judge.compare import compared_frame
from ..judge.compare.cell import MEASURES
from ..judge.compare.methods import CEILING
from ..judge.evidence import interval
from . import plots

if TYPE_CHECKING:
    import pandas


def summary(frame: pandas.DataFrame, metric: str = MEASURES[0]) -> plots.Table:
    """A metric of every method (rows) in every scenario (columns): mean and interval over seeds.

    frame  from ``compare``; the row "(the truth itself)" is the ceiling
    raises TypeError for what is no such frame, ValueError for a metric that it lacks
    """
    measured = _measured(frame, metric)
    scenarios = list(dict.fromkeys(measured.scenario))
    cells: dict[str, dict[str, object]] = {
        str(method): dict.fromkeys(map(str, scenarios), "") for method in measured.method
    }
    for (method, scenario), group in measured.groupby(["method", "scenario"], sort=False):
        values = group.sort_values("seed").value.tolist()
        cells[str(method)][str(scenario)] = interval(values) if len(values) > 1 else values[0]
    caption = f"{metric}: mean and 95 % interval over {measured.seed.nunique()} seeds."
    return plots.table(cells, rows="method", caption=caption)


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
    return plots.dots(values, xlabel=f"{metric}, {scenario}", reference=line)


def _measured(frame: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    compared_frame(frame)
    checks.choice("metric", metric, tuple(dict.fromkeys(frame.metric)))
    return frame[frame.metric == metric]
