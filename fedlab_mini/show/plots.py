"""Plots: figure functions of the book. Each returns a figure with a ``caption`` and an ``alt``.

A method has one colour and one marker, and a client one colour, in every chapter. Vermilion means
corrupted clients and noise, black the exact value, grey whatever is no method. All pairs of methods
stay apart with normal sight, deuteranopia and protanopia; marker and line style say it once more.
The tables stand here because only the figures read them. A figure with one panel can be read on a
phone: its smallest text stays 9 pixels high where the figure is 350 pixels wide.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from torch import Tensor

from .. import checks
from ..judge.evidence import interval
from ..judge.removal import RemovalCurves
from ..worlds.federation import Federation

EXACT, CORRUPTED = "#000000", "#D55E00"
SETTINGS = ("#5A5F6E", "#AFAAA0", "#85807B")  # greys; sound clients have the first
CLIENTS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"),
    *("#8C564B", "#6A3D9A", "#7F7F7F", "#B2DF8A", "#000000"),
)
METHODS = {
    "FedAvg": ("#0072B2", "o"),
    "exact": (EXACT, "s"),
    "leave-one-out": ("#E69F00", "D"),
    "truncated": ("#009E73", "^"),
    "permutation": ("#B41EA5", "v"),
    "guided": ("#5A0096", "<"),
    "kernel": ("#0078FF", ">"),
    "Banzhaf": ("#4B2D5A", "p"),
    "CGSV": ("#CC79A7", "P"),
    "F-RCCE": ("#691E78", "8"),
    "FLDVE": ("#3C4BC3", "v"),
    "removal": ("#874B00", "d"),
    "FedCCEA": ("#56B4E9", "h"),
    "S-FedAvg": ("#78003C", "*"),
    "label standardisation": ("#A5B469", ">"),
    "uniform": ("#3C693C", "H"),
    "random": ("#3C3C0F", "p"),
    "own loss": ("#2DC3D2", "<"),
    "oracle": ("#6996FF", "|"),
}
ALIASES = {
    "Shapley": "exact",
    "LOO": "leave-one-out",
    "TMC": "truncated",
    "orders": "permutation",
    "AAM": "FedCCEA",
}
ROLES = {"corrupted": (CORRUPTED, "X"), "sound": (SETTINGS[0], "o")}
BAD = (
    *("corrupted", "corruption", "noisy", "noise", "irrelevant"),
    *("exchanged", "wrong", "flipped", "scaled"),
)
GOOD = ("sound", "healthy", "relevant", "no corruption", "no noise")
WORDS = (
    {**{name: name for name in METHODS}, **ALIASES},
    dict.fromkeys(BAD, "corrupted"),
    dict.fromkeys(GOOD, "sound"),
)
MARKERS, LINES = "sD^v<>dohp8H*P", ("-", "--", "-.", ":")


class Style(NamedTuple):
    """How a label is drawn."""

    colour: str
    marker: str
    line: str = "-"


def client_colour(k: int) -> str:
    """The colour of client ``k``; every tenth client has the same."""
    return CLIENTS[k % len(CLIENTS)]


def _named(label: str) -> str | None:
    """The method that a label names as a whole word, else the role of clients, else None."""
    apart = r"(?<![\w-])(?<!\bno )(?<!\bwithout )({})(?![\w-])"
    for words in WORDS:
        found = {word: re.search(apart.format(word), label, re.I) for word in words}
        at = [(hit.start(), -len(word), words[word]) for word, hit in found.items() if hit]
        if at:
            return min(at)[2]
    return None


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """The style of each label of a figure.

    A label that names a method, or corrupted or sound clients, has the colour of what it names.
    The bare name, or else the first such label, has the marker too, and a solid line; the others
    take other markers and lines. All other labels are grey
    """
    labels, bare = [*dict.fromkeys(labels)], {word.lower() for word in WORDS[0]}
    groups: dict[str | None, list[str]] = {}
    for label in sorted(labels, key=lambda label: label.lower() not in bare):
        groups.setdefault(_named(label), []).append(label)
    fixed = {name: style for name, style in (METHODS | ROLES).items() if name in groups}
    used = {marker for _, marker in fixed.values()}
    free = itertools.cycle([marker for marker in MARKERS if marker not in used] or MARKERS)
    greys = SETTINGS[1:] + SETTINGS[:1] if "sound" in groups else SETTINGS
    made = {}
    for name, members in groups.items():
        for i, (label, line) in enumerate(zip(members, itertools.cycle(LINES), strict=False)):
            colour, marker = fixed.get(name or "", (greys[i % len(greys)], ""))
            made[label] = Style(colour, marker if marker and i == 0 else next(free), line)
    return {label: made[label] for label in labels}


def _labelled(name: str, given: Mapping[str, Any], *shape: int | str) -> dict[str, Tensor]:
    """Numbers of a shape by label, as float64; refuses what is no mapping, empty or of no shape."""
    checks.instance(name, given, Mapping, "{label: values}")
    if not given:
        raise ValueError(f"{name}: expected at least one label")
    return {
        k: checks.reals(f"{name}[{k!r}]", v, shape, dtype=torch.float64, finite=False).cpu()
        for k, v in given.items()
    }


def _seen(label: str) -> str:
    """A label that matplotlib's legends show, also where it begins with an underscore."""
    return f"\u200b{label}" if label.startswith("_") else label


