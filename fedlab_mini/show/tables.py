"""Tables: results that a notebook shows as HTML and a terminal as text. Chapters call ``table``."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping

from .. import checks
from ..judge.evidence import decimals, looks_zero

# a number, perhaps with a sign, an interval or a unit behind it, or nothing
NUMBER = re.compile(r"[-+±<>≥≤~≈−]? ?(\d|\.\d|nan|inf)|[-–—]?$")
Cells = Mapping[str, object]


class Table:
    """A table that a notebook shows as HTML and a terminal as text; made by ``table``."""

    def __init__(self, header: list[str], rows: list[list[str]], best: set, caption: str):
        self.header, self.rows, self.best, self.caption = header, rows, best, caption

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        printed = []
        for name, *cells in lines:
            # The names of the rows stand at the left, numbers under each other at the right.
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            printed.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
        return "\n".join([*printed, "", self.caption])

    def _repr_html_(self) -> str:
        heads = [
            f'<th scope="col"{self._side(column)}>{html.escape(name)}</th>'
            for column, name in enumerate(self.header, start=-1)
        ]
        body = "\n".join(self._html_row(place) for place in range(len(self.rows)))
        return (
            f'<table class="fedlab-table">\n<caption>{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )

    def _html_row(self, place: int) -> str:
        name, *cells = self.rows[place]
        html_cells = [f'<th scope="row"{self._side(-1)}>{html.escape(name)}</th>']
        for column, cell in enumerate(cells):
            escaped = html.escape(cell)
            is_best = (place, column) in self.best
            content = f"<strong>{escaped}</strong>" if is_best else escaped
            html_cells.append(f"<td{self._side(column)}>{content}</td>")
        return f"<tr>{''.join(html_cells)}</tr>"

    def _side(self, column: int) -> str:
        """Numbers stand under each other at the right; words, as the rows' names, at the left."""
        words = column < 0 or any(not NUMBER.match(cells[column + 1]) for cells in self.rows)
        return f' style="text-align: {"left" if words else "right"}"'


def table(
    data: Mapping[str, Cells],
    *,
    caption: str,
    rows: str = "",
    digits: int = 2,
    best: Mapping[str, str] | str | None = None,
) -> Table:
    """Results as a real table: ``data[row][column]``, e.g. ``frame.to_dict("index")``.

    data     cells are text, numbers, or (mean, low, high), shown as "mean [low, high]"
    rows     what the rows are, the head of the first column; digits  after the point
    best     "highest" or "lowest", for all columns or by column: that cell is bold, and the caption
             says so
    raises   TypeError or ValueError for no row, rows of other columns, cells of another kind, or a
             column that is not there
    """
    caption, rows = checks.text("caption", caption), checks.text("rows", rows)
    digits = checks.whole("digits", digits, 0, 20)
    columns = _columns(data)
    sides = _sides(best, columns)
    marked = {
        (row, columns.index(column))
        for column, side in sides.items()
        for row in _best_rows([cells[column] for cells in data.values()], side)
    }
    if marked:
        caption = f"{caption} Bold: {_in_words(sides, columns)}."
    plain = [_digits([cells[column] for cells in data.values()], digits) for column in columns]
    written = [
        [str(name)]
        + [
            _written(f"data[{name!r}]", cell, digits, own)
            for cell, own in zip(cells.values(), plain, strict=True)
        ]
        for name, cells in data.items()
    ]
    return Table([rows, *map(str, columns)], written, marked, caption)


def _columns(data: Mapping[str, Cells]) -> list[str]:
    checks.instance("data", data, Mapping, "{row: {column: cell}}")
    for name, cells in data.items():
        checks.instance(f"data[{name!r}]", cells, Mapping, "{column: cell}")
    columns = list(next(iter(data.values()))) if data else []
    if not columns or any(list(cells) != columns for cells in data.values()):
        raise ValueError("data: expected rows of the same columns, at least one of each")
    return columns


def _sides(best: Mapping[str, str] | str | None, columns: list[str]) -> dict[str, str]:
    """Which end of each column is the best; checked."""
    if isinstance(best, str):
        sides = dict.fromkeys(columns, best)
    else:
        given = {} if best is None else best
        sides = dict(checks.instance("best", given, Mapping, '{column: "highest" or "lowest"}'))
    known = ("highest", "lowest")
    unknown = [column for column in sides if column not in columns]
    unknown += [side for side in sides.values() if side not in known]
    if unknown:
        raise ValueError(f'best: expected columns and "highest" or "lowest", got {unknown}')
    return sides


def _best_rows(cells: list[object], side: str) -> list[int]:
    """The rows whose number is at the best end of a column; several if they are equal."""
    numbers = {row: _number(cell) for row, cell in enumerate(cells)}
    values = {row: value for row, value in numbers.items() if value is not None}
    if not values:
        return []
    extreme = max(values.values()) if side == "highest" else min(values.values())
    # Equal cells are all the best: which of them stands first means nothing.
    return [row for row, value in values.items() if value == extreme]


def _in_words(sides: Mapping[str, str], columns: list[str]) -> str:
    if len(set(sides.values())) == 1 and set(sides) == set(columns):
        return f"the {next(iter(sides.values()))} of each column"
    return ", ".join(f"the {side} of {column}" for column, side in sides.items())


def _number(cell: object) -> float | None:
    """What is compared of a cell; None for text and NaN."""
    middle = cell[0] if isinstance(cell, tuple) and cell else cell
    if middle is None or isinstance(middle, str | bool | tuple):
        return None
    number = _float(middle)
    return None if number is None or math.isnan(number) else number


def _float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _digits(cells: list[object], digits: int) -> int:
    """Decimals of a column's plain numbers: none for counts, and none where all are large."""
    plain = [cell for cell in cells if isinstance(cell, float) or hasattr(cell, "dtype")]
    sizes = [abs(number) for number in map(_float, plain) if number is not None]
    sizes = [size for size in sizes if math.isfinite(size) and size]
    counts = all(size == round(size) for size in sizes) and max(sizes, default=0) >= 10
    return 0 if sizes and (counts or min(sizes) >= 100) else digits


def _written(label: str, cell: object, digits: int, plain: int) -> str:
    """A cell as text: ``digits`` of an interval, if it is not too wide for them, else ``plain``."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return str(cell)
    parts = cell[:3] if isinstance(cell, tuple) and len(cell) >= 3 else (cell,)
    numbers = [_float(part) for part in parts]
    if None in numbers:
        wanted = "text, a number or (mean, low, high)"
        raise TypeError(f"{label}: expected {wanted}, got {checks.shown(cell)}")
    known = [number for number in numbers if number is not None]
    if len(known) == 3:
        own = decimals(known[1], known[2], digits)
        alike = round(known[1], digits) == round(known[2], digits)
        near_zero = any(looks_zero(end, digits) for end in known[1:])
        plain = own if own < digits or alike or near_zero else digits
    # Adding zero turns -0.00 into 0.00.
    mean, *ends = (f"{round(number, plain) + 0.0:.{plain}f}" for number in known)
    return f"{mean} [{', '.join(ends)}]" if ends else mean
