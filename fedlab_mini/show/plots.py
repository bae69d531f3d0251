"""Plots: figure functions of the book. Each returns a figure with a ``caption`` and an ``alt``.

Colours and markers come from ``styles`` beside it. A figure with one panel can be read on a phone:
its smallest text stays 9 pixels high where the figure is 350 pixels wide. ``plots.table`` is the
way in which chapters call ``tables.table``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from torch import Tensor

from .. import checks
from ..judge.evidence import Interval, interval
from ..judge.removal import RemovalCurves
from ..worlds.federation import Federation
from .canvas import (
    check_labels,
    check_range,
    check_texts,
    columns_of,
    draw_legend,
    finished,
    labelled,
    line_look,
    mark_clients,
    new_figure,
    positions_of,
    shown_label,
)
from .styles import CORRUPTED, EXACT, LINES, MARKERS, Style, client_colour, styles
from .tables import Table as Table
from .tables import table as table


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
    check_texts(xlabel=xlabel, ylabel=ylabel, title=title)
    log = checks.flag("log", log)
    by_label = labelled("lines", lines, "T", "...")
    runs = {label: values.reshape(-1, values.shape[-1]) for label, values in by_label.items()}
    positions = {label: positions_of(x, values.shape[1]) for label, values in runs.items()}
    figure, (axis,) = new_figure()
    for label, style in styles(runs).items():
        values, position = runs[label], positions[label]
        if len(values) > 1:
            axis.plot(position, values.T, style.line, color=style.colour, alpha=0.3, linewidth=0.8)
        look = line_look(style, markersize=5, markevery=max(1, values.shape[1] // 8))
        axis.plot(position, values.mean(0), label=shown_label(label), **look)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if log:
        axis.set(xscale="log", yscale="log")
    elif x is None:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_legend(figure, axis)
    # Where a line ends is what a reader without eyes asks first.
    ends = [f"{label} {float(values[:, -1].mean()):.2f}" for label, values in runs.items()]
    return finished(
        figure,
        f"{ylabel.capitalize()} against {xlabel}.",
        f"Lines of {ylabel} against {xlabel}; at the end: {', '.join(ends)}.",
    )


def panels(
    lines: Mapping[str, Mapping[str, Tensor]],
    *,
    x: Sequence[float] | Tensor,
    xlabel: str = "round",
    ylabel: str,
    chance: float | None = None,
    low: float = -math.inf,
    high: float = math.inf,
) -> Figure:
    """A small picture a name, three beside each other: means over seeds with 95 % intervals.

    lines[name][label]  [seeds, n] at the places x [n], on a logarithmic axis
    chance              a dashed line; what is shown is then a share, from 0 to 1
    low, high           the range of the metric; infinite where no end is known
    """
    check_texts(xlabel=xlabel, ylabel=ylabel)
    at = checks.reals("x", x, ["n"], dtype=torch.float64).tolist()
    if chance is not None:
        chance, low, high = checks.number("chance", chance, 0, 1), 0, 1
    checks.instance("lines", lines, Mapping, "{name: {label: values}}")
    shape = ("seeds", len(at))
    pictures = {name: labelled(f"lines[{name!r}]", part, *shape) for name, part in lines.items()}
    check_labels("lines", pictures)
    check_range(low, high, *(v for picture in pictures.values() for v in picture.values()))
    looks = styles(label for picture in pictures.values() for label in picture)
    # At least 180 pixels of picture per panel where a page is 1,280 pixels wide.
    figure, axes = new_figure(7.6, 3.0, len(pictures))
    ends = []
    for axis, (name, picture) in zip(axes, pictures.items(), strict=True):
        for label, values in picture.items():
            intervals = [interval(column, low=low, high=high) for column in values.T]
            _band(axis, at, intervals, label, looks[label])
            ends.append(f"{name}, {label} {intervals[-1]}")
        axis.set(title=name, xscale="log", xlabel=xlabel, ylabel=ylabel)
        axis.xaxis.set_major_locator(LogLocator(numticks=20))  # no decade is skipped
        # On a short logarithmic axis powers of ten would be too few ticks.
        if max(at) < 30 * min(at):
            axis.set_xticks(at, [f"{place:g}" for place in at])
            axis.xaxis.set_minor_locator(NullLocator())
        if chance is not None:
            axis.set_ylim(-0.05, 1.05)
            axis.axhline(chance, color="0.5", linestyle="--", linewidth=1)
    _share_axes(axes)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    return finished(
        figure,
        f"{ylabel.capitalize()} against {xlabel}: means over seeds with 95 % intervals.",
        f"Small pictures of {ylabel} against {xlabel}; at the end: {'; '.join(ends)}.",
    )


def _band(
    axis: plt.Axes, at: Sequence[float], intervals: list[Interval], label: str, style: Style
) -> None:
    """A mean line within its intervals."""
    means = [found.mean for found in intervals]
    # Where all seeds agree and the range is open, there is no interval, only the mean.
    ends = [found[1:3] if math.isfinite(found.high - found.low) else (found.mean, found.mean)
            for found in intervals]  # fmt: skip
    axis.fill_between(at, *zip(*ends, strict=True), color=style.colour, alpha=0.2)
    axis.plot(at, means, label=shown_label(label), **line_look(style, markersize=4))


def _share_axes(axes: Sequence[plt.Axes]) -> None:
    """One scale for all panels; its numbers stand at the left and at the bottom only."""
    columns = columns_of(len(axes))
    limits = [axis.get_ylim() for axis in axes]
    lowest, highest = min(low for low, _ in limits), max(high for _, high in limits)
    for place, axis in enumerate(axes):
        at_left, at_bottom = place % columns == 0, place + columns >= len(axes)
        axis.tick_params(labelleft=at_left, labelbottom=at_bottom)
        axis.yaxis.label.set_visible(at_left)
        axis.xaxis.label.set_visible(at_bottom)
        axis.set_ylim(lowest, highest)


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
    check_texts(xlabel=xlabel, ylabel=ylabel, title=title)
    values = checks.reals("values", values, ["T", "K"], dtype=torch.float64, finite=False).cpu()
    clients = values.shape[1]
    marks = _marks(corrupted, clients)
    figure, (axis,) = new_figure()
    # Each kind of corruption has a marker and a line of its own.
    kinds = list(dict.fromkeys(marks.values()))
    for client, line in enumerate(values.T):
        look: dict[str, Any] = {"color": client_colour(client), "linewidth": 1.2}
        look |= {"marker": MARKERS[client % len(MARKERS)], "markersize": 6}
        if client in marks:
            look |= _spoilt(kinds.index(marks[client]) % 3)
        label = f"{client} {marks.get(client, '')}".strip()
        axis.plot(line, label=label, markevery=max(1, len(values) // 8), **look)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    columns = 1 + (clients - 1) // 12
    figure.legend(title="client", loc="outside right upper", frameon=False, ncols=columns)
    for client in marks:
        figure.legends[0].get_texts()[client].set_color(CORRUPTED)
    wrongs = [f"client {client} is {mark}" for client, mark in marks.items()]
    told = "; ".join(wrongs) or "none is corrupted"
    return finished(
        figure,
        f"{ylabel.capitalize()} of {clients} clients against {xlabel}.",
        f"One line of {ylabel} a client against {xlabel}, {clients} clients; {told}.",
    )


def _marks(corrupted: Iterable[int] | Mapping[int, str], clients: int) -> dict[int, str]:
    """What is wrong with each corrupted client, by its id."""
    if not isinstance(corrupted, Mapping):
        ids = checks.distinct_ids("corrupted", corrupted, clients).tolist()
        return dict.fromkeys(ids, "corrupted")
    checks.distinct_ids("corrupted", list(corrupted), clients)
    check_texts(**{f"corrupted[{client}]": mark for client, mark in corrupted.items()})
    return dict(corrupted)


def _spoilt(kind: int) -> dict[str, Any]:
    """The marker and line of a kind of corruption, of three."""
    colours = {"markerfacecolor": CORRUPTED, "markeredgecolor": CORRUPTED}
    return {
        "marker": "XP*"[kind],
        "linestyle": LINES[kind + 1],
        "linewidth": 2,
        "zorder": 3,
    } | colours


def holdings(fed: Federation, *, title: str = "") -> Figure:
    """Who holds what: a grid of clients by classes, darker where a client holds more samples."""
    check_texts(title=title)
    counts = checks.instance("fed", fed, Federation, "a Federation").label_counts
    figure, (axis,) = new_figure(height=0.9 + 0.28 * fed.classes)
    axis.grid(False)
    image = axis.imshow(counts.T.numpy(), cmap="Blues", aspect="auto", vmin=0, interpolation="none")
    figure.colorbar(image, ax=axis, label="samples")
    axis.set(ylabel="class", title=title, yticks=range(fed.classes))
    mark_clients(axis, fed.clients, fed.corrupted)
    fewest, most = int(fed.sizes.min()), int(fed.sizes.max())
    classes = float((counts > 0).sum(1).double().mean())
    return finished(
        figure,
        f"Samples of each class held by each of {fed.clients} clients.",
        f"Grid of {fed.clients} clients by {fed.classes} classes; a client holds {fewest} to "
        f"{most} samples of {classes:.1f} classes on average.",
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
    check_texts(ylabel=ylabel, title=title)
    heights = labelled("values", values, "K")
    clients = len(next(iter(heights.values())))
    heights = labelled("values", heights, clients)
    errors_by_label = {} if stderr is None else labelled("stderr", stderr, clients, least=0)
    ids = checks.distinct_ids("corrupted", corrupted, clients).tolist()
    figure, (axis,) = new_figure()
    width = 0.8 / len(heights)
    for place, (label, style) in enumerate(styles(heights).items()):
        offset = (place - (len(heights) - 1) / 2) * width
        at = [client + offset for client in range(clients)]
        error = errors_by_label[label].tolist() if label in errors_by_label else None
        # Of a single method the colours are free to say which client is which.
        own_colours = [client_colour(client) for client in range(clients)]
        colour = style.colour if len(heights) > 1 else own_colours
        look: dict[str, Any] = {"color": colour, "label": shown_label(label), "capsize": 2}
        bars = axis.bar(at, heights[label].tolist(), width, yerr=error, **look)
        for client in ids:
            bars[client].set(hatch="//", edgecolor=CORRUPTED, linewidth=1.5)
    axis.axhline(0, color="0.3", linewidth=0.8)
    mark_clients(axis, clients, ids)
    axis.set(ylabel=ylabel, title=title)
    if len(heights) > 1:
        draw_legend(figure, axis)
    lowest = [f"{label}: lowest is client {int(row.argmin())}" for label, row in heights.items()]
    return finished(
        figure,
        f"{ylabel.capitalize()} of {clients} clients.",
        f"Bars of {ylabel} for {clients} clients. {'; '.join(lowest)}.",
    )


def dots(
    values: Mapping[str, Sequence[float] | Tensor],
    *,
    xlabel: str,
    ylabel: str = "setting",
    reference: Mapping[str, float] | None = None,
    title: str = "",
    low: float = -math.inf,
    high: float = math.inf,
) -> Figure:
    """A row a label: a dot a seed, and beneath it the mean with its 95 % interval.

    values     [seeds] numbers a label; at least 2 seeds give an interval (`evidence.interval`)
    low, high  the range of the metric, such as 0 and 1; infinite where no end is known
    reference  vertical lines by name, such as {"chance": 0.5}
    """
    check_texts(xlabel=xlabel, ylabel=ylabel, title=title)
    seeds = labelled("values", values, "seeds")
    check_range(low, high, *seeds.values())
    references = {} if reference is None else labelled("reference", reference, empty=True)
    figure, (axis,) = new_figure(height=1.1 + 0.42 * len(seeds))
    told = []
    for row, (label, style) in enumerate(styles(seeds).items()):
        told.append(f"{label} {_dots_row(axis, row, seeds[label], style.colour, low, high)}")
    for name, place in references.items():
        axis.axvline(float(place), color="0.5", linestyle="--", linewidth=1)
        # Above the axes, where no dot can be.
        above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "va": "bottom"}
        above |= {"xycoords": axis.get_xaxis_transform(), "ha": "center"}
        axis.annotate(name, (float(place), 1), **above)
    axis.set_yticks(range(len(seeds)), [shown_label(label) for label in seeds])
    axis.set(xlabel=xlabel, ylabel=ylabel, ylim=(len(seeds) - 0.4, -0.6))
    axis.set_title(title, pad=20 if references else None)
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    return finished(
        figure,
        f"{xlabel.capitalize()}: a dot a seed; below it the mean and its 95 % interval.",
        f"Rows of dots, {xlabel}; mean and interval: {'; '.join(told)}.",
    )


def _dots_row(axis: plt.Axes, row: int, seeds: Tensor, colour: str, low: float, high: float) -> str:
    """Draw one row of ``dots``; what it shows in words."""
    look: dict[str, Any] = {"color": colour, "clip_on": False, "zorder": 3}
    below = row + 0.22
    axis.plot(seeds, [row - 0.08] * len(seeds), "o", markersize=4, alpha=0.6, **look)
    told = f"{seeds.mean():.2f}"
    if len(seeds) > 1:
        found = interval(seeds, low=low, high=high)
        if math.isfinite(found.high - found.low):
            axis.plot([found.low, found.high], [below, below], "-", linewidth=2, **look)
        told = str(found)
    axis.plot([float(seeds.mean())], [below], "D", markersize=5, **look)
    return told


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
    check_texts(ylabel=ylabel, title=title)
    counts, error = labelled("evaluations", evaluations, "n"), labelled("error", error, "n")
    if {label: len(row) for label, row in counts.items()} != {
        label: len(row) for label, row in error.items()
    }:
        raise ValueError("error: expected as many numbers of each label as evaluations has")
    figure, (axis,) = new_figure()
    for label, style in styles(counts).items():
        axis.loglog(
            counts[label], error[label], label=shown_label(label), **line_look(style, markersize=5)
        )
    if exact_at is not None:
        place = checks.whole("exact_at", exact_at)
        axis.axvline(place, color=EXACT, linestyle="--", linewidth=1)
        text: dict[str, Any] = {"ha": "right", "va": "top", "rotation": 90}
        axis.annotate(f"exact: {place}", (place, axis.get_ylim()[1]), **text)
    axis.set(xlabel="coalitions evaluated", ylabel=ylabel, title=title)
    draw_legend(figure, axis)
    best = min(error, key=lambda label: float(error[label][-1]))
    return finished(
        figure,
        "Error of each estimator against its number of evaluations.",
        f"Error against evaluations, logarithmic axes; the lowest at the end is {best}.",
    )


def removal(results: Mapping[str, RemovalCurves], *, title: str = "") -> Figure:
    """Test accuracy without the highest-scored and without the lowest-scored clients."""
    check_texts(title=title)
    check_labels("results", checks.instance("results", results, Mapping, "{label: curves}"))
    for label, result in results.items():
        checks.instance(f"results[{label!r}]", result, RemovalCurves, "what removal_curves returns")
    figure, axes = new_figure(7.6, 3.4, 2)
    # Both sides on one scale: the distance between the curves is the message.
    axes[1].sharey(axes[0])
    for axis, side in zip(axes, ("highest", "lowest"), strict=True):
        for label, style in styles(results).items():
            result = results[label]
            axis.plot(
                result.removed, getattr(result, side), label=shown_label(label), **line_look(style)
            )
        axis.set(xlabel=f"{side}-scored clients removed", ylabel="test accuracy")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_legend(figure, axes[0])
    figure.suptitle(title)
    return finished(
        figure,
        "Test accuracy after retraining without the best and without the worst clients.",
        "Two panels: test accuracy against the number of best, and of worst, clients removed.",
    )


def confusion(tables: Mapping[str, Tensor], *, rows: str = "true class", title: str = "") -> Figure:
    """Confusion matrices side by side: ``tables[label]`` [classes, classes], row = true class.

    Each row is scaled to shares; the diagonal holds the recall of every class. ``rows`` names what
    the rows are where they are not true classes, e.g. a client's labels
    """
    check_texts(rows=rows, title=title)
    counts_by_label = labelled("tables", tables, "classes", "classes")
    panels = len(counts_by_label)
    figure, axes = new_figure(1.2 + 2.6 * columns_of(panels), 3.0, panels)
    for axis, (label, counts) in zip(axes, counts_by_label.items(), strict=True):
        # A class without samples has no recall; its row stays white.
        shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
        image = axis.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="none")
        axis.grid(False)
        axis.set(xlabel="predicted class", ylabel=rows, title=label)
        axis.set(xticks=range(counts.shape[1]), yticks=range(len(counts)))
    figure.colorbar(image, ax=axes, label=f"share of the {rows}")
    figure.suptitle(title)
    right = [
        f"{label} {float(counts.diagonal().sum() / counts.sum()):.2f}"
        for label, counts in counts_by_label.items()
    ]
    return finished(
        figure,
        f"Confusion matrices: {rows} against predicted class.",
        f"Confusion matrices; share of right predictions: {', '.join(right)}.",
    )
