"""Leaderboard: the results of ``fb.judge``, as a text table or as a page that can be sorted.

Chapter 10 and the page *The bench* show them. Builds on judging and measures.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from fedlab_mini.judge.evidence import interval
from fedlab_mini.parse import checks
from fedlab_mini.show.tables import Table, table

from ..compared import CEILING, shown
from ..judging import Standing, compared_frame, family_of, over_seeds, standings
from ..measures import MEASURES

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Notes = Mapping[str, Mapping[str, str]]
Standings = dict[str, Standing]
# Sorts by the column of the pressed button, and reverses when pressed again; otherwise optional.
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

    frame    from ``judge`` or ``judged``; scores without a clear difference share a place
    methods  methods to show, in this order; None: all. Places are always among all methods
    families  families to show; None: all families of the measure
    raises   ValueError for a metric, a method or a family that is not in the frame
    """
    known, by_family = _rows(frame, metric)
    picked = _picked("families", families, by_family)
    cells = {
        shown(method): {shown(family): _text(by_family[family].get(method)) for family in picked}
        for method in _picked("methods", methods, known)
    }
    meaning = MEASURES[metric].meaning
    caption = f"{metric}: {meaning}; mean [95 % interval] over seeds (shared place)."
    return table(cells, rows="score", caption=caption)


def summary(
    frame: pandas.DataFrame,
    metric: str = "tau",
    *,
    methods: Sequence[str] | None = None,
    scenarios: Sequence[str] | None = None,
    spread: bool = True,
    against: str | None = None,
) -> Table:
    """A measure of methods (rows) in scenarios (columns), over seeds.

    frame    from ``compare``; the row `(the truth itself)` is the ceiling
    methods, scenarios  names to show, in this order; None: all
    spread   True: mean and interval; False: only the mean
    against  a method: the table shows its value minus that of each other method, seed by seed. If
             the interval contains 0, the two are indistinguishable
    raises   TypeError for another frame, ValueError for names that are not in the frame
    """
    checks.flag("spread", spread)
    rows = _measured(frame, metric).dropna(subset="value")
    columns = _picked("scenarios", scenarios, rows.scenario)
    low, high, *_ = MEASURES[metric]
    # In the order of seeds, because differences are taken seed by seed.
    by_seed = {
        key: per_seed.set_index("seed").value.sort_index()
        for key, per_seed in rows.groupby(["method", "scenario"], sort=False)
    }
    names, what = _picked("methods", methods, rows.method), ""
    if against is not None:
        checks.choice("against", against, tuple(dict.fromkeys(rows.method)))
        names = [method for method in names if method != against]
        by_seed = {
            (method, scenario): (by_seed[against, scenario] - values).dropna()
            for (method, scenario), values in by_seed.items()
            if (against, scenario) in by_seed
        }
        low, high = low - high, high - low
        what = f", {shown(against)} minus the method of the row"

    def cell(values: Sequence[float]) -> object:
        # A single seed has no interval, only its value.
        if spread and len(values) > 1:
            return interval(values, low=low, high=high)
        return sum(values) / len(values) if len(values) else ""

    # Not every method is measured everywhere, but all rows have the same columns.
    found = {
        (method, scenario): [*by_seed.get((method, scenario), ())]
        for method in names
        for scenario in columns
    }
    cells = {
        shown(method): {shown(scenario): cell(found[method, scenario]) for scenario in columns}
        for method in names
    }
    counts = {len(values) for values in found.values() if values}
    words = "mean and 95 % interval" if spread else "mean"
    seeds = " to ".join(map(str, sorted({min(counts), max(counts)}))) if counts else "0"
    caption = f"{metric}{what}: {words} over {seeds} seeds."
    return table(cells, rows="method", caption=caption)


def picture(
    frame: pandas.DataFrame,
    metric: str = "tau",
    place: str | Sequence[str] | None = None,
    own: Sequence[str] = (),
) -> Figure:
    """A figure with one panel per scenario, one row per method and one dot per seed.

    frame   from ``compare``, ``judge`` or ``judged``; the dashed line is the ceiling
    place   a scenario, a family of scenarios, or several; None: every family that has values
    own     methods to highlight
    raises  TypeError for another frame, ValueError for names that are not in the frame
    """
    # Imported here, because a page and a table do not need matplotlib.
    from fedlab_mini.show import canvas
    from fedlab_mini.show.styles import styles

    rows = _measured(frame, metric)
    families = rows.scenario.map(family_of)
    known = [*families, *rows.scenario] if place is not None else families
    places = _picked("place", [place] if isinstance(place, str) else place, known)
    methods = [name for name in _picked("own", None, rows.method) if name != CEILING]
    checks.instance("own", own, Sequence, "a list of names")
    mine = [checks.choice("own", name, tuple(methods)) for name in own]
    columns = canvas.columns_of(len(places))
    size = 2.4 + 2.8 * columns, 0.8 + 0.3 * len(methods)
    figure, axes = canvas.new_figure(*size, len(places))
    low, high, _, meaning = MEASURES[metric]
    told = []
    for number, (name, axis) in enumerate(zip(places, axes, strict=True)):
        chosen = rows.scenario if name in set(rows.scenario) else families
        ((_, per_seed, _),) = over_seeds(rows[chosen == name], metric)
        for row, (method, style) in enumerate(styles(methods).items()):
            if method in mine:
                axis.axhspan(row - 0.45, row + 0.45, color="#FFE680", zorder=0)
            if method in per_seed:
                values = torch.tensor(per_seed[method], dtype=torch.float64)
                colour = "black" if method in mine else style.colour
                words = canvas.dots_row(axis, row, values, colour, low, high)
                told.append(f"{shown(name)}, {shown(method)} {words}")
        # The ceiling is the dashed line, not a row among the methods.
        if CEILING in per_seed:
            mean = sum(per_seed[CEILING]) / len(per_seed[CEILING])
            axis.axvline(mean, color="0.5", linestyle="--", linewidth=1)
        axis.set(title=shown(name), ylim=(len(methods) - 0.4, -0.6))
        axis.grid(axis="x", color="0.9", linewidth=0.8)
        # One column of names is enough, because all panels have the same rows.
        names = [canvas.shown_label(shown(method)) for method in methods]
        axis.set_yticks(range(len(methods)), names if number % columns == 0 else [])
        for method, label in zip(methods, axis.get_yticklabels(), strict=False):
            label.set_fontweight("bold" if method in mine else "normal")
    # All panels have the same ends, so that they can be compared.
    ends = [end for axis in axes for end in axis.get_xlim()]
    for axis in axes:
        axis.set_xlim(min(ends), max(ends))
    figure.supxlabel(f"{metric}: {meaning}\ndashed: the ceiling, a second training run")
    figure.supylabel("method")
    seen = "a dot a seed, and below it the mean and its 95 % interval"
    return canvas.finished(figure, f"{metric}: {seen}.", f"{metric}: {'; '.join(told)}.")


