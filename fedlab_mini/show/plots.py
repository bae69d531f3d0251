"""Plots: figure functions of the book. Each returns a figure with a ``caption`` and an ``alt``.

Colours and markers come from ``styles``. A figure with one panel can be read on a phone: if it is
350 pixels wide, its smallest text is 9 pixels high. Chapters call ``tables.table`` as
``plots.table``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from torch import Tensor

from ..judge.evidence import Interval, interval
from ..parse import checks
from ..worlds.federation import Federation
from .canvas import (
    check_labels,
    check_range,
    check_texts,
    columns_of,
    dots_row,
    draw_legend,
    finished,
    in_one_order,
    labelled,
    line_look,
    mark_clients,
    mark_unknown,
    new_figure,
    positions_of,
    shown_label,
)
from .styles import (
    CLIENTS,
    CORRUPTED,
    MARKERS,
    SETTINGS,
    Style,
    client_colour,
    meant,
    styles,
)
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
    """Draw one line per label, for example test accuracy over the rounds.

    lines  {label: values [T], or [seeds, T]}: each seed is a thin line, and their mean a thick one
    x      positions [T] of the values; None: 0, 1, ...
    log    if True, both axes are logarithmic
    """
    check_texts(xlabel=xlabel, ylabel=ylabel, title=title)
    log = checks.flag("log", log)
    by_label = labelled("lines", lines, "T", "...")
    # [seeds, T] for every label: a single line is one seed.
    runs = {label: values.reshape(-1, values.shape[-1]) for label, values in by_label.items()}
    positions = {label: positions_of(x, values.shape[1]) for label, values in runs.items()}
    figure, (axis,) = new_figure()
    for label, style in styles(runs).items():
        values, x_values = runs[label], positions[label]
        if len(values) > 1:
            axis.plot(x_values, values.T, style.line, color=style.colour, alpha=0.3, linewidth=0.8)
        options = line_look(style, markersize=5, markevery=max(1, values.shape[1] // 8))
        axis.plot(x_values, values.mean(0), label=shown_label(label), **options)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if log:
        axis.set(xscale="log", yscale="log")
    elif x is None:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_legend(figure, axis)
    # Where a line ends is what a reader without eyes asks first.
    end_words = [f"{label} {float(values[:, -1].mean()):.2f}" for label, values in runs.items()]
    return finished(
        figure,
        f"{ylabel.capitalize()} against {xlabel}.",
        f"Lines of {ylabel} against {xlabel}; at the end: {', '.join(end_words)}.",
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
    """Draw one panel per name, three in a row: means over seeds, with 95 % intervals.

    lines      {name: {label: values [seeds, n]}}; each label is a line in its name's panel
    x          positions [n] of the values, on a logarithmic axis
    chance     the height of a dashed line; the values are then shares, from 0 to 1
    low, high  the range of the metric; infinite if an end is not known
    """
    check_texts(xlabel=xlabel, ylabel=ylabel)
    x_values = checks.reals("x", x, ["n"], dtype=torch.float64).tolist()
    if chance is not None:
        chance, low, high = checks.number("chance", chance, 0, 1), 0, 1
    checks.instance("lines", lines, Mapping, "{name: {label: values}}")
    shape = ("seeds", len(x_values))
    pictures = {
        panel_name: labelled(f"lines[{panel_name!r}]", by_label, *shape)
        for panel_name, by_label in lines.items()
    }
    check_labels("lines", pictures)
    check_range(low, high, *(runs for picture in pictures.values() for runs in picture.values()))
    label_styles = styles(label for picture in pictures.values() for label in picture)
    # At least 180 pixels of picture per panel where a page is 1,280 pixels wide.
    figure, axes = new_figure(7.6, 3.0, len(pictures))
    end_words = []
    for axis, (panel_name, picture) in zip(axes, pictures.items(), strict=True):
        for label, runs in picture.items():
            intervals = [interval(column, low=low, high=high) for column in runs.T]
            _band(axis, x_values, intervals, label, label_styles[label])
            end_words.append(f"{panel_name}, {label} {intervals[-1]}")
        axis.set(title=panel_name, xscale="log", xlabel=xlabel, ylabel=ylabel)
        axis.xaxis.set_major_locator(LogLocator(numticks=20))  # no decade is skipped
        # On a short logarithmic axis powers of ten would be too few ticks.
        if max(x_values) < 30 * min(x_values):
            axis.set_xticks(x_values, _labels_apart(x_values))
            axis.xaxis.set_minor_locator(NullLocator())
        if chance is not None:
            axis.set_ylim(-0.05, 1.05)
            axis.axhline(chance, color="0.5", linestyle="--", linewidth=1)
    _share_axes(axes)
    # A label need not stand in every panel.
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    entries: Any = [*handles.values()]
    figure.legend(entries, [*handles], loc="outside upper right", ncols=len(handles), frameon=False)
    return finished(
        figure,
        f"{ylabel.capitalize()} against {xlabel}: means over seeds with 95 % intervals.",
        f"Small pictures of {ylabel} against {xlabel}; at the end: {'; '.join(end_words)}.",
    )


def _labels_apart(x_values: Sequence[float]) -> list[str]:
    """Tick labels on a logarithmic axis; one that would touch the label before it is empty."""
    room = math.log(max(x_values) / min(x_values)) / 6
    labels, last = [], 0.0
    for x_value in x_values:
        fits = not last or math.log(x_value / last) >= room
        labels.append(f"{x_value:g}" if fits else "")
        last = x_value if fits else last
    return labels


def _band(
    axis: Axes, x_values: Sequence[float], intervals: list[Interval], label: str, style: Style
) -> None:
    """Draw the line of the means [n], and a band from the low to the high ends of the intervals."""
    band_means = [band.mean for band in intervals]
    # Where all seeds agree and the range is open, there is no interval, only the mean.
    band_ends = [
        band[1:3] if math.isfinite(band.high - band.low) else (band.mean, band.mean)
        for band in intervals
    ]
    axis.fill_between(x_values, *zip(*band_ends, strict=True), color=style.colour, alpha=0.2)
    axis.plot(x_values, band_means, label=shown_label(label), **line_look(style, markersize=4))


def _share_axes(axes: Sequence[Axes]) -> None:
    """Give all panels the same y axis, with numbers only at the left and at the bottom."""
    column_count = columns_of(len(axes))
    y_limits = [axis.get_ylim() for axis in axes]
    lowest, highest = min(low for low, _ in y_limits), max(high for _, high in y_limits)
    for panel, axis in enumerate(axes):
        at_left, at_bottom = panel % column_count == 0, panel + column_count >= len(axes)
        axis.tick_params(labelleft=at_left, labelbottom=at_bottom)
        axis.yaxis.label.set_visible(at_left)
        axis.xaxis.label.set_visible(at_bottom)
        axis.set_ylim(lowest, highest)


def by_client(
    values: Tensor,
    *,
    corrupted: Iterable[int] = (),
    xlabel: str = "round",
    ylabel: str = "contribution",
) -> Figure:
    """Draw one line per client in its colour; corrupted clients are dashed, marked and named.

    values     [T, K], one column per client
    corrupted  the ids of the corrupted clients
    """
    check_texts(xlabel=xlabel, ylabel=ylabel)
    columns = list(getattr(values, "columns", ()))
    if columns != list(range(len(columns))):
        raise ValueError(
            f"values: expected clients 0, 1, ... as columns, got {checks.shown(columns)}; "
            "give values.to_numpy() where they are clients in this order"
        )
    values = checks.reals("values", values, ["T", "K"], dtype=torch.float64, finite=False).cpu()
    client_count = values.shape[1]
    corrupted_ids = checks.distinct_ids("corrupted", corrupted, client_count).tolist()
    figure, (axis,) = new_figure()
    for client_id, client_values in enumerate(values.T):
        options: dict[str, Any] = {"color": client_colour(client_id), "linewidth": 1.2}
        options |= {"marker": MARKERS[client_id % len(MARKERS)], "markersize": 6}
        label = str(client_id)
        if client_id in corrupted_ids:
            label += " corrupted"
            options |= {"marker": "X", "markerfacecolor": CORRUPTED, "markeredgecolor": CORRUPTED}
            options |= {"linestyle": "--", "linewidth": 2, "zorder": 3}
        axis.plot(client_values, label=label, markevery=max(1, len(values) // 8), **options)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_columns = 1 + (client_count - 1) // 12
    figure.legend(title="client", loc="outside right upper", frameon=False, ncols=legend_columns)
    for client_id in corrupted_ids:
        figure.legends[0].get_texts()[client_id].set_color(CORRUPTED)
    wrong_words = "; ".join(f"client {client_id} is corrupted" for client_id in corrupted_ids)
    return finished(
        figure,
        f"{ylabel.capitalize()} of {client_count} clients against {xlabel}.",
        f"One line of {ylabel} a client against {xlabel}, {client_count} clients; "
        f"{wrong_words or 'none is corrupted'}.",
    )


def holdings(fed: Federation) -> Figure:
    """Draw a grid [classes, K]; a cell is darker if the client holds more samples of the class."""
    counts = checks.instance("fed", fed, Federation, "a Federation").label_counts
    figure, (axis,) = new_figure(height=0.9 + 0.28 * fed.classes)
    axis.grid(False)
    image = axis.imshow(counts.T.numpy(), cmap="Blues", aspect="auto", vmin=0, interpolation="none")
    figure.colorbar(image, ax=axis, label="samples")
    axis.set(ylabel="class", yticks=range(fed.classes))
    mark_clients(axis, fed.clients, fed.corrupted)
    fewest_held, most_held = int(fed.sizes.min()), int(fed.sizes.max())
    mean_classes = float((counts > 0).sum(1).double().mean())
    return finished(
        figure,
        f"Samples of each class held by each of {fed.clients} clients.",
        f"Grid of {fed.clients} clients by {fed.classes} classes; a client holds {fewest_held} to "
        f"{most_held} samples of {mean_classes:.1f} classes on average.",
    )


def scores(
    values: Mapping[str, Tensor],
    *,
    corrupted: Iterable[int] = (),
    stderr: Mapping[str, Tensor] | None = None,
    ylabel: str = "contribution",
) -> Figure:
    """Draw one group of bars per client, with one bar per label (for example, a method).

    values     {label: numbers [K]}; the bars of a single label have the colours of the clients
    corrupted  the ids of clients whose bars are hatched and marked
    stderr     {label: standard errors [K]}, for the labels that have them; a bar whose error is NaN
               (unknown) gets the mark ±?
    """
    check_texts(ylabel=ylabel)
    in_order = in_one_order("values", values)
    heights = labelled("values", in_order, "K")
    clients = len(next(iter(heights.values())))
    # Once more, now that the first label has said how many clients all others must have.
    heights = labelled("values", heights, clients)
    errors_by_label = {}
    if stderr is not None:
        errors = in_one_order("stderr", stderr, in_order)
        errors_by_label = labelled("stderr", errors, clients, least=0)
    corrupted_ids = checks.distinct_ids("corrupted", corrupted, clients).tolist()
    figure, (axis,) = new_figure()
    bar_width = 0.8 / len(heights)
    for label_index, (label, style) in enumerate(styles(heights).items()):
        bar_offset = (label_index - (len(heights) - 1) / 2) * bar_width
        positions = [client_id + bar_offset for client_id in range(clients)]
        bar_errors = errors_by_label[label].tolist() if label in errors_by_label else None
        # Of a single method the colours are free to say which client is which.
        client_colours = [client_colour(client_id) for client_id in range(clients)]
        colours = style.colour if len(heights) > 1 else client_colours
        look: dict[str, Any] = {"color": colours, "label": shown_label(label)}
        tops = heights[label].tolist()
        bars = axis.bar(positions, tops, bar_width, yerr=bar_errors, capsize=2, **look)
        mark_unknown(axis, bars, bar_errors or [])
        for client_id in corrupted_ids:
            bars[client_id].set(hatch="//", edgecolor=CORRUPTED, linewidth=1.5)
    axis.axhline(0, color="0.3", linewidth=0.8)
    mark_clients(axis, clients, corrupted_ids)
    axis.set(ylabel=ylabel)
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
    """Draw one row per label: one dot per seed, and below them the mean with its 95 % interval.

    values     {label: numbers [seeds]}; at least 2 seeds give an interval (`evidence.interval`)
    low, high  the range of the metric, such as 0 and 1; infinite if an end is not known
    reference  {name: position} of vertical lines, such as {"chance": 0.5}
    """
    check_texts(xlabel=xlabel, ylabel=ylabel, title=title)
    by_label = labelled("values", values, "seeds")
    check_range(low, high, *by_label.values())
    references = {} if reference is None else labelled("reference", reference, empty=True)
    figure, (axis,) = new_figure(height=1.1 + 0.42 * len(by_label))
    row_words = []
    for row, (label, style) in enumerate(styles(by_label).items()):
        row_words.append(f"{label} {dots_row(axis, row, by_label[label], style.colour, low, high)}")
    for line_name, line_value in references.items():
        axis.axvline(float(line_value), color="0.5", linestyle="--", linewidth=1)
        # Above the axes, where no dot can be.
        above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "va": "bottom"}
        above |= {"xycoords": axis.get_xaxis_transform(), "ha": "center"}
        axis.annotate(line_name, (float(line_value), 1), **above)
    axis.set_yticks(range(len(by_label)), [*by_label], parse_math=False)
    axis.set(xlabel=xlabel, ylabel=ylabel, ylim=(len(by_label) - 0.4, -0.6))
    axis.set_title(title, pad=20 if references else None)
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    return finished(
        figure,
        f"{xlabel.capitalize()}: a dot a seed; below it the mean and its 95 % interval.",
        f"Rows of dots, {xlabel}; mean and interval: {'; '.join(row_words)}.",
    )


def slopes(
    left: Sequence[float] | Tensor, right: Mapping[str, Sequence[float] | Tensor], *, name: str
) -> Figure:
    """Compare rankings: one panel per label, one line per client from its left to its right rank.

    left   the clients' values [K], which give the ranks at the left; rank 1 is the highest value
    right  {label: values [K]}, which give the ranks at the right of the label's panel
    name   the name of the left values
    A mark shows where two lines cross, that is, where the rankings disagree on two clients
    """
    check_texts(name=name)
    lefts = in_one_order("left", {name: left})
    start = labelled("left", lefts, "K")[name]
    ends = labelled("right", in_one_order("right", right, lefts), len(start))
    at_left = _from_the_top(start)
    pairs = len(start) * (len(start) - 1) // 2
    figure, axes = new_figure(5.0, 2.9, len(ends))
    counts = []
    for axis, (label, values) in zip(axes, ends.items(), strict=True):
        at_right = _from_the_top(values)
        for client, (a, b) in enumerate(zip(at_left, at_right, strict=True)):
            axis.plot([0, 1], [a, b], color=SETTINGS[1], linewidth=1.2, label=str(client))
            for place, rank, side in ((-0.05, a, "right"), (1.05, b, "left")):
                axis.text(place, rank, str(client), ha=side, va="center")
        crossings = _crossings(at_left, at_right)
        axis.plot(*crossings, "o", color=CLIENTS[1], markersize=5, label="crossings")
        counts.append(f"{label} {len(crossings[0])}")
        axis.set_xticks([0, 1], [name, label])
        axis.set(xlim=(-0.25, 1.25), ylim=(len(start) + 0.5, 0.5), ylabel="rank")
        axis.set(xlabel=f"{len(crossings[0])} of {pairs} pairs cross")
        axis.set_yticks([1, len(start)])
        axis.grid(False)
    return finished(
        figure,
        f"Ranks by {name}, and by others: every crossing is a pair ranked the other way.",
        f"A line a client from its rank by {name} to its rank by another; crossings of "
        f"{pairs} pairs: {', '.join(counts)}.",
    )


def _from_the_top(values: Tensor) -> list[float]:
    """The rank of each value; 1 is the highest, and equal values share the mean of their ranks."""
    return [float((values > v).sum() + (values == v).sum() / 2 + 0.5) for v in values]


def _crossings(left: list[float], right: list[float]) -> tuple[list[float], list[float]]:
    """The points at which lines of two rankings cross: x from 0 (left) to 1 (right), and y."""
    across, down = [], []
    for (a, a_end), (b, b_end) in itertools.combinations(zip(left, right, strict=True), 2):
        if (a - b) * (a_end - b_end) < 0:
            across.append((a - b) / ((a - b) - (a_end - b_end)))
            down.append(a + across[-1] * (a_end - a))
    return across, down


def confusion(tables: Mapping[str, Tensor], *, rows: str = "true class") -> Figure:
    """Draw confusion matrices side by side, one per label.

    tables  {label: counts [classes, classes]}; rows are true classes, columns are predictions. Each
            row is scaled to shares, so the diagonal holds the recall of each class
    rows    what the rows are, if they are not true classes, e.g. a client's labels
    """
    check_texts(rows=rows)
    counts_by_label = labelled("tables", tables, "classes", "classes")
    panel_count = len(counts_by_label)
    figure, axes = new_figure(1.2 + 2.6 * columns_of(panel_count), 3.0, panel_count)
    for axis, (label, counts) in zip(axes, counts_by_label.items(), strict=True):
        # A class without samples has no recall; its row stays white.
        row_shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
        image = axis.imshow(row_shares.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="none")
        axis.grid(False)
        axis.set(xlabel="predicted class", ylabel=rows, title=label)
        axis.set(xticks=range(counts.shape[1]), yticks=range(len(counts)))
    # All panels run from 0 to 1, so that the last image speaks for every one.
    figure.colorbar(image, ax=axes, label=f"share of the {rows}")
    right_shares = [
        f"{label} {float(counts.diagonal().sum() / counts.sum()):.2f}"
        for label, counts in counts_by_label.items()
    ]
    return finished(
        figure,
        f"Confusion matrices: {rows} against predicted class.",
        f"Confusion matrices; share of right predictions: {', '.join(right_shares)}.",
    )


def shares(
    tables: Mapping[str, Mapping[str, Mapping[str, float]]], *, rows: str, columns: str, label: str
) -> Figure:
    """Draw tables of shares from 0 to 1 side by side; the darker a cell, the larger its share.

    tables  {title: {row: {column: share}}}, all with the same rows and columns
    label   what the shares are
    """
    check_texts(rows=rows, columns=columns, label=label)
    first = next(iter(tables.values()))
    names, heads = list(first), list(next(iter(first.values())))
    figure, axes = new_figure(
        2.0 + 3.4 * columns_of(len(tables)), 1.6 + 0.24 * len(names), len(tables)
    )
    for axis, (title, cells) in zip(axes, tables.items(), strict=True):
        numbers = [[cells[row][column] for column in heads] for row in names]
        image = axis.imshow(numbers, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.grid(False)
        axis.set(xlabel=columns, ylabel=rows, title=title)
        axis.set_xticks(range(len(heads)), list(map(shown_label, heads)), rotation=90)
        axis.set_yticks(range(len(names)), names)
    figure.colorbar(image, ax=axes, label=label)
    told = f"{label.capitalize()}, by {rows} and {columns}"
    return finished(figure, f"{told}.", f"{told}: {', '.join(tables)}.")


def drawn(figure: Figure | Table, panel: int | str = 0) -> dict[str, list[Any]]:
    """The numbers that a figure or a table shows, by label.

    A line gives its heights [T]. Bars give their ends and, as "label ±", the lengths of their
    whiskers. A row of dots gives its mean and the ends of its interval, a vertical line its place,
    and a grid or a table its rows. Right, up and dark mean more, so a reversed axis or colour map
    gives numbers with a minus
    panel  a number, or the panel's title
    """
    if isinstance(figure, Table):
        return {row[0]: row[1:] for row in figure.rows}
    axis = _panel(figure, panel)
    rows = [text.get_text() for text in axis.get_yticklabels()]
    if axis.images:
        (image,) = axis.images
        pale, dark = (sum(image.cmap(end)[:3]) for end in (0.0, 1.0))
        shades = image.get_array() * (1 if dark < pale else -1)
        return dict(zip(rows, shades.tolist(), strict=True))
    bars = [box for box in axis.containers if isinstance(box, BarContainer)]
    if bars:
        lying = bars[0].orientation == "horizontal"
        return _read_lying(axis, rows, bars) if lying else _read_bars(axis, bars)
    lines = _named_lines(axis)
    if lines:
        up = 1 - 2 * axis.yaxis_inverted()
        return {line.get_label(): [up * float(y) for y in line.get_ydata()] for line in lines}
    return _read_dots(axis, rows)


def along(figure: Figure | Table, panel: int | str = 0) -> dict[str, list[Any]]:
    """The values along the x axis of a figure, or in a table's header, by the name of the axis."""
    if isinstance(figure, Table):
        return {figure.header[0]: figure.header[1:]}
    axis = _panel(figure, panel)
    words = [text.get_text().replace("\n", " ") for text in axis.get_xticklabels()]
    lines = [] if axis.images or axis.patches else _named_lines(axis)
    if lines:
        # Where ticks have words, a reader reads these.
        fixed = isinstance(axis.xaxis.get_major_locator(), FixedLocator)
        said = dict(zip(axis.get_xticks(), words, strict=True)) if fixed else {}
        right = 1 - 2 * axis.xaxis_inverted()
        return {axis.get_xlabel(): [right * _word(said.get(x), x) for x in lines[0].get_xdata()]}
    return {axis.get_xlabel(): words}