def _columns(panels: int) -> int:
    """How many panels stand in a row."""
    return 2 if panels == 4 else min(panels, 3)


def _figure(
    width: float = 5.0, height: float = 3.3, panels: int = 1
) -> tuple[Figure, list[plt.Axes]]:
    """A figure with its panels, of this height each; in inches."""
    columns = _columns(panels)
    rows = math.ceil(panels / columns)
    size = (width, height * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    axes = list(grid.flat)
    for axis in axes[panels:]:
        axis.remove()
    for axis in axes[:panels]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.9", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, axes[:panels]


def _done(figure: Figure, caption: str, alt: str) -> Figure:
    vars(figure).update(caption=caption, alt=alt)
    plt.close(figure)  # shown once, where the caller shows it
    return figure


def _legend(figure: Figure, axis: plt.Axes) -> None:
    """The labels: in the picture, or beside it where they are many."""
    handles, labels = axis.get_legend_handles_labels()
    if len(labels) <= 8:
        axis.legend(frameon=False)
    else:
        figure.legend(handles, labels, loc="outside right upper", frameon=False)


def _client_axis(axis: plt.Axes, count: int, bad: Collection[int]) -> None:
    """Ticks for clients; the corrupted ones are marked by word or sign and in vermilion."""
    mark = "corrupted" if count <= 5 else "×"
    names = [f"{k}\n{mark}" if k in bad else str(k) for k in range(count)]
    axis.set_xticks(range(count), names)
    for k in bad:
        axis.get_xticklabels()[k].set_color(CORRUPTED)
    axis.set_xlabel("client" if count <= 5 or not bad else "client (×: corrupted)")


def curves(
    lines: Mapping[str, Tensor],
    *,
    x: Sequence[float] | Tensor | None = None,
    xlabel: str = "round",
    ylabel: str = "test accuracy",
    title: str = "",
    log: bool = False,
) -> Figure:
    """One line a label: [T] values, or [seeds, T]: every seed thin, their mean thick.

    log  both axes are logarithmic
    """
    runs = {k: v.reshape(-1, v.shape[-1]) for k, v in _labelled("lines", lines, "T", "...").items()}
    at = {
        k: range(v.shape[1]) if x is None else checks.reals("x", x, [v.shape[1]], finite=False)
        for k, v in runs.items()
    }
    log = checks.flag("log", log)
    figure, (axis,) = _figure()
    for label, (colour, marker, line) in styles(runs).items():
        values = runs[label]
        if len(values) > 1:
            axis.plot(at[label], values.T, line, color=colour, alpha=0.3, linewidth=0.8)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5}
        look |= {"markevery": max(1, values.shape[1] // 8), "label": _seen(label)}
        axis.plot(at[label], values.mean(0), line, **look)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if log:
        axis.set(xscale="log", yscale="log")
    elif x is None:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axis)
    ends = ", ".join(f"{label} {float(v[:, -1].mean()):.2f}" for label, v in runs.items())
    return _done(
        figure,
        f"{ylabel.capitalize()} against {xlabel}.",
        f"Lines of {ylabel} against {xlabel}; at the end: {ends}.",
    )


def panels(
    lines: Mapping[str, Mapping[str, Tensor]],
    *,
    x: Sequence[float] | Tensor,
    xlabel: str = "round",
    ylabel: str,
    chance: float | None = None,
) -> Figure:
    """A small picture a name, three beside each other: means over seeds with 95 % intervals.

    lines[name][label]  [seeds, n] at the places x [n], on a logarithmic axis
    chance              a dashed line; what is shown is then a share, from 0 to 1
    """
    look, said = styles(label for part in lines.values() for label in part), []
    figure, axes = _figure(7.6, 1.8, len(lines))
    columns = _columns(len(lines))
    for i, (axis, (name, part)) in enumerate(zip(axes, lines.items(), strict=True)):
        for label, values in _labelled("lines", part, "seeds", len(x)).items():
            found = [interval(column) for column in values.T]
            colour, marker, line = look[label]
            band = [f.low for f in found], [f.high for f in found]
            axis.fill_between(x, *band, color=colour, alpha=0.2)
            shown: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
            axis.plot(x, values.mean(0), line, label=_seen(label), **shown)
            said.append(f"{name}, {label} {found[-1]}")
        axis.set(title=name, xscale="log", xlabel=xlabel, ylabel=ylabel)
        if max(x) < 30 * min(x):  # powers of ten are too few
            axis.set_xticks(list(x), [f"{place:g}" for place in x])
            axis.xaxis.set_minor_locator(NullLocator())
        left, bottom = i % columns == 0, i + columns >= len(lines)
        axis.tick_params(labelleft=left, labelbottom=bottom)
        axis.yaxis.label.set_visible(left)
        axis.xaxis.label.set_visible(bottom)
        if chance is not None:
            axis.set_ylim(-0.05, 1.05)
            axis.axhline(chance, color="0.5", linestyle="--", linewidth=1)
    ends = [axis.get_ylim() for axis in axes]  # the numbers stand at the left only
    for axis in axes:
        axis.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    return _done(
        figure,
        f"{ylabel.capitalize()} against {xlabel}: means over seeds with 95 % intervals.",
        f"Small pictures of {ylabel} against {xlabel}; at the end: {'; '.join(said)}.",
    )


def by_client(
    values: Tensor,
    *,
    corrupted: Iterable[int] | Mapping[int, str] = (),
    xlabel: str = "round",
    ylabel: str = "contribution",
    title: str = "",
) -> Figure:
    """One line a client in its colour; corrupted clients are dashed, marked and named.

    values [T, K]  one column a client
    corrupted      their ids, or {id: what is wrong with it}
    """
    values = checks.reals("values", values, ["T", "K"], dtype=torch.float64, finite=False).cpu()
    K = values.shape[1]
    bad = checks.distinct_ids("corrupted", list(corrupted), K).tolist()
    marks = corrupted if isinstance(corrupted, Mapping) else dict.fromkeys(bad, "corrupted")
    kinds = list(dict.fromkeys(marks.values()))  # each with a marker and a line style
    figure, (axis,) = _figure()
    points: dict[str, Any] = {"markersize": 6, "markevery": max(1, len(values) // 8)}
    for k, line in enumerate(values.T):
        look: dict[str, Any] = {"color": client_colour(k), "linewidth": 1.2}
        look["marker"] = MARKERS[k % len(MARKERS)]
        if k in marks:
            i = kinds.index(marks[k]) % 3
            look |= {"marker": "XP*"[i], "linestyle": LINES[i + 1], "linewidth": 2, "zorder": 3}
            look |= {"markerfacecolor": CORRUPTED, "markeredgecolor": CORRUPTED}
        axis.plot(line, label=f"{k} {marks.get(k, '')}".strip(), **look, **points)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    columns = 1 + (K - 1) // 12
    figure.legend(title="client", loc="outside right upper", frameon=False, ncols=columns)
    for k in marks:
        figure.legends[0].get_texts()[k].set_color(CORRUPTED)
    named = "; ".join(f"client {k} is {mark}" for k, mark in marks.items()) or "none is corrupted"
    return _done(
        figure,
        f"{ylabel.capitalize()} of {K} clients against {xlabel}.",
        f"One line of {ylabel} a client against {xlabel}, {K} clients; {named}.",
    )


def holdings(fed: Federation, *, title: str = "") -> Figure:
    """Who holds what: a grid of clients by classes, darker where a client holds more samples."""
    counts = checks.instance("fed", fed, Federation, "a Federation").label_counts
    figure, (axis,) = _figure(height=0.9 + 0.28 * fed.classes)
    axis.grid(False)
    image = axis.imshow(counts.T.numpy(), cmap="Blues", aspect="auto", vmin=0, interpolation="none")
    figure.colorbar(image, ax=axis, label="samples")
    axis.set(ylabel="class", title=title, yticks=range(fed.classes))
    _client_axis(axis, fed.clients, fed.corrupted)
    low, high = int(fed.sizes.min()), int(fed.sizes.max())
    mean = float((counts > 0).sum(1).double().mean())
    return _done(
        figure,
        f"Samples of each class held by each of {fed.clients} clients.",
        f"Grid of {fed.clients} clients by {fed.classes} classes; a client holds {low} to {high} "
        f"samples of {mean:.1f} classes on average.",
    )


def scores(
    values: Mapping[str, Tensor],
    *,
    corrupted: Iterable[int] = (),
    stderr: Mapping[str, Tensor] | None = None,
    ylabel: str = "contribution",
    title: str = "",
) -> Figure:
    """Grouped bars: a group a client, a bar a method; corrupted clients are hatched and marked.

    values  [K] numbers a label; stderr  the same for the labels that have standard errors
    The bars of a single method have the colours of the clients
    """
    rows = _labelled("values", values, "K")
    count = len(next(iter(rows.values())))
    rows = _labelled("values", rows, count)
    spans = _labelled("stderr", stderr, count) if stderr else {}
    bad = checks.distinct_ids("corrupted", corrupted, count).tolist()
    figure, (axis,) = _figure()
    width = 0.8 / len(rows)
    for j, (label, style) in enumerate(styles(rows).items()):
        at = [k + (j - (len(rows) - 1) / 2) * width for k in range(count)]
        look: dict[str, Any] = {"capsize": 2}
        look["yerr"] = spans[label].tolist() if label in spans else None
        colour = style.colour if len(rows) > 1 else [client_colour(k) for k in range(count)]
        bars = axis.bar(at, rows[label].tolist(), width, color=colour, label=_seen(label), **look)
        for k in bad:
            bars[k].set(hatch="//", edgecolor=CORRUPTED, linewidth=1.5)
    axis.axhline(0, color="0.3", linewidth=0.8)
    _client_axis(axis, count, bad)
    axis.set(ylabel=ylabel, title=title)
    if len(rows) > 1:
        _legend(figure, axis)
    lowest = "; ".join(f"{k}: lowest is client {int(v.argmin())}" for k, v in rows.items())
    return _done(
        figure,
        f"{ylabel.capitalize()} of {count} clients.",
        f"Bars of {ylabel} for {count} clients. {lowest}.",
    )


def dots(
    values: Mapping[str, Sequence[float] | Tensor],
    *,
    xlabel: str,
    ylabel: str = "setting",
    reference: Mapping[str, float] | None = None,
    title: str = "",
) -> Figure:
    """A row a label: a dot a seed, and beneath it the mean with its 95 % interval.

    values     [seeds] numbers a label; at least 2 seeds give an interval (`evidence.interval`)
    reference  vertical lines by name, such as {"chance": 0.5}
    """
    rows = _labelled("values", values, "seeds")
    figure, (axis,) = _figure(height=1.1 + 0.42 * len(rows))
    said = []
    for at, (label, style) in enumerate(styles(rows).items()):
        x, low = rows[label], at + 0.22
        look: dict[str, Any] = {"color": style.colour, "clip_on": False, "zorder": 3}
        axis.plot(x, [at - 0.08] * len(x), "o", markersize=4, alpha=0.6, **look)
        said.append(f"{label} {x.mean():.2f}")
        if len(x) > 1:
            found = interval(x)
            axis.plot([found.low, found.high], [low, low], "-", linewidth=2, **look)
            said[-1] = f"{label} {found}"
        axis.plot([float(x.mean())], [low], "D", markersize=5, **look)
    for name, place in (reference or {}).items():
        axis.axvline(place, color="0.5", linestyle="--", linewidth=1)
        above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points"}
        where: dict[str, Any] = {"xycoords": axis.get_xaxis_transform(), "ha": "center"}
        axis.annotate(name, (place, 1), va="bottom", **where, **above)  # clear of all dots
    axis.set_yticks(range(len(rows)), [_seen(label) for label in rows])
    axis.set(xlabel=xlabel, ylabel=ylabel, ylim=(len(rows) - 0.4, -0.6))
    axis.set_title(title, pad=20 if reference else None)
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    return _done(
        figure,
        f"{xlabel.capitalize()}: a dot a seed; below it the mean and its 95 % interval.",
        f"Rows of dots, {xlabel}; mean and interval: {'; '.join(said)}.",
    )


def errors(
    evaluations: Mapping[str, Sequence[float]],
    error: Mapping[str, Tensor],
    *,
    exact_at: int | None = None,
    ylabel: str = "mean absolute error",
    title: str = "",
) -> Figure:
    """Error of estimators against how many coalitions they evaluated, both axes logarithmic.

    evaluations, error  [n] numbers a label, the same labels in both
    """
    counts, error = _labelled("evaluations", evaluations, "n"), _labelled("error", error, "n")
    if {k: len(v) for k, v in counts.items()} != {k: len(v) for k, v in error.items()}:
        raise ValueError("error: expected as many numbers of each label as evaluations has")
    figure, (axis,) = _figure()
    for label, (colour, marker, line) in styles(counts).items():
        look = {"color": colour, "marker": marker, "markersize": 5, "linestyle": line}
        axis.loglog(counts[label], error[label], label=_seen(label), **look)
    if exact_at is not None:
        axis.axvline(exact_at, color=EXACT, linestyle="--", linewidth=1)
        text: dict[str, Any] = {"ha": "right", "va": "top", "rotation": 90}
        axis.annotate(f"exact: {exact_at}", (exact_at, axis.get_ylim()[1]), **text)
    axis.set(xlabel="coalitions evaluated", ylabel=ylabel, title=title)
    _legend(figure, axis)
    best = min(error, key=lambda label: float(error[label][-1]))
    return _done(
        figure,
        "Error of each estimator against its number of evaluations.",
        f"Error against evaluations, logarithmic axes; the lowest at the end is {best}.",
    )


def removal(results: Mapping[str, RemovalCurves], *, title: str = "") -> Figure:
    """Test accuracy without the highest-scored and without the lowest-scored clients."""
    for label, result in checks.instance("results", results, Mapping, "{label: curves}").items():
        checks.instance(f"results[{label!r}]", result, RemovalCurves, "what removal_curves returns")
    figure, panels = _figure(7.6, 3.4, 2)
    panels[1].sharey(panels[0])
    for axis, side in zip(panels, ("highest", "lowest"), strict=True):
        for label, (colour, marker, line) in styles(results).items():
            result = results[label]
            look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line}
            axis.plot(result.removed, getattr(result, side), label=_seen(label), **look)
        axis.set(xlabel=f"{side}-scored clients removed", ylabel="test accuracy")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, panels[0])
    figure.suptitle(title)
    return _done(
        figure,
        "Test accuracy after retraining without the best and without the worst clients.",
        "Two panels: test accuracy against the number of best, and of worst, clients removed.",
    )


def confusion(tables: Mapping[str, Tensor], *, rows: str = "true class", title: str = "") -> Figure:
    """Confusion matrices side by side: ``tables[label]`` [classes, classes], row = true class.

    Each row is scaled to shares; the diagonal holds the recall of every class. ``rows`` names what
    the rows are where they are not true classes, e.g. a client's labels
    """
    found = _labelled("tables", tables, "classes", "classes")
    figure, panels = _figure(1.2 + 2.6 * _columns(len(found)), 3.0, len(found))
    for axis, (label, table) in zip(panels, found.items(), strict=True):
        share = table / table.sum(1, keepdim=True).clamp(min=1)
        image = axis.imshow(share.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="none")
        axis.grid(False)
        axis.set(xlabel="predicted class", ylabel=rows, title=label)
        axis.set(xticks=range(table.shape[1]), yticks=range(len(table)))
    figure.colorbar(image, ax=panels, label=f"share of the {rows}")
    figure.suptitle(title)
    hits = {label: float(t.diagonal().sum() / t.sum()) for label, t in found.items()}
    hit = ", ".join(f"{label} {share:.2f}" for label, share in hits.items())
    return _done(
        figure,
        f"Confusion matrices: {rows} against predicted class.",
        f"Confusion matrices; share of right predictions: {hit}.",
    )


class Table:
    """A table that a notebook shows as HTML and a terminal as text; made by ``table``."""

    def __init__(self, header: list[str], rows: list[list[str]], best: set, caption: str):
        self.header, self.rows, self.best, self.caption = header, rows, best, caption

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        pads = [[str.ljust, *[str.rjust] * (len(wide) - 1)]] * len(lines)
        text = [
            "  ".join(pad(cell, width) for pad, cell, width in zip(*row, strict=True)).rstrip()
            for row in zip(pads, lines, [wide] * len(lines), strict=True)
        ]
        return "\n".join([*text, "", self.caption])

    def _repr_html_(self) -> str:
        def row(i: int, cells: list[str]) -> str:
            shown = [f'<th scope="row">{html.escape(cells[0])}</th>']
            for j, cell in enumerate(cells[1:]):
                text = html.escape(cell)
                text = f"<strong>{text}</strong>" if (i, j) in self.best else text
                shown.append(f'<td style="text-align: right">{text}</td>')
            return f"<tr>{''.join(shown)}</tr>"

        heads = [f'<th scope="col">{html.escape(name)}</th>' for name in self.header]
        body = "\n".join(row(i, cells) for i, cells in enumerate(self.rows))
        return (
            f'<table class="fedlab-table">\n<caption>{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )


def table(
    data: Mapping[str, Mapping[str, object]],
    *,
    caption: str,
    rows: str = "",
    digits: int = 2,
    best: Mapping[str, str] | str | None = None,
) -> Table:
    """Results as a real table: ``data[row][column]``, e.g. ``frame.to_dict("index")``.

    data     cells are text, numbers, or (mean, low, high), shown as "mean [low, high]"
    rows     what the rows are, the head of the first column; digits  after the point
    best     "highest" or "lowest", for all columns or by column: that cell is bold, and the caption
             says so
    raises   ValueError for no row, rows of other columns, or a column that is not there
    """
    columns = list(next(iter(data.values()))) if data else []
    if not columns or any(list(row) != columns for row in data.values()):
        raise ValueError("data: expected rows of the same columns, at least one of each")
    best = dict.fromkeys(columns, best) if isinstance(best, str) else dict(best or {})
    if unknown := [*(set(best) - set(columns)), *(set(best.values()) - {"highest", "lowest"})]:
        raise ValueError(f'best: expected columns and "highest" or "lowest", got {unknown}')
    marked = set()
    for column, side in best.items():
        found = {i: _middle(row[column]) for i, row in enumerate(data.values())}
        values = {i: value for i, value in found.items() if value is not None}
        if values:
            top = (max if side == "highest" else min)(values.values())
            marked |= {(i, columns.index(column)) for i, value in values.items() if value == top}
    if marked:
        told = [f"the {side} of {column}" for column, side in best.items()]
        same = len(set(best.values())) == 1 and set(best) == set(columns)
        told = [f"the {next(iter(best.values()))} of each column"] if same else told
        caption = f"{caption} Bold: {', '.join(told)}."
    cells = [[str(name), *(_cell(v, digits) for v in row.values())] for name, row in data.items()]
    return Table([rows, *map(str, columns)], cells, marked, caption)


def _middle(value: object) -> float | None:
    """The number of a cell that is compared with its column; None for text and NaN."""
    value = value[0] if isinstance(value, tuple) else value
    if isinstance(value, str | bool) or value is None:
        return None
    return None if math.isnan(float(value)) else float(value)  # type: ignore[arg-type]


def _cell(value: object, digits: int) -> str:
    if isinstance(value, tuple):
        mean, low, high = (_cell(float(part), digits) for part in value[:3])
        return f"{mean} [{low}, {high}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return str(value)
    return f"{round(float(value), digits) + 0.0:.{digits}f}"  # type: ignore[arg-type]  # no -0.00