def page(frame: pandas.DataFrame, notes: Notes, metrics: tuple[str, ...], title: str) -> str:
    """A page that opens from disk, with one sortable table per measure; a colour marks scores in
    first place. notes {score: {"sees", "cost", "date", "version": text}}."""
    fragments = "\n".join(fragment(frame, notes, metric) for metric in metrics)
    # The page includes style and script, so it is one file and needs no server.
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
    methods, by_family = _rows(frame, metric)
    # The two columns of words have no button, because their cells have no data-value to sort by.
    score, *families = (
        f'<th scope="col"><button type="button">{html.escape(shown(column))}</button></th>'
        for column in ("score", *by_family)
    )
    words = '<th scope="col">must see</th><th scope="col">entered</th>'
    head_cells = f"{score}{words}{''.join(families)}"
    body_rows = "\n".join(
        _html_row(method, notes.get(method, {}), [own.get(method) for own in by_family.values()])
        for method in methods
    )
    caption = f"{metric}: {MEASURES[metric].meaning}"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(caption)}">\n'
        f'<table class="leaderboard"><caption>{html.escape(caption)}</caption>\n'
        f"<thead><tr>{head_cells}</tr></thead>\n<tbody>\n{body_rows}\n</tbody></table></div>"
    )


def _rows(frame: pandas.DataFrame, metric: str) -> tuple[list[str], dict[str, Standings]]:
    """The scores, the ceiling first, then by name; and {family: {score: standing}}."""
    _measured(frame, metric)
    by_family = standings(frame, metric)
    methods = {method for own in by_family.values() for method in own}
    return sorted(methods, key=lambda name: (name != CEILING, name.casefold())), by_family


def _measured(frame: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    compared_frame(frame)
    known = tuple(measure for measure in MEASURES if measure in set(frame.metric))
    return frame[frame.metric == checks.choice("metric", metric, known)]


def _picked(argument: str, chosen: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """The chosen names, each of them known; if none are chosen, all names in their order."""
    # Each name once, in the order of the frame, which a set would lose.
    names = tuple(map(str, dict.fromkeys(known)))
    if chosen is None:
        return list(names)
    checks.instance(argument, chosen, Sequence, "a list of names")
    asked = [checks.choice(argument, name, names) for name in chosen]
    if not asked:
        raise ValueError(f"{argument}: expected at least one name")
    return asked


def _text(standing: Standing | None) -> str:
    if standing is None:
        return ""
    place_words = f" ({standing.place})" if standing.place else ""
    return f"{standing.interval}{place_words}"


def _html_row(method: str, notes: Mapping[str, str], own: Iterable[Standing | None]) -> str:
    # Anybody can enter a score, so its name and notes are escaped, never HTML.
    name = html.escape(shown(method), quote=False)
    told = {key: html.escape(text) for key, text in notes.items()}
    cost = f"<small>{told['cost']}</small>" if "cost" in told else ""
    version = f"<small>version {told['version']}</small>" if "version" in told else ""
    return (
        f'<tr><th scope="row" data-value="{name}">{name}{cost}</th>'
        f"<td>{told.get('sees', '')}</td><td>{told.get('date', '')}{version}</td>"
        f"{''.join(map(_html_cell, own))}</tr>"
    )


def _html_cell(standing: Standing | None) -> str:
    if standing is None:
        # Without a data-value the script sorts this cell below every number.
        return "<td>–</td>"
    mean, low, high, _ = standing.interval
    first = ' class="first"' if standing.place == 1 else ""
    place = f", place {standing.place}" if standing.place else ""
    # Sorted by four digits though two are shown, so cells that look equal may differ.
    return (
        f'<td{first} data-value="{mean:.4f}">{mean:.2f}'
        f"<small>{low:.2f} to {high:.2f}{place}</small></td>"
    )