def shows(
    figure: Figure | Table,
    numbers: Mapping[str, Any],
    panel: int | str = 0,
    *,
    axes: tuple[str, str] | None = None,
) -> bool:
    """Does a figure or a table show these numbers, as ``drawn`` and ``along`` read them?

    They may differ by a millionth, and the figure may have more labels. A label that names a method
    or a kind of client must have its colour.
    numbers  {label: numbers}
    axes     the names of both axes; they are compared only if given
    """
    read = along(figure, panel) | drawn(figure, panel)
    for label, row in numbers.items():
        found = torch.as_tensor(read.get(label, []), dtype=torch.float64)
        wanted = torch.as_tensor(row).to(found)
        if found.shape != wanted.shape or not torch.allclose(found, wanted, atol=1e-6):
            return False
    if isinstance(figure, Table):
        return True
    axis = _panel(figure, panel)
    names = axis.get_xlabel(), axis.get_ylabel()
    return (axes is None or names == tuple(axes)) and _coloured(axis)


def _coloured(axis: Any) -> bool:
    """Whether each label that names a method or a kind of client has its colour."""
    worn = [(line.get_label(), line.get_color()) for line in axis.get_lines()]
    bars = [box for box in axis.containers if isinstance(box, BarContainer)]
    worn += [(str(box.get_label()), bar.get_facecolor()) for box in bars for bar in box]
    if not bars:
        rows = [text.get_text() for text in axis.get_yticklabels()]
        unnamed = [line for line in axis.get_lines() if line.get_label()[0] == "_"]
        dots = [line for line in unnamed if line.get_marker() in ("o", "D")]
        worn += [(rows[round(dot.get_ydata()[0] - 0.1)], dot.get_color()) for dot in dots]
    # The lines or bars of clients, such as "1 noisy", have the clients' colours.
    known = [(label, to_rgba(colour)) for label, colour in worn if meant(label)]
    return all(
        colour == to_rgba(styles([label])[label].colour)
        or (colour in [to_rgba(own) for own in CLIENTS] and (label[0].isdigit() or len(bars) == 1))
        for label, colour in known
    )


