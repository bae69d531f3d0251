"""The table of marks: one line per sheet, written again as a whole whenever a sheet has ended."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import chapters

FIRST = ("student", "file", "lab", "status", "points", "possible", "raised")
FORMULA = ("=", "+", "-", "@")  # how one begins


def counted(name: str) -> tuple[int, str]:
    """Sorts q10 behind q9."""
    return int("0" + re.sub(r"\D", "", name)), name


class Table:
    """grades.csv, written again as a whole whenever a sheet has ended."""

    def __init__(self, folder: Path, again: bool):
        self.path, self.rows = folder / "grades.csv", dict[str, dict[str, Any]]()
        if self.path.is_file() and not again:
            with open(self.path, encoding="utf-8", newline="") as file:
                rows = [{n: plain(v) for n, v in row.items()} for row in csv.DictReader(file)]
            self.rows = {row["file"]: row for row in rows if row.get("file")}

    def knows(self, where: str, mark: str) -> bool:
        """Has this very sheet been marked before?"""
        return self.rows.get(where, {}).get("sha256") == mark

    def add(self, row: dict[str, Any]) -> None:
        """Store a row."""
        self.rows[row["file"]] = row
        rows = [self.rows[where] for where in sorted(self.rows)]
        others = {name for row in rows for name in row} - {*FIRST, "sha256"}
        columns = [*FIRST, *sorted(others, key=counted), "sha256"]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="")
        writer.writeheader()
        writer.writerows({name: quoted(value) for name, value in row.items()} for row in rows)
        chapters.write_atomic(self.path, text.getvalue())


def quoted(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value


def plain(value: Any) -> Any:
    """A cell as it was before it was quoted."""
    formula = isinstance(value, str) and value[:1] == "'" and value[1:2] in FORMULA
    return value[1:] if formula else value
