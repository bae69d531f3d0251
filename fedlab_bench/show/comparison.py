"""Comparison: what ``fb.compare`` found, as a table or a figure.

Chapter 10 reads them. Below: plots, judge.compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from fedlab_mini import checks
from fedlab_mini.judge.evidence import interval
from fedlab_mini.show import plots

from ..compare import compared_frame
from ..compare.cell import MEASURES, span
from ..compare.methods import CEILING
from ..registry import SHOWN

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
    metric_frame = _measured(frame, metric)
    rows = _picked("methods", methods, metric_frame.method)
    columns = _picked("scenarios", scenarios, metric_frame.scenario)
    low, high = span(metric)
    cell_groups = dict(iter(metric_frame.groupby(["method", "scenario"], sort=False)))
    # Not every method is measured everywhere, but all rows of a table have the same columns.
    cells: dict[str, dict[str, object]] = {
        method: dict.fromkeys(columns, "") for method in rows
    }
    for method, scenario in itertools.product(rows, columns):
        if (method, scenario) in cell_groups:
            per_seed = cell_groups[method, scenario].sort_values("seed").value.tolist()
            # A single seed has no interval, only its value.
            with_interval = spread and len(per_seed) > 1
            mean = sum(per_seed) / len(per_seed)
            cells[method][scenario] = (
                interval(per_seed, low=low, high=high) if with_interval else mean
            )
    shown_words = "mean and 95 % interval" if spread else "mean"
    caption = f"{metric}: {shown_words} over {metric_frame.seed.nunique()} seeds."
    named = {SHOWN.get(method, method): row for method, row in cells.items()}
    return plots.table(named, rows="method", caption=caption)


def _picked(
    argument: str, chosen: Sequence[str] | None, column: pandas.Series
) -> list[str]:
    """What was asked for, each known to the column; without that all that the column has."""
    # Each name once, in the order of the frame, which a set would lose.
    known_names = tuple(map(str, dict.fromkeys(column)))
    if chosen is None:
        return list(known_names)
    checks.instance(argument, chosen, Sequence, "a list of names")
    if not chosen:
        raise ValueError(
            f"{argument}: expected at least one name, got {checks.shown(chosen)}"
        )
    return [checks.choice(argument, chosen_name, known_names) for chosen_name in chosen]


def figure(frame: pandas.DataFrame, scenario: str, metric: str = MEASURES[0]) -> Figure:
    """A dot a seed for every method in one scenario; the dashed line is the truth's own ceiling.

    raises TypeError for what is no such frame, ValueError for a metric or scenario that it lacks
    """
    metric_frame = _measured(frame, metric)
    checks.choice("scenario", scenario, tuple(dict.fromkeys(metric_frame.scenario)))
    by_method = metric_frame[metric_frame.scenario == scenario].groupby(
        "method", sort=False
    )
    per_seed = {
        str(method): group.sort_values("seed").value.tolist()
        for method, group in by_method
    }
    # The truth is no rival of the methods but the line that they are held against.
    ceilings = per_seed.pop(CEILING, None)
    reference = {} if ceilings is None else {"ceiling": sum(ceilings) / len(ceilings)}
    low, high = span(metric)
    axis_label = f"{metric}, {scenario}"
    return plots.dots(
        per_seed, xlabel=axis_label, reference=reference, low=low, high=high
    )


def _measured(frame: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    compared_frame(frame)
    checks.choice("metric", metric, tuple(dict.fromkeys(frame.metric)))
    return frame[frame.metric == metric]