def _panel(figure: Figure, panel: int | str) -> Any:
    titles = [axis.get_title() for axis in figure.axes]
    return figure.axes[titles.index(panel) if isinstance(panel, str) else panel]


def _named_lines(axis: Any) -> list[Any]:
    return [line for line in axis.get_lines() if line.get_label()[0] != "_"]


def _word(word: str | None, place: float) -> Any:
    try:
        return float(word or place)
    except ValueError:
        return word


def _read_bars(axis: Any, bars: Sequence[Any]) -> dict[str, list[Any]]:
    up = 1 - 2 * axis.yaxis_inverted()
    read = {}
    for box in bars:
        label = str(box.get_label())
        read[label] = [up * (bar.get_y() + bar.get_height()) for bar in box]
        if box.errorbar is not None:
            ends = box.errorbar.lines[2][0].get_segments()
            read[f"{label} ±"] = [float(end[1, 1] - end[0, 1]) / 2 for end in ends]
    return read


def _read_lying(axis: Any, rows: Sequence[str], bars: Sequence[Any]) -> dict[str, list[Any]]:
    """The lengths of horizontal bars by label; with intervals, the ends of band and interval."""
    if not axis.get_lines():
        return {box.get_label(): [bar.get_width() for bar in box] for box in bars}
    found = {
        label: [float(band.get_x()), float(band.get_x() + band.get_width())]
        for label, band in zip(rows, bars[0], strict=True)
    }
    for line in axis.get_lines():
        x, y = ([*map(float, values)] for values in line.get_data())
        if len({*y}) == 1 and line.get_marker() != "D":  # a diamond is a printed number
            found[rows[round(y[0])]] += x
    return found


def _read_dots(axis: Any, rows: Sequence[str]) -> dict[str, list[Any]]:
    right = 1 - 2 * axis.xaxis_inverted()
    read: dict[str, list[Any]] = {}
    names = [text.get_text() for text in axis.texts]
    for line in axis.get_lines():
        x, y = ([*map(float, values)] for values in line.get_data())
        row = round(y[0] - 0.22)
        if x[0] == x[-1] and y == [0, 1]:
            read[names.pop(0)] = [right * x[0]]
        elif abs(y[0] - row - 0.22) < 1e-9:  # the mean comes first, as it is drawn last
            read[rows[row]] = [right * place for place in x] + read.get(rows[row], [])
    return read
