"""What all explorers share: one program for JupyterLab and the site, a table where none runs.

The browser computes what a reader sees; ``numbers`` computes the same in Python, with the package's
own functions, for readers without a browser, for lab checks, and to test the browser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget

STATIC = Path(__file__).parent / "static"
COMMENT = re.compile(r"/\*.*?\*/|\s// [^\n]*", re.DOTALL)
Numbers = dict[str, dict[str, float]]


def program(*names: str) -> str:
    """One ES module out of pieces of ``static/``, without comments and indentation."""
    text = "\n".join((STATIC / f"{name}.js").read_text(encoding="utf-8") for name in names)
    lines = (line.strip() for line in COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def style(name: str) -> str:
    """A style sheet of ``static/``."""
    return (STATIC / f"{name}.css").read_text(encoding="utf-8")


class Widget(anywidget.AnyWidget):
    """A widget whose printed form is the same in every run, with a table for bare viewers."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: open it in JupyterLab or on the book's site>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]  # ipywidgets passes the kinds on
        return {**data, "text/plain": repr(self), "text/html": self.fallback()}, metadata

    def fallback(self) -> str:
        """HTML for viewers that run no widgets."""
        raise NotImplementedError


class Explorer(Widget):
    """A figure that asks for a guess, and that a reader can change. Its settings are traits, so
    that Python can change them and sees what the reader does; the guess stays in the page."""

    _css = style("kit")

    def numbers(self) -> Numbers:
        """What the page shows at the present settings: quantity -> name -> number."""
        raise NotImplementedError

    def fallback(self) -> str:
        return "".join(tables(self.numbers()))


def tables(numbers: Numbers) -> list[str]:
    """HTML tables: quantities of the same names stand side by side, a row a name."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for quantity, values in numbers.items():
        groups.setdefault(tuple(values), []).append(quantity)
    made = []
    for names, quantities in groups.items():
        head = "".join(f'<th scope="col">{html.escape(q)}</th>' for q in quantities)
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{numbers[q][name]:.4g}</td>" for q in quantities)
            + "</tr>"
            for name in names
        )
        made.append(f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>")
    return made


def uniforms(seed: int, count: int) -> list[float]:
    """Numbers in (0, 1) of Park and Miller's generator, as the browser draws them."""
    state, drawn = seed + 1, []
    for _ in range(count + 8):
        state = state * 48271 % 2147483647
        drawn.append(state / 2147483647)
    return drawn[8:]


def by_name(names: Sequence[str], columns: Mapping[str, Iterable[float]]) -> Numbers:
    """Columns of numbers for a table with a row a name."""
    return {
        quantity: dict(zip(names, map(float, column), strict=True))
        for quantity, column in columns.items()
    }


def client_names(count: int, marked: Collection[int] = (), what: str = "") -> list[str]:
    """client 0, client 1 (corrupted), ..."""
    return [f"client {k}" + (f" ({what})" if k in marked else "") for k in range(count)]
