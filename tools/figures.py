"""Check every figure of the book: visible axes need labels, which are those of `figures.toml`.

A kernel in `chapters.own_settings` runs this file at its start. A fault is a line on stderr,
which is not allowed in a chapter's outputs. An SVG is made small, and without a date, so that a
figure drawn again has the same bytes.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("figures.toml")


def faults(figure: Any) -> Iterator[str]:
    """Names that a figure's visible axes lack, and those that do not belong together.

    Shared axes need only one name, and a colour bar one of two.
    """
    known = tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
    for axes in filter(lambda axes: axes.get_visible() and axes.axison, figure.axes):
        names = {}
        for name in "xy":
            shared = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
            own = [getattr(other, f"get_{name}label")() for other in (axes, *shared)]
            own.append(getattr(figure, f"get_sup{name}label")())
            names[name] = next(filter(None, own), "")
        lacks = [name for name in names if not names[name]]
        if len(lacks) > (axes.get_label() == "<colorbar>"):
            yield (
                f"axes {axes.get_title()!r}: no label on {' and '.join(lacks)}; set one, or "
                "switch the axis off"
            )
        elif not lacks and not any(
            fnmatchcase(names["x"], name) and names["y"] in upwards for name, upwards in known
        ):
            yield (
                f"axes {axes.get_title()!r}: {names['x']!r} against {names['y']!r} is not in "
                f"{TABLE.name}; write it there, or exchange the names"
            )


def light(svg: str) -> str:
    """A drawing without metadata, with coordinates in hundredths of a point."""
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r"(?<![\w.])(-?[1-9]\d*\.\d\d)\d+", r"\1", svg)


def watch() -> None:
    """Let IPython print the faults of each figure that it draws."""
    from IPython.core import pylabtools

    draw = pylabtools.print_figure

    def print_figure(figure: Any, *args: Any, **options: Any) -> Any:
        for fault in faults(figure):
            print(fault, file=sys.stderr)
        drawn = draw(figure, *args, **options)
        return light(drawn) if options.get("fmt") == "svg" else drawn

    pylabtools.print_figure = print_figure
