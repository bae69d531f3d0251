"""Ledger views: claims and measurements as a picture, verdicts as bars, the ledger as a table.

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
from .results import ALIKE, CONFIRMED, FAILS, HOLDS, NOT_SHOWN, WORDS, Entry

CLAIMED, MEASURED = "#cfe3f5", "#1f4e79"
BARS = {HOLDS: "#2a7f62", FAILS: "#b5482a", NOT_SHOWN: "#c9c9c9"}
HATCHES = {FAILS: "//"}
OUTCOMES = ("hold", "do not hold", "open")  # in the order of the bars


def forest(rows: Mapping[str, Entry], *, xlabel: str) -> Figure:
    """Claims and measurements, one row per item; the keys are the labels.

    In the band the paper's claim is true; a diamond is its own number; dot and line are mean
    and interval, and the dot is filled if the seeds were drawn to confirm it. The verdict is right.
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
    _claimed(axis, entries, low, high)
    for row, (label, entry, number) in enumerate(zip(rows, entries, printed, strict=True)):
        _measured(axis, row, entry)
        axis.text(1.02, row, entry.verdict, transform=axis.get_yaxis_transform(), va="center")
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


def verdicts(figure: Figure) -> list[str]:
    """The verdicts at the right of a picture of ``forest``, row by row."""
    texts = sorted(figure.axes[0].texts, key=lambda text: text.get_position()[1])
    return [text.get_text() for text in texts]


def _edges(entries: Sequence[Entry], printed: Sequence[float]) -> tuple[float, float]:
    """The limits of the picture: they include all intervals, finite bounds and printed numbers."""
    places = [*printed]
    for entry in entries:
        assert entry.interval is not None
        places += [end for end in (*entry.interval[:3], *entry.item.ends) if math.isfinite(end)]
    low, high = min(*places, 0.0), max(*places, 0.0)
    room = 0.05 * (high - low or 1.0)
    return low - room, high + room


def _claimed(axis: plt.Axes, entries: Sequence[Entry], low: float, high: float) -> None:
    bands = []
    for start, end in (entry.item.ends for entry in entries):
        if start == end:  # "no difference" is a narrow band at 0
            start, end = -0.01 * (high - low), 0.01 * (high - low)
        bands.append((max(start, low), min(end, high)))
    look: dict[str, Any] = {"height": 0.62, "color": CLAIMED, "zorder": 1}
    left = [start for start, _ in bands]
    axis.barh(range(len(bands)), [end - start for start, end in bands], left=left, **look)


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
        handles.append(
            Line2D([], [], markerfacecolor="white", label="measured, exploratory", **dot)
        )
    if diamonds:
        look: dict[str, Any] = {"marker": "D", "color": "black", "linestyle": "none"}
        handles.append(Line2D([], [], label="the paper's number", **look))
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)


def _number(text: str) -> float | None:
    """A printed number in our units, if the text is a number; points are hundredths."""
    number, _, unit = text.partition(" ")
    try:
        return {"": 1.0, "points": 0.01}[unit] * float(number.replace("\N{MINUS SIGN}", "-"))
    except (KeyError, ValueError):
        return None


def verdict_bars(found: Iterable[Entry]) -> Figure:
    """How many of each paper's tested claims hold, do not hold, or are open."""
    papers = outcomes(tested(found), "paper")
    figure, (axis,) = new_figure(7.0, 1.2 + 0.5 * len(papers))
    left = [0] * len(papers)
    for label, word in zip(OUTCOMES, BARS, strict=True):
        own = [counts[label] for counts in papers.values()]
        look: dict[str, Any] = {"color": BARS[word], "hatch": HATCHES.get(word, "")}
        axis.barh(range(len(own)), own, left=left, edgecolor="white", label=label, **look)
        ink = "black" if word == NOT_SHOWN else "white"
        box: dict[str, Any] = {"facecolor": BARS[word], "edgecolor": "none", "pad": 1.0}
        place: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "bbox": box}
        for row, count in enumerate(own):
            if count:
                axis.text(left[row] + count / 2, row, str(count), **place)
        left = [start + count for start, count in zip(left, own, strict=True)]
    axis.set_yticks(range(len(papers)), list(papers))
    axis.set(ylabel="paper", xlabel="tested claims", ylim=(len(papers) - 0.5, -0.5))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    told = [
        f"{paper}: {', '.join(f'{label} {count}' for label, count in counts.items())}"
        for paper, counts in papers.items()
    ]
    return finished(figure, "Verdicts, paper by paper.", "; ".join(told))


def outcomes(found: Iterable[Entry], by: str) -> dict[str, dict[str, int]]:
    """The outcomes of items, by paper or by distance, as rows for ``plots.table``."""
    words = (HOLDS,), (FAILS,), (NOT_SHOWN, ALIKE)
    return {
        kind: {
            label: sum(own[word] for word in same)
            for label, same in zip(OUTCOMES, words, strict=True)
        }
        for kind, own in counted(found, by).items()
    }


def cause_table(found: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """For each shared cause: outcomes of papers' claims that it decides, and our rows."""
    return {
        cause: _by_outcome([entry for entry in found if cause in split(entry.item.decides)])
        for cause in CAUSES
    }


def _by_outcome(found: Sequence[Entry]) -> dict[str, int]:
    words = [entry.verdict for entry in tested(found)]
    hold, fail = words.count(HOLDS), words.count(FAILS)
    counts = dict(zip(OUTCOMES, (hold, fail, len(words) - hold - fail), strict=True))
    return {**counts, "ours": len(found) - len(words), "all": len(found)}


HEAD = ("item", "it says", "what came out", "cause", "remark", "how we know")


def listing(found: Sequence[Entry]) -> str:
    """The ledger as an HTML table; its page adds filters for paper, verdict and protocol."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    body = "\n".join(map(_row, found))
    return (
        '<table class="fedlab-table ledger">\n<caption>Items of five papers, and what came out of '
        f"them.</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _row(entry: Entry) -> str:
    item = entry.item
    could = f"{entry.could} detectable with 80 % power" if entry.could else ""
    protocol = ": ".join(filter(None, [item.distance, item.departures]))
    seeds = f"{entry.seeds} seeds" if entry.seeds else ""
    if entry.each and entry.interval:
        seeds += f" of {entry.interval.blocks} blocks (alone: {', '.join(entry.each)})"
    standing = entry.standing if entry.verdict in WORDS else ""
    says = item.sentence if item.source == "paper" else f"(ours) {item.sentence}"
    printed = f"the paper prints: {item.printed}" if str(item.printed) else ""
    cells = (
        (f"{item.item}: {says}", printed),
        (entry.verdict, entry.measured, could),
        (item.decides,),
        (item.reason, item.remark),
        (", ".join(filter(None, [standing, seeds])), protocol, item.study),
    )
    told = "".join(map(_cell, HEAD[1:], cells))
    data = {"paper": item.paper, "verdict": entry.verdict, "distance": item.distance}
    marks = " ".join(f'data-{key}="{html.escape(value)}"' for key, value in data.items())
    return f'<tr {marks}><th scope="row" id="{item.id}">{item.id}</th>{told}</tr>'


def _cell(name: str, parts: Sequence[str]) -> str:
    told = "<br>".join(html.escape(part) for part in parts if part)
    return f'<td data-label="{name}">{told}</td>'
