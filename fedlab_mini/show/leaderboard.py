"""Leaderboard: what ``bench.judge`` found, as a table of text or as a page that can be sorted.

The page *The bench* shows it. Below: tables, judge.bench.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .. import checks
from ..judge.bench.judging import CEILING, MEASURES, Standing, standings
from ..judge.bench.worlds import WORLDS
from .tables import Table, table

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

MEANING = {
    "tau": "rank correlation with retraining, between -1 and 1",
    "AUC": "chance that a client of less use gets the lower score",
    "relative error": "distance to the retrained shares, at the best scale",
    "rank gained": "share of the clients that an attacker overtakes; below 0 it falls behind",
    "pay gained": "share of the pay that an attacker gains; below 0 it loses",
}
Notes = Mapping[str, Mapping[str, str]]
# Sorts by the column whose button is pressed, again the other way round; without it the page reads.
SCRIPT = """<script>
document.querySelectorAll("table.leaderboard").forEach((table) => {
  table.querySelectorAll("thead button").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.parentElement, place = head.cellIndex;
      const rising = head.getAttribute("aria-sort") === "descending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const value = (row) => row.cells[place].dataset.value ?? "";
      const number = (text) => (text === "" ? -Infinity : Number(text));
      const order = (a, b) => (place ? number(value(b)) - number(value(a))
                                     : value(a).localeCompare(value(b)));
      const rows = [...table.tBodies[0].rows].sort((a, b) => (rising ? -1 : 1) * order(a, b));
      table.tBodies[0].append(...rows);
    });
  });
});
</script>"""


def board(
    frame: pandas.DataFrame,
    metric: str = "tau",
    methods: Iterable[str] | None = None,
    families: Iterable[str] | None = None,
) -> Table:
    """A measure of scores (rows) in families (columns): mean, interval and shared place.

    frame    from ``bench.judge`` or ``bench.judged``; scores that are not told apart share a place
    methods  those to show, in this order; None: all. Places are among all
    families  those to show; None: all that the measure has
    raises   ValueError for a metric, a method or a family that it lacks
    """
    rows, known = _rows(frame, metric)
    shown = [checks.choice("families", name, tuple(known)) for name in families or known]
    picked = [checks.choice("methods", name, tuple(rows)) for name in methods or rows]
    cells = {
        method: {family: _text(rows[method].get(family)) for family in shown} for method in picked
    }
    caption = f"{metric}: {MEANING[metric]}; mean [95 % interval] over seeds (shared place)."
    return table(cells, rows="score", caption=caption)


def picture(frame: pandas.DataFrame, metric: str = "tau", family: str | None = None) -> Figure:
    """A row a score and a dot a seed, in one family of scenarios; the dashed line is the ceiling.

    frame   from ``bench.judge`` or ``bench.judged``
    family  None: the first in which the measure has values
    raises  ValueError for a metric or a family that it lacks
    """
    from . import plots  # here: a page and a table need no matplotlib

    _measured(frame, metric)
    of_rows = frame.scenario.map(lambda name: WORLDS[name].family)
    known = tuple(dict.fromkeys(of_rows[frame.metric == metric]))
    asked = known[:1] if family is None else (checks.choice("family", family, known),)
    # Other families are left out at once: to compare all scores in all of them takes seconds.
    rows, (shown,) = _rows(frame[of_rows.isin(asked)], metric)
    values = {name: own[shown].values for name, own in rows.items() if shown in own}
    ceiling = values.pop(CEILING, None)
    line = None if ceiling is None else {"ceiling": sum(ceiling) / len(ceiling)}
    low, high, _ = MEASURES[metric]
    where = f"{metric}, {shown}"
    return plots.dots(values, xlabel=where, ylabel="score", reference=line, low=low, high=high)


def page(frame: pandas.DataFrame, notes: Notes, metrics: tuple[str, ...], title: str) -> str:
    """A page that opens from disk: a sortable table a measure, scores that share the first place
    in one colour; notes {score: {"sees", "cost", "date", "version": words}}."""
    parts = "\n".join(fragment(frame, notes, metric) for metric in metrics)
    style = (
        "body{font-family:sans-serif;margin:1.5rem;max-width:120rem;color-scheme:light dark}"
        "table{border-collapse:collapse}th,td{padding:.3rem .6rem;text-align:left}"
        "td.first{background:#cfe8d5;color:#10301c}small{display:block}"
        ".scroll{overflow-x:auto}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{style}</style></head>\n'
        f"<body><main><h1>{html.escape(title)}</h1>\n{parts}\n{SCRIPT}</main></body></html>\n"
    )


def fragment(frame: pandas.DataFrame, notes: Notes, metric: str) -> str:
    """One measure as a table of HTML, for a page that has the script."""
    rows, families = _rows(frame, metric)
    columns = ["score", "must see", "entered", *families]
    heads = "".join(
        f'<th scope="col"><button type="button">{html.escape(column)}</button></th>'
        if column not in ("must see", "entered")
        else f'<th scope="col">{column}</th>'
        for column in columns
    )
    body = "\n".join(_html_row(method, rows[method], families, notes) for method in rows)
    caption = f"{metric}: {MEANING[metric]}"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(caption)}">\n'
        f'<table class="leaderboard"><caption>{html.escape(caption)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _rows(frame: pandas.DataFrame, metric: str) -> tuple[dict[str, dict[str, Standing]], list[str]]:
    """{score: {family: standing}}, the ceiling first and then by name; and the families."""
    _measured(frame, metric)
    found = standings(frame, metric)
    names = sorted({name for own in found.values() for name in own}, key=str.casefold)
    names.sort(key=lambda name: name != CEILING)
    rows = {
        name: {family: own[name] for family, own in found.items() if name in own} for name in names
    }
    return rows, list(found)


def _measured(frame: pandas.DataFrame, metric: str) -> None:
    checks.choice("metric", metric, tuple(name for name in MEASURES if name in set(frame.metric)))


def _text(standing: Standing | None) -> str:
    if standing is None:
        return ""
    place = f" ({standing.place})" if standing.place else ""
    return f"{standing.interval}{place}"


def _html_row(method: str, own: Mapping[str, Standing], families: list[str], notes: Notes) -> str:
    name = html.escape(method)
    said = notes.get(method, {})
    cost = f"<small>{html.escape(said['cost'])}</small>" if "cost" in said else ""
    version = f"<small>version {html.escape(said['version'])}</small>" if "version" in said else ""
    cells = [
        f'<th scope="row" data-value="{name}">{name}{cost}</th>',
        f"<td>{html.escape(said.get('sees', ''))}</td>",
        f"<td>{html.escape(said.get('date', ''))}{version}</td>",
    ]
    for family in families:
        standing = own.get(family)
        if standing is None:
            cells.append("<td>–</td>")
            continue
        mean, low, high, _ = standing.interval
        kind = ' class="first"' if standing.place == 1 else ""
        place = f", place {standing.place}" if standing.place else ""
        ends = f"<small>{low:.2f} to {high:.2f}{place}</small>"
        cells.append(f'<td{kind} data-value="{mean:.4f}">{mean:.2f}{ends}</td>')
    return f"<tr>{''.join(cells)}</tr>"
