"""Canvas: functions that all figures share, for checked input, an empty figure, legend and texts.

Used by plots. Builds on styles and checks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ..judge.evidence import interval
from ..parse import checks
from .styles import CORRUPTED, Style


def check_texts(**texts: object) -> None:
    for argument_name, argument in texts.items():
        checks.text(argument_name, argument)


def check_labels(name: str, by_label: Mapping[Any, object]) -> None:
    if not by_label:
        raise ValueError(f"{name}: expected at least one label")
    for label in by_label:
        checks.text(f"{name}: label", label)


def check_range(low: float, high: float, *values: Tensor) -> None:
    """Check the ends of a metric's range: low is below high, and no value is outside."""
    low, high = checks.span(low, high)
    smallest = min(float(series.min()) for series in values)
    largest = max(float(series.max()) for series in values)
    # Values may pass an end by the rounding error of float32.
    rounding_slack = 1e-6 * max(abs(smallest), abs(largest), 1)
    if smallest < low - rounding_slack:
        raise ValueError(f"low: expected at most the least value, {smallest:g}, got {low:g}")
    if largest > high + rounding_slack:
        raise ValueError(f"high: expected at least the largest value, {largest:g}, got {high:g}")


def labelled(
    name: str,
    by_label: Mapping[str, Any],
    *shape: int | str,
    empty: bool = False,
    least: float = -math.inf,
) -> dict[str, Tensor]:
    """Check {label: numbers of this shape}, and return them as float64."""
    checks.instance(name, by_label, Mapping, "{label: values}")
    if not empty:
        check_labels(name, by_label)
    # NaN is accepted, so that the curve of a run that diverged is drawn as far as it goes.
    values_by_label = {
        label: checks.reals(
            f"{name}[{label!r}]", label_values, shape, dtype=torch.float64, finite=False
        ).cpu()
        for label, label_values in by_label.items()
    }
    for label, label_values in values_by_label.items():
        # A shape that ends in "..." may have an empty dimension, and then nothing can be drawn.
        if not label_values.numel() or (label_values < least).any():
            raise ValueError(f"{name}[{label!r}]: expected numbers")
    return values_by_label


def in_one_order(name: str, by_label: Any, like: Mapping[str, Any] | None = None) -> Any:
    """Sort all pandas columns by client, in the same way, by their index; keep other values.

    The order is 0, 1, ... if these are the ids, and otherwise that of the first column. Columns of
    ``like`` come before the others
    """
    if not isinstance(by_label, Mapping):
        return by_label
    found = map(checks.ids_of, [*(like or {}).values(), *by_label.values()])
    ids: list[Any] = next((index for index in found if index is not None), [])
    if not ids:
        return by_label
    numbers = list(range(len(ids)))
    ids = numbers if set(ids) == set(numbers) else ids
    return {
        label: checks.by_id(f"{name}[{label!r}]", column, ids) for label, column in by_label.items()
    }


def positions_of(x: Sequence[float] | Tensor | None, count: int) -> Any:
    return range(count) if x is None else checks.reals("x", x, [count], finite=False)


def line_look(style: Style, **more: Any) -> dict[str, Any]:
    return {"color": style.colour, "marker": style.marker, "linestyle": style.line, **more}


def shown_label(label: str) -> str:
    """A label that matplotlib's legends show even if it begins with an underscore."""
    return f"\u200b{label}" if label.startswith("_") else label


def columns_of(panels: int) -> int:
    """How many panels a row has."""
    # Four panels in rows of three would leave one panel alone in the second row.
    return 2 if panels == 4 else min(panels, 3)


def new_figure(
    width: float = 5.0, height: float = 3.3, panels: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels; the size is in inches, and each row has this height."""
    column_count = columns_of(panels)
    row_count = math.ceil(panels / column_count)
    figure_size = (width, height * row_count)
    figure, axes_grid = plt.subplots(
        row_count, column_count, figsize=figure_size, layout="constrained", squeeze=False
    )
    all_axes = list(axes_grid.flat)
    # Empty axes in the last row would look like missing results.
    for axis in all_axes[panels:]:
        axis.remove()
    for axis in all_axes[:panels]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.9", linewidth=0.8)
        # Otherwise grid lines would cross the bars.
        axis.set_axisbelow(True)
    return figure, all_axes[:panels]


def finished(figure: Figure, caption: str, alt: str) -> Figure:
    vars(figure).update(caption=caption, alt=alt)
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    texts = [text for legend in legends if legend for text in legend.get_texts()]
    for axis in figure.axes:
        texts += [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts]
    # Labels are not formulas, even if they contain two dollar signs.
    for text in texts:
        text.set_parse_math(False)
    # Otherwise a notebook would show the figure twice, here and in the caller's cell.
    plt.close(figure)
    return figure


def draw_legend(figure: Figure, axis: Axes) -> None:
    """Draw the legend inside the axes, or beside them if there are many labels."""
    legend_handles, legend_labels = axis.get_legend_handles_labels()
    # More than eight labels would cover the lines.
    if len(legend_labels) <= 8:
        axis.legend(frameon=False)
    else:
        figure.legend(legend_handles, legend_labels, loc="outside right upper", frameon=False)


def dots_row(axis: Axes, row: int, seeds: Tensor, colour: str, low: float, high: float) -> str:
    """Draw one dot per seed, and their mean and interval below; return these as text."""
    # Not clipped, so that a dot at the end of the range is drawn completely.
    options: dict[str, Any] = {"color": colour, "clip_on": False, "zorder": 3}
    mean_row = row + 0.22
    axis.plot(seeds, [row - 0.08] * len(seeds), "o", markersize=4, alpha=0.6, **options)
    row_words = f"{seeds.mean():.2f}"
    if len(seeds) > 1:
        band = interval(seeds, low=low, high=high)
        if math.isfinite(band.high - band.low):
            axis.plot([band.low, band.high], [mean_row, mean_row], "-", linewidth=2, **options)
        row_words = str(band)
    axis.plot([float(seeds.mean())], [mean_row], "D", markersize=5, **options)
    return row_words


def mark_unknown(axis: Axes, bars: Any, errors: Sequence[float]) -> None:
    """Mark the end of bars whose error is NaN, because they would look exact without a mark."""
    for bar, error in zip(bars, errors, strict=False):
        if math.isnan(error):
            place = (bar.get_x() + bar.get_width() / 2, bar.get_height())
            side = "bottom" if place[1] >= 0 else "top"
            axis.annotate("±?", place, ha="center", va=side, fontsize="small")


def mark_clients(axis: Axes, clients: int, corrupted: Collection[int]) -> None:
    """Ticks for clients; a word or sign in vermilion marks the corrupted clients."""
    # A word under each tick fits only if there are few clients.
    corrupted_mark = "corrupted" if clients <= 5 else "×"
    tick_labels = [
        f"{client_id}\n{corrupted_mark}" if client_id in corrupted else str(client_id)
        for client_id in range(clients)
    ]
    axis.set_xticks(range(clients), tick_labels)
    for client_id in corrupted:
        axis.get_xticklabels()[client_id].set_color(CORRUPTED)
    axis.set_xlabel("client" if clients <= 5 or not corrupted else "client (×: corrupted)")
