"""Comparison: what ``fm.compare`` found, as a table or a figure.

Chapter 10 reads them. Below: plots, judge.compare.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from .. import checks
from ..judge.compare import CEILING
from ..judge.evidence import interval
from . import plots


def summary(frame: pd.DataFrame, metric: str = "tau with retraining") -> plots.Table:
    """A metric of every method (rows) in every scenario (columns): mean and interval over seeds.

    frame  from ``compare``; the row "(the truth itself)" is the ceiling
    raises ValueError for a metric that the frame lacks
    """
    part = _of(frame, metric)
    data: dict[str, dict[str, object]] = {}
    for (method, scenario), group in part.groupby(["method", "scenario"], sort=False):
        x = group.sort_values("seed").value.tolist()
        data.setdefault(str(method), {})[str(scenario)] = interval(x) if len(x) > 1 else x[0]
    columns = list(dict.fromkeys(part.scenario))
    full = {name: {c: row.get(c, "") for c in columns} for name, row in data.items()}
    told = f"{metric}: mean and 95 % interval over {part.seed.nunique()} seeds."
    return plots.table(full, rows="method", caption=told)


def figure(frame: pd.DataFrame, scenario: str, metric: str = "tau with retraining") -> Figure:
    """A dot a seed for every method in one scenario; the dashed line is the truth's own ceiling.

    raises ValueError for a metric or a scenario that the frame lacks
    """
    part = _of(frame, metric)
    checks.choice("scenario", scenario, tuple(dict.fromkeys(part.scenario)))
    part = part[part.scenario == scenario]
    values = {
        str(method): group.sort_values("seed").value.tolist()
        for method, group in part.groupby("method", sort=False)
    }
    ceiling = values.pop(CEILING, None)
    line = {} if ceiling is None else {"ceiling": sum(ceiling) / len(ceiling)}
    return plots.dots(values, xlabel=f"{metric}, {scenario}", reference=line)


def _of(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    checks.choice("metric", metric, tuple(dict.fromkeys(frame.metric)))
    return frame[frame.metric == metric]
