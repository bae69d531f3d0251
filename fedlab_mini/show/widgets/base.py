"""What all explorers share: one program for JupyterLab and the site, and a table without either.

The browser computes what a reader sees. ``numbers`` computes the same in Python with the package's
functions, for readers without a browser, for lab checks, and for tests of the browser.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ...judge.student import strict, student

STATIC = Path(__file__).parent / "static"
# A comment has spaces around "//", so that an address does not count as one.
COMMENT = re.compile(r"/\*.*?\*/|\s// [^\n]*", re.DOTALL)
Numbers = dict[str, dict[str, float]]


def program(*names: str | Path) -> str:
    """One ES module from several pieces, without comments and indentation.

    names  names of pieces in ``static/``, or paths of files
    """
    # Every notebook with the widget stores the whole program, so its size matters.
    source_pieces = [
        Path(STATIC / f"{name}.js" if isinstance(name, str) else name).read_text(encoding="utf-8")
        for name in names
    ]
    bare_source = COMMENT.sub("", "\n".join(source_pieces))
    source_lines = [line.strip() for line in bare_source.splitlines()]
    return "\n".join(line for line in source_lines if line) + "\n"


def style(name: str) -> str:
    """A style sheet of ``static/``."""
    return (STATIC / f"{name}.css").read_text(encoding="utf-8")


class Widget(anywidget.AnyWidget):
    """A widget that prints the same in every run, and a table for viewers without widgets."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: open it in JupyterLab or on the book's site>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]  # ipywidgets passes the kinds on
        return {**data, "text/plain": repr(self), "text/html": self.fallback()}, metadata

    def fallback(self) -> str:
        """HTML for viewers that cannot run widgets."""
        raise NotImplementedError


class Explorer(Widget):
    """A figure that asks for a guess, and that a reader can change. Its settings are traits, so
    Python can change them and sees a reader's changes. The guess stays in the page."""

    _css = style("kit")
    # Columns and rows that the page hides until a reader has guessed.
    hides: tuple[str, ...] = ()

    def numbers(self) -> Numbers:
        """What the page shows at the current settings: quantity -> name -> number."""
        raise NotImplementedError

    def fallback(self) -> str:
        return "".join(tables(self.numbers(), self.hides))


def tables(numbers: Numbers, hidden: Collection[str] = ()) -> list[str]:
    """HTML tables: quantities with the same names share a table, with one row per name.

    Hidden columns and rows hold question marks, because readers of a table should guess, too.
    """
    quantities_by_rows: dict[tuple[str, ...], list[str]] = {}
    for quantity, column in numbers.items():
        quantities_by_rows.setdefault(tuple(column), []).append(quantity)
    return [
        _table({quantity: numbers[quantity] for quantity in quantities}, row_names, hidden)
        for row_names, quantities in quantities_by_rows.items()
    ]


def _table(columns: Numbers, row_names: Sequence[str], hidden: Collection[str]) -> str:
    head_cells = [f'<th scope="col">{html.escape(quantity)}</th>' for quantity in columns]
    body_rows = []
    for row_name in row_names:
        row_cells = []
        for quantity, column in columns.items():
            is_hidden = quantity in hidden or row_name in hidden
            row_cells.append(f"<td>{'?' if is_hidden else format(column[row_name], '.4g')}</td>")
        row_head = f'<th scope="row">{html.escape(row_name)}</th>'
        body_rows.append(f"<tr>{row_head}{''.join(row_cells)}</tr>")
    head_row = f"<thead><tr><td></td>{''.join(head_cells)}</tr></thead>"
    return f"<table>{head_row}<tbody>{''.join(body_rows)}</tbody></table>"


def floats(*numbers: float) -> traitlets.List[float]:
    """A list of numbers that Python and the page share, with its first values."""
    return traitlets.List(traitlets.Float(), list(numbers)).tag(sync=True)


def uniforms(seed: int, count: int) -> list[float]:
    """Numbers in (0, 1) from Park and Miller's generator, the same as in the browser."""
    # A state of 0 would always stay 0.
    state, drawn_numbers = seed + 1, []
    # The first eight numbers are left out, because they are similar for neighbouring seeds.
    for _ in range(count + 8):
        # Products stay below 2^53, so JavaScript computes them without rounding.
        state = state * 48271 % 2147483647
        drawn_numbers.append(state / 2147483647)
    return drawn_numbers[8:]


def half_widths(most: int) -> list[float]:
    """Half an interval of 2, 3, ... seeds, in standard deviations: ``interval.js`` needs them."""
    return [student(count, strict(0.95)) / math.sqrt(count) for count in range(2, most + 1)]


def by_name(names: Sequence[str], columns: Mapping[str, Iterable[float]]) -> Numbers:
    """Columns of numbers for a table with one row per name."""
    return {
        quantity: dict(zip(names, map(float, column), strict=True))
        for quantity, column in columns.items()
    }


def client_names(count: int, marked: Collection[int] = (), what: str = "") -> list[str]:
    """client 0, client 1 (corrupted), ..."""
    return [
        f"client {client_id}" + (f" ({what})" if client_id in marked else "")
        for client_id in range(count)
    ]
