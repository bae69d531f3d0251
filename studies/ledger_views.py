"""Ledger views: claimed beside measured as a picture, verdicts as bars, the ledger as one table.

Below: ledger.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedlab_mini.show.canvas import finished, new_figure

from .items import CAUSES, split
from .ledger import counted, tested
from .results import ALIKE, CONFIRMED, FAILS, HOLDS, NOT_SHOWN, UNTESTED, Entry

CLAIMED, MEASURED = "#cfe3f5", "#1f4e79"
BARS = {HOLDS: "#2a7f62", FAILS: "#b5482a", NOT_SHOWN: "#c9c9c9"}
HATCHES = {FAILS: "//"}


def forest(rows: Mapping[str, Entry], *, xlabel: str) -> Figure:
    """Claimed beside measured: a row per item, by the label that it is to have.

    The band is where the paper's sentence is true, a diamond its own number; dot and line are mean
    and interval, the dot full if the seeds were drawn to confirm it.
    """
    if not rows:
        raise ValueError("rows: expected at least one entry")
    entries = list(rows.values())
    if untested := [entry.item.id for entry in entries if entry.interval is None]:
        raise ValueError(f"rows: expected items that are measured; got {untested}")
    figure, (axis,) = new_figure(7.0, 1.2 + 0.4 * len(rows))
    printed = [_number(str(entry.item.printed)) for entry in entries]
    low, high = _edges(entries, [number for number in printed if number is not None])
    told = []
    for row, (label, entry, number) in enumerate(zip(rows, entries, printed, strict=True)):
        _claimed(axis, row, entry, low, high)
        _measured(axis, row, entry)
        if number is not None:
            axis.plot([number], [row], "D", color="black", markersize=6, zorder=4, clip_on=False)
        told.append(f"{label}: {entry.measured}, {entry.verdict}")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set(xlabel=xlabel, ylabel="item", xlim=(low, high), ylim=(len(rows) - 0.4, -0.6))
    if low < 0 < high:
        axis.axvline(0, color="0.5", linestyle="--", linewidth=1)
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    _legend(figure, entries, any(number is not None for number in printed))
    return finished(figure, f"{xlabel.capitalize()}: claimed and measured.", "; ".join(told))


def _edges(entries: Sequence[Entry], printed: Sequence[float]) -> tuple[float, float]:
    """From where to where the picture goes: all intervals, finite bounds and printed numbers."""
    places = [*printed]
    for entry in entries:
        assert entry.interval is not None
        places += [end for end in (*entry.interval[:3], *entry.item.ends) if math.isfinite(end)]
    low, high = min(*places, 0.0), max(*places, 0.0)
    room = 0.05 * (high - low or 1.0)
    return low - room, high + room


def _claimed(axis: plt.Axes, row: int, entry: Entry, low: float, high: float) -> None:
    start, end = entry.item.ends
    if start == end:  # no difference: a narrow band at 0
        start, end = -0.01 * (high - low), 0.01 * (high - low)
    start, end = max(start, low), min(end, high)
    axis.barh(row, end - start, left=start, height=0.62, color=CLAIMED, zorder=1)


def _measured(axis: plt.Axes, row: int, entry: Entry) -> None:
    assert entry.interval is not None
    mean, *ends = entry.interval[:3]
    if all(map(math.isfinite, ends)):
        axis.plot(ends, [row, row], "-", color=MEASURED, linewidth=2.2, zorder=3)
    inside = MEASURED if entry.standing == CONFIRMED else "white"
    axis.plot([mean], [row], "o", color=MEASURED, markerfacecolor=inside, markersize=7, zorder=5)


def _legend(figure: Figure, entries: Sequence[Entry], diamonds: bool) -> None:
    dot: dict[str, Any] = {"marker": "o", "color": MEASURED, "linewidth": 2.2}
    handles: list[Patch | Line2D] = [Patch(color=CLAIMED, label="claimed")]
    if any(entry.standing == CONFIRMED for entry in entries):
        handles.append(Line2D([], [], label="measured, confirmed", **dot))
    if any(entry.standing != CONFIRMED for entry in entries):
        handles.append(Line2D([], [], markerfacecolor="white", label="measured, seen", **dot))
    if diamonds:
        look: dict[str, Any] = {"marker": "D", "color": "black", "linestyle": "none"}
        handles.append(Line2D([], [], label="the paper's number", **look))
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)


def _number(text: str) -> float | None:
    """A printed number in our units, if the text is one; points are hundredths."""
    number, _, unit = text.partition(" ")
    try:
        return {"": 1.0, "points": 0.01}[unit] * float(number.replace("\N{MINUS SIGN}", "-"))
    except (KeyError, ValueError):
        return None


def verdict_bars(found: Iterable[Entry]) -> Figure:
    """How many of each paper's tested sentences hold, do not hold, or are open."""
    counts = counted(tested(found))
    figure, (axis,) = new_figure(7.0, 1.2 + 0.5 * len(counts))
    told, names = [], {HOLDS: HOLDS, FAILS: FAILS, NOT_SHOWN: "open"}
    for row, (paper, own) in enumerate(counts.items()):
        left = 0
        words = {HOLDS: own[HOLDS], FAILS: own[FAILS], NOT_SHOWN: own[NOT_SHOWN] + own[ALIKE]}
        for word, count in words.items():
            look: dict[str, Any] = {"color": BARS[word], "hatch": HATCHES.get(word, "")}
            look["label"] = names[word] if row == 0 else None
            axis.barh(row, count, left=left, edgecolor="white", **look)
            if count:
                ink = "black" if word == NOT_SHOWN else "white"
                box: dict[str, Any] = {"facecolor": BARS[word], "edgecolor": "none", "pad": 1.0}
                place: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "bbox": box}
                axis.text(left + count / 2, row, str(count), **place)
            left += count
        told.append(f"{paper}: {', '.join(f'{word} {count}' for word, count in words.items())}")
    axis.set_yticks(range(len(counts)), list(counts))
    axis.set(
        ylabel="paper", xlabel="tested sentences, cells and curves", ylim=(len(counts) - 0.5, -0.5)
    )
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    return finished(figure, "Verdicts, paper by paper.", "; ".join(told))


