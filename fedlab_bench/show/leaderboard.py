"""Leaderboard: what ``bench.judge`` found, as a table of text or as a page that can be sorted.

The page *The bench* shows it. Below: tables, judge.bench.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fedlab_mini import checks
from fedlab_mini.show.tables import Table, table

from ..bench.judging import CEILING, MEASURES, Standing, standings
from ..bench.worlds import WORLDS
from ..registry import SHOWN

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
    by_method, known_families = _rows(frame, metric)
    shown_families = [
        checks.choice("families", family, tuple(known_families))
        for family in families or known_families
    ]
    picked_methods = [
        checks.choice("methods", method, tuple(by_method))
        for method in methods or by_method
    ]
    cells = {
        SHOWN.get(method, method): {
            family: _text(by_method[method].get(family)) for family in shown_families
        }
        for method in picked_methods
    }
    caption = (
        f"{metric}: {MEANING[metric]}; mean [95 % interval] over seeds (shared place)."
    )
    return table(cells, rows="score", caption=caption)


def picture(
    frame: pandas.DataFrame, metric: str = "tau", family: str | None = None
) -> Figure:
    """A row a score and a dot a seed, in one family of scenarios; the dashed line is the ceiling.

    frame   from ``bench.judge`` or ``bench.judged``
    family  None: the first in which the measure has values
    raises  ValueError for a metric or a family that it lacks
    """
    from fedlab_mini.show import plots  # here: a page and a table need no matplotlib

    # Asked first: a measure that the frame lacks has no family to choose from.
    _measured(frame, metric)
    row_families = frame.scenario.map(lambda scenario: WORLDS[scenario].family)
    known_families = tuple(dict.fromkeys(row_families[frame.metric == metric]))
    asked_families = (
        known_families[:1]
        if family is None
        else (checks.choice("family", family, known_families),)
    )
    # Other families are left out at once: to compare all scores in all of them takes seconds.
    by_method, (shown_family,) = _rows(frame[row_families.isin(asked_families)], metric)
    per_seed = {
        method: by_family[shown_family].values
        for method, by_family in by_method.items()
        if shown_family in by_family
    }
    # The truth is the dashed line, not a row beside the scores.
    ceilings = per_seed.pop(CEILING, None)
    ceiling_line = (
        None if ceilings is None else {"ceiling": sum(ceilings) / len(ceilings)}
    )
    low, high, _ = MEASURES[metric]
    axis_label = f"{metric}, {shown_family}"
    return plots.dots(
        per_seed,
        xlabel=axis_label,
        ylabel="score",
        reference=ceiling_line,
        low=low,
        high=high,
    )


def page(
    frame: pandas.DataFrame, notes: Notes, metrics: tuple[str, ...], title: str
) -> str:
    """A page that opens from disk: a sortable table a measure, scores that share the first place
    in one colour; notes {score: {"sees", "cost", "date", "version": words}}."""
    fragments = "\n".join(fragment(frame, notes, metric) for metric in metrics)
    # Style and script stand in the page itself: it is one file, and needs no server.
    style = (
        "body{font-family:sans-serif;margin:1.5rem;max-width:120rem;color-scheme:light dark}"
        "table{border-collapse:collapse}th,td{padding:.3rem .6rem;text-align:left}"
        "td.first{background:#cfe8d5;color:#10301c}small{display:block}"
        ".scroll{overflow-x:auto}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n"
        f'<meta name="viewport" content="width=device-width">\n<style>{style}</style></head>\n'
        f"<body><main><h1>{html.escape(title)}</h1>\n{fragments}\n{SCRIPT}</main></body></html>\n"
    )


def fragment(frame: pandas.DataFrame, notes: Notes, metric: str) -> str:
    """One measure as a table of HTML, for a page that has the script."""
    by_method, families = _rows(frame, metric)
    columns = ["score", "must see", "entered", *families]
    # Cells of the two columns of words have no data-value: a button would sort nothing there.
    head_cells = "".join(
        f'<th scope="col"><button type="button">{html.escape(column)}</button></th>'
        if column not in ("must see", "entered")
        else f'<th scope="col">{column}</th>'
        for column in columns
    )
    body_rows = "\n".join(
        _html_row(method, by_method[method], families, notes) for method in by_method
    )
    caption = f"{metric}: {MEANING[metric]}"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(caption)}">\n'
        f'<table class="leaderboard"><caption>{html.escape(caption)}</caption>\n'
        f"<thead><tr>{head_cells}</tr></thead>\n<tbody>\n{body_rows}\n</tbody></table></div>"
    )


def _rows(
    frame: pandas.DataFrame, metric: str
) -> tuple[dict[str, dict[str, Standing]], list[str]]:
    """{score: {family: standing}}, the ceiling first and then by name; and the families."""
    _measured(frame, metric)
    family_standings = standings(frame, metric)
    methods = sorted(
        {
            method
            for its_standings in family_standings.values()
            for method in its_standings
        },
        key=str.casefold,
    )
    # Sorting is stable: this moves the ceiling to the front and leaves the others in order.
    methods.sort(key=lambda method: method != CEILING)
    by_method = {
        method: {
            family: its_standings[method]
            for family, its_standings in family_standings.items()
            if method in its_standings
        }
        for method in methods
    }
    return by_method, list(family_standings)


def _measured(frame: pandas.DataFrame, metric: str) -> None:
    checks.choice(
        "metric",
        metric,
        tuple(measure for measure in MEASURES if measure in set(frame.metric)),
    )


def _text(standing: Standing | None) -> str:
    if standing is None:
        return ""
    place_words = f" ({standing.place})" if standing.place else ""
    return f"{standing.interval}{place_words}"


def _html_row(
    method: str, by_family: Mapping[str, Standing], families: list[str], notes: Notes
) -> str:
    # Anybody can enter a score: its name and its notes are text on the page, never HTML.
    escaped_name = html.escape(SHOWN.get(method, method), quote=False)
    its_notes = notes.get(method, {})
    cost_html = (
        f"<small>{html.escape(its_notes['cost'])}</small>" if "cost" in its_notes else ""
    )
    version_html = (
        f"<small>version {html.escape(its_notes['version'])}</small>"
        if "version" in its_notes
        else ""
    )
    cells = [
        f'<th scope="row" data-value="{escaped_name}">{escaped_name}{cost_html}</th>',
        f"<td>{html.escape(its_notes.get('sees', ''))}</td>",
        f"<td>{html.escape(its_notes.get('date', ''))}{version_html}</td>",
    ]
    for family in families:
        standing = by_family.get(family)
        if standing is None:
            # Without a data-value the script sorts this cell below every number.
            cells.append("<td>–</td>")
            continue
        mean, low, high, _ = standing.interval
        td_class = ' class="first"' if standing.place == 1 else ""
        place_words = f", place {standing.place}" if standing.place else ""
        interval_html = f"<small>{low:.2f} to {high:.2f}{place_words}</small>"
        # Sorted by four digits though two are shown: what looks equal may be in order.
        cells.append(
            f'<td{td_class} data-value="{mean:.4f}">{mean:.2f}{interval_html}</td>'
        )
    return f"<tr>{''.join(cells)}</tr>"
