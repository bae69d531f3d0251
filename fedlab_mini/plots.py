"""Plots: figure functions of the book. Each returns a figure with a ``caption`` and an ``alt``.

The colours suit colour-blind readers (Okabe and Ito's palette) and mean the same in every chapter:
vermilion for corrupted clients, black for the exact value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .federation import Federation

SOUND, CORRUPTED, EXACT = "#0072B2", "#D55E00", "#000000"
METHODS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#D55E00", "#999999")
MARKERS = "osD^vPX"


def _figure(
    width: float = 6.4, height: float = 3.4, panels: int = 1
) -> tuple[Figure, list[plt.Axes]]:
    figure, axes = plt.subplots(
        1, panels, figsize=(width, height), layout="constrained", squeeze=False
    )
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.9", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, list(axes[0])


def _done(figure: Figure, caption: str, alt: str) -> Figure:
    figure.caption, figure.alt = caption, alt
    plt.close(figure)  # shown once, where the caller shows it
    return figure


def styled(lines: Mapping[str, object]) -> Iterator[tuple[str, object, str, str]]:
    """Each label and value with its colour and marker; both start again when they are used up."""
    styles = itertools.cycle(zip(METHODS, MARKERS, strict=True))
    for (label, value), (colour, marker) in zip(lines.items(), styles, strict=False):
        yield label, value, colour, marker


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
    figure, (axis,) = _figure()
    for label, values, colour, marker in styled(lines):
        values = torch.as_tensor(values, dtype=torch.float64)
        values = values[None] if values.ndim == 1 else values
        at = list(range(values.shape[1])) if x is None else list(x)
        if len(values) > 1:
            axis.plot(at, values.T, color=colour, alpha=0.3, linewidth=0.8)
        axis.plot(
            at,
            values.mean(0),
            color=colour,
            label=label,
            marker=marker,
            markersize=4,
            markevery=max(1, len(at) // 8),
        )
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if log:
        axis.set(xscale="log", yscale="log")
    elif x is None:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(frameon=False)
    ends = ", ".join(
        f"{label} {float(torch.as_tensor(v, dtype=torch.float64)[..., -1].mean()):.2f}"
        for label, v in lines.items()
    )
    return _done(
        figure,
        f"{ylabel.capitalize()} against {xlabel}.",
        f"Lines of {ylabel} against {xlabel}; at the end: {ends}.",
    )


def holdings(fed: Federation, *, title: str = "") -> Figure:
    """Who holds what: a grid of clients by classes, darker where a client holds more samples."""
    counts = fed.label_counts
    figure, (axis,) = _figure(6.4, 0.9 + 0.28 * fed.classes)
    axis.grid(False)
    image = axis.imshow(counts.T.numpy(), cmap="Blues", aspect="auto", vmin=0)
    figure.colorbar(image, ax=axis, label="samples")
    axis.set(
        xlabel="client",
        ylabel="class",
        title=title,
        xticks=range(fed.clients),
        yticks=range(fed.classes),
    )
    for k in fed.corrupted:
        axis.get_xticklabels()[k].set_color(CORRUPTED)
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
    """Grouped bars: a group a client, a bar a method; corrupted clients are hatched and marked."""
    bad, count = set(corrupted), len(next(iter(values.values())))
    figure, (axis,) = _figure()
    width = 0.8 / len(values)
    for j, (label, v, colour, _) in enumerate(styled(values)):
        at = [k + (j - (len(values) - 1) / 2) * width for k in range(count)]
        error = None if label not in (stderr or {}) else torch.as_tensor(stderr[label]).tolist()
        heights = torch.as_tensor(v).tolist()
        bars = axis.bar(at, heights, width, color=colour, label=label, yerr=error, capsize=2)
        for k in bad:
            bars[k].set_hatch("//")
    axis.axhline(0, color="0.3", linewidth=0.8)
    names = [f"{k}\ncorrupted" if k in bad else str(k) for k in range(count)]
    axis.set_xticks(range(count), names)
    for k in bad:
        axis.get_xticklabels()[k].set_color(CORRUPTED)
    axis.set(xlabel="client", ylabel=ylabel, title=title)
    if len(values) > 1:
        axis.legend(frameon=False)
    worst = {label: int(torch.as_tensor(v).argmin()) for label, v in values.items()}
    lowest = "; ".join(f"{label}: lowest is client {k}" for label, k in worst.items())
    return _done(
        figure,
        f"{ylabel.capitalize()} of {count} clients.",
        f"Bars of {ylabel} for {count} clients. {lowest}.",
    )


def errors(
    evaluations: Mapping[str, Sequence[float]],
    error: Mapping[str, Tensor],
    *,
    exact_at: int | None = None,
    ylabel: str = "mean absolute error",
    title: str = "",
) -> Figure:
    """Error of estimators against how many coalitions they evaluated, both axes logarithmic."""
    figure, (axis,) = _figure()
    for label, at, colour, marker in styled(evaluations):
        axis.loglog(at, error[label], color=colour, marker=marker, markersize=5, label=label)
    if exact_at is not None:
        axis.axvline(exact_at, color=EXACT, linestyle="--", linewidth=1)
        axis.annotate(
            f"exact: {exact_at}",
            (exact_at, axis.get_ylim()[1]),
            ha="right",
            va="top",
            rotation=90,
            fontsize=8,
        )
    axis.set(xlabel="coalitions evaluated", ylabel=ylabel, title=title)
    axis.legend(frameon=False, fontsize=8)
    best = min(error, key=lambda label: float(torch.as_tensor(error[label])[-1]))
    return _done(
        figure,
        "Error of each estimator against its number of evaluations.",
        f"Error against evaluations, logarithmic axes; the lowest at the end is {best}.",
    )


def removal(results: Mapping[str, object], *, title: str = "") -> Figure:
    """Test accuracy without the highest-scored and without the lowest-scored clients."""
    figure, panels = _figure(7.6, 3.4, 2)
    panels[1].sharey(panels[0])
    for axis, side in zip(panels, ("highest", "lowest"), strict=True):
        for label, result, colour, marker in styled(results):
            axis.plot(
                result.removed, getattr(result, side), color=colour, marker=marker, label=label
            )
        axis.set(xlabel=f"{side}-scored clients removed", ylabel="test accuracy")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].legend(frameon=False)
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
    figure, panels = _figure(1.6 + 3.2 * len(tables), 3.6, len(tables))
    for axis, (label, table) in zip(panels, tables.items(), strict=True):
        table = torch.as_tensor(table, dtype=torch.float64)
        share = table / table.sum(1, keepdim=True).clamp(min=1)
        image = axis.imshow(share.numpy(), cmap="Blues", vmin=0, vmax=1)
        axis.grid(False)
        ticks = range(len(table))
        axis.set(xlabel="predicted class", ylabel=rows, title=label)
        axis.set_xticks(ticks)
        axis.set_yticks(ticks)
    figure.colorbar(image, ax=panels, label=f"share of the {rows}")
    figure.suptitle(title)
    hit = ", ".join(
        f"{label} {float(torch.as_tensor(t).diagonal().sum() / torch.as_tensor(t).sum()):.2f}"
        for label, t in tables.items()
    )
    return _done(
        figure,
        f"Confusion matrices: {rows} against predicted class.",
        f"Confusion matrices; share of right predictions: {hit}.",
    )
