"""Tables: a notebook shows them as HTML, a terminal shows them as text. Chapters call ``table``."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping

from ..judge.evidence import decimals, looks_zero
from ..parse import checks

# A number, maybe with a sign before it and an interval or a unit after it; or nothing.
NUMBER = re.compile(r"[-+±<>≥≤~≈−]? ?(\d|\.\d|nan|inf)|[-–—]?$")
Cells = Mapping[str, object]


class Table:
    """A table that a notebook shows as HTML and a terminal as text; made by ``table``."""

    def __init__(self, header: list[str], rows: list[list[str]], caption: str):
        self.header, self.rows, self.caption = header, rows, caption

    def __repr__(self) -> str:
        text_rows = [self.header, *self.rows]
        widths = [max(map(len, column_cells)) for column_cells in zip(*text_rows, strict=True)]
        printed_lines = []
        for row_name, *cells in text_rows:
            # The names of the rows are aligned left, and numbers are aligned right.
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            printed_lines.append("  ".join([row_name.ljust(widths[0]), *padded]).rstrip())
        return "\n".join([*printed_lines, "", self.caption])

    def _repr_html_(self) -> str:
        # Column -1 holds the rows' names; the cells of a row count from 0.
        head_cells = [
            f'<th scope="col"{self._side(column)}>{html.escape(column_name)}</th>'
            for column, column_name in enumerate(self.header, start=-1)
        ]
        body_rows = "\n".join(map(self._html_row, self.rows))
        return (
            f'<table class="fedlab-table">\n<caption>{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{''.join(head_cells)}</tr></thead>\n<tbody>\n{body_rows}\n</tbody>\n</table>"
        )

    def _html_row(self, row: list[str]) -> str:
        row_name, *cells = row
        html_cells = [f'<th scope="row"{self._side(-1)}>{html.escape(row_name)}</th>']
        for column, cell in enumerate(cells):
            html_cells.append(f"<td{self._side(column)}>{html.escape(cell)}</td>")
        return f"<tr>{''.join(html_cells)}</tr>"

    def _side(self, column: int) -> str:
        """Columns of numbers are aligned right; columns with words and rows' names, left."""
        has_words = column < 0 or any(not NUMBER.match(row[column + 1]) for row in self.rows)
        # Written in each cell, because JupyterLab's own style sheet aligns all cells right.
        return f' style="text-align: {"left" if has_words else "right"}"'


def table(data: Mapping[str, Cells], *, caption: str, rows: str = "", digits: int = 2) -> Table:
    """Results as a table: ``data[row][column]``, e.g. ``frame.to_dict("index")``.

    data     cells are text, numbers, or (mean, low, high), shown as "mean [low, high]"
    rows     what the rows are, the head of the first column; digits  after the decimal point
    raises   TypeError or ValueError for no rows, rows with different columns, or cells of another
             kind
    """
    caption, rows = checks.text("caption", caption), checks.text("rows", rows)
    digits = checks.whole("digits", digits, 0, 20)
    columns = _columns(data)
    plain_digits = [
        _digits([cells[column] for cells in data.values()], digits) for column in columns
    ]
    written_rows = [
        [str(row_name)]
        + [
            _written(f"data[{row_name!r}]", cell, digits, column_digits)
            for cell, column_digits in zip(cells.values(), plain_digits, strict=True)
        ]
        for row_name, cells in data.items()
    ]
    return Table([rows, *map(str, columns)], written_rows, caption)


def _columns(data: Mapping[str, Cells]) -> list[str]:
    checks.instance("data", data, Mapping, "{row: {column: cell}}")
    for row_name, cells in data.items():
        checks.instance(f"data[{row_name!r}]", cells, Mapping, "{column: cell}")
    columns = list(next(iter(data.values()))) if data else []
    if not columns or any(list(cells) != columns for cells in data.values()):
        raise ValueError("data: expected rows of the same columns, at least one of each")
    return columns


def _float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _digits(column_cells: list[object], digits: int) -> int:
    """Decimals of a column's plain numbers: none for counts, and none if all are large."""
    floats = [cell for cell in column_cells if isinstance(cell, float) or hasattr(cell, "dtype")]
    sizes = [abs(number) for number in map(_float, floats) if number is not None]
    sizes = [size for size in sizes if math.isfinite(size) and size]
    are_counts = all(size == round(size) for size in sizes) and max(sizes, default=0) >= 10
    return 0 if sizes and (are_counts or min(sizes) >= 100) else digits


def _written(label: str, cell: object, digits: int, plain_digits: int) -> str:
    """A cell as text: ``digits`` for an interval, fewer if it is wide, else ``plain_digits``."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    # Before the test for whole numbers, because a bool is one in Python.
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return str(cell)
    cell_parts = cell[:3] if isinstance(cell, tuple) and len(cell) >= 3 else (cell,)
    maybe_numbers = [_float(cell_part) for cell_part in cell_parts]
    if None in maybe_numbers:
        wanted_kinds = "text, a number or (mean, low, high)"
        raise TypeError(f"{label}: expected {wanted_kinds}, got {checks.shown(cell)}")
    numbers = [number for number in maybe_numbers if number is not None]
    if len(numbers) == 3:
        end_digits = decimals(numbers[1], numbers[2], digits)
        ends_alike = round(numbers[1], digits) == round(numbers[2], digits)
        near_zero = any(looks_zero(end, digits) for end in numbers[1:])
        # More digits than ``digits`` only if the ends look equal, or one of them looks like zero.
        plain_digits = end_digits if end_digits < digits or ends_alike or near_zero else digits
    # Adding zero turns -0.00 into 0.00.
    mean, *ends = (f"{round(number, plain_digits) + 0.0:.{plain_digits}f}" for number in numbers)
    return f"{mean} [{', '.join(ends)}]" if ends else mean
