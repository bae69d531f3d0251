"""Look at every figure that a kernel draws: axes that a reader sees must say what they show.

A kernel in `chapters.own_settings` runs this file when it starts. A fault is a line on stderr,
which no chapter may have among its outputs. An SVG holds no date, so that a figure drawn again has
the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


def unlabelled(figure: Any) -> Iterator[str]:
    """What the visible axes of a matplotlib figure lack; shared axes need one label together."""
    for axes in filter(lambda axes: axes.get_visible() and axes.axison, figure.axes):
        lacks = []
        for name in "xy":
            shared = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
            own = [getattr(other, f"get_{name}label")() for other in shared]
            if not any((*own, getattr(figure, f"get_sup{name}label")())):
                lacks.append(name)
        if len(lacks) > (axes.get_label() == "<colorbar>"):  # a colour bar needs one of them
            yield f"axes {axes.get_title()!r}: no label on {' and '.join(lacks)}"


def watch() -> None:
    """Have IPython name the faults of each figure that it draws."""
    from IPython.core import pylabtools

    draw = pylabtools.print_figure

    def print_figure(figure: Any, *args: Any, **options: Any) -> Any:
        for fault in unlabelled(figure):
            print(f"{fault}; set one, or switch the axis off", file=sys.stderr)
        if options.get("fmt") == "svg":
            options["metadata"] = {"Date": None, "Creator": None}
        return draw(figure, *args, **options)

    pylabtools.print_figure = print_figure
