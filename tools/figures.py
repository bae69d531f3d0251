"""Check every figure that a kernel draws: visible axes need labels.

A kernel in `chapters.own_settings` runs this file at its start. A fault is a line on stderr,
which is not allowed in a chapter's outputs. An SVG is made small, and without a date, so that a
figure drawn again has the same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any


def unlabelled(figure: Any) -> Iterator[str]:
    """The labels that a figure's visible axes lack; shared axes need only one label."""
    for axes in filter(lambda axes: axes.get_visible() and axes.axison, figure.axes):
        lacks = []
        for name in "xy":
            shared = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
            own = [getattr(other, f"get_{name}label")() for other in shared]
            if not any((*own, getattr(figure, f"get_sup{name}label")())):
                lacks.append(name)
        if len(lacks) > (axes.get_label() == "<colorbar>"):  # a colour bar needs one of them
            yield f"axes {axes.get_title()!r}: no label on {' and '.join(lacks)}"


def light(svg: str) -> str:
    """A drawing without metadata, with coordinates in hundredths of a point."""
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r"(?<![\w.])(-?[1-9]\d*\.\d\d)\d+", r"\1", svg)


def watch() -> None:
    """Let IPython print the faults of each figure that it draws."""
    from IPython.core import pylabtools

    draw = pylabtools.print_figure

    def print_figure(figure: Any, *args: Any, **options: Any) -> Any:
        for fault in unlabelled(figure):
            print(f"{fault}; set one, or switch the axis off", file=sys.stderr)
        drawn = draw(figure, *args, **options)
        return light(drawn) if options.get("fmt") == "svg" else drawn

    pylabtools.print_figure = print_figure