def cause_table(found: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """How many items each shared cause decides, paper by paper; rows for ``plots.table``."""
    papers = list(dict.fromkeys(entry.item.paper for entry in found))
    decided = [(cause, e.item.paper) for e in found for cause in split(e.item.decides)]
    return {
        cause: {**{paper: decided.count((cause, paper)) for paper in papers},
                "all": sum(cause == one for one, _ in decided)}
        for cause in CAUSES
    }  # fmt: skip


class Listing:
    """The whole ledger as a table; a page of the site adds choices of paper, verdict, distance."""

    HEAD = ("item", "it says", "printed", "measured", "verdict", "standing", "protocol", "remark")

    def __init__(self, found: Sequence[Entry], caption: str):
        self.found, self.caption = found, caption

    def __repr__(self) -> str:
        return f"{len(self.found)} items; as text: python -m studies ledger"

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col">{name}</th>' for name in self.HEAD)
        body = "\n".join(map(self._row, self.found))
        return (
            f'<table class="fedlab-table ledger">\n<caption>{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )

    def _row(self, entry: Entry) -> str:
        item = entry.item
        could = f" ({entry.could} would have been seen)" if entry.could else ""
        seeds = f", {entry.seeds} seeds" if entry.seeds else ""
        protocol = ": ".join(filter(None, [item.distance, item.departures]))
        if entry.interval is not None:
            protocol += f" ({item.study})"
            if entry.each:
                seeds += f" of {entry.interval.blocks} blocks (alone: {', '.join(entry.each)})"
        remark = " ".join(filter(None, [item.reason, item.remark]))
        standing = "" if entry.verdict == UNTESTED else entry.standing + seeds
        says = item.sentence if item.source == "paper" else f"(ours) {item.sentence}"
        cells = (f"{item.item}: {says}", str(item.printed), entry.measured,
                 entry.verdict + could, standing, protocol, remark)  # fmt: skip
        told = "".join(f'<td style="text-align: left">{html.escape(cell)}</td>' for cell in cells)
        data = {"paper": item.paper, "verdict": entry.verdict, "distance": item.distance}
        marks = " ".join(f'data-{key}="{html.escape(value)}"' for key, value in data.items())
        head = f'<th scope="row" id="{item.id}">{item.id}</th>'
        return f"<tr {marks}>{head}{told}</tr>"
