"""The table of marks: one line per sheet; all of it is written again after each sheet.

A teacher may open it in a spreadsheet, write into it and save it as CSV, with commas, semicolons or
tabs: all their lines and columns are kept. An unreadable file is refused, not overwritten.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chapters

FIRST = ("student", "file", "lab", "status", "points", "possible", "raised")
QUESTION = re.compile(r"q\d+")
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # beginnings of formulas, quoted or not
HASH = "sha-"  # before a hash, so that a spreadsheet does not read it as a number
BETWEEN = ",;\t"
AWAY = "move it out of this folder"


def counted(name: str) -> tuple[int, str]:
    """A sort key that puts q10 after q9."""
    return int("0" + re.sub(r"\D", "", name)), name


class Table:
    """grades.csv, with a teacher's own entries; with ``again`` no sheet counts as known.

    raises  ValueError that names the unchanged file, if a part of it could get lost
    """

    def __init__(self, folder: Path, again: bool = False):
        self.path, self.again, self.seen = folder / "grades.csv", again, b""
        self.rows, self.loose = dict[str, dict[str, Any]](), list[dict[str, Any]]()
        self.names, self.start, self.between = list[str](), "", ","
        self.read()

    def read(self) -> None:
        """Read the file's entries again, also those that somebody has saved meanwhile."""
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{self.path}: expected a file; {AWAY}")
        content = self.path.read_bytes() if self.path.exists() else b""
        if content and content != self.seen:
            rows = [row for row in self._rows(content) if any(row.values())]
            known = {row["file"]: row for row in rows if row["file"]}
            self.loose = [row for row in rows if not row["file"]]
            if len(known) + len(self.loose) < len(rows):
                raise ValueError(f"{self.path}: two lines for one file; keep one of them")
            self.rows |= known  # an older table, saved meanwhile, lacks the newest lines

    def _rows(self, content: bytes) -> Iterator[dict[str, Any]]:
        self.names, cells = self._cells(content)
        named = [name for name in self.names if name]
        if len({*named}) < len(named):
            raise ValueError(f"{self.path}: two columns of one name; rename one of them")
        for number, line in enumerate(cells, 2):
            beyond = [cell for name, cell in zip(self.names, line, strict=False) if not name]
            if any([*beyond, *line[len(self.names) :]]):
                raise ValueError(f"{self.path}, row {number}: a cell in a column without a name")
            line += [""] * len(self.names)
            row = dict(zip(self.names, line, strict=False))
            yield {n: v if noted(n) else plain(v) for n, v in row.items() if n}

    def _cells(self, content: bytes) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and all lines below; writing them again gives the same text."""
        wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        try:
            text = content.decode("utf-16" if wide else "utf-8")
        except UnicodeDecodeError:
            why = "not text in UTF-8; save it as 'CSV UTF-8'"
            raise ValueError(f"{self.path}: {why}, or {AWAY}") from None
        self.start = "\ufeff" if wide or text.startswith("\ufeff") else ""
        file = io.StringIO(text.removeprefix("\ufeff"), newline="")
        for self.between in BETWEEN:
            file.seek(0)
            try:
                names, *lines = csv.reader(file, delimiter=self.between, strict=True)
            except (csv.Error, ValueError):
                continue
            names = [name.strip() for name in names]
            if {"file", "sha256"} <= {*names}:
                return names, lines
        wanted = "expected a first line with columns file and sha256, and lines of CSV"
        raise ValueError(f"{self.path}: {wanted}; save it as 'CSV UTF-8', or {AWAY}")

    def knows(self, where: str, mark: str) -> bool:
        """Whether exactly this sheet has been marked before."""
        before = self.rows.get(where, {}).get("sha256", "")
        return not self.again and before.removeprefix(HASH) == mark

    def add(self, row: dict[str, Any]) -> None:
        """Store a row; the entries in a teacher's own columns are kept."""
        self.read()
        own = {n: v for n, v in self.rows.get(row["file"], {}).items() if noted(n)}
        self.rows[row["file"]] = {**own, **row, "sha256": f"{HASH}{row['sha256']}"}
        rows = [*(self.rows[where] for where in sorted(self.rows)), *self.loose]
        names = dict.fromkeys([*self.names, *(name for row in rows for name in row)])
        asked = sorted(filter(QUESTION.fullmatch, names), key=counted)
        columns = [*FIRST, *asked, "sha256", *filter(noted, names)]
        text = io.StringIO(self.start, newline="")
        text.seek(0, io.SEEK_END)
        writer = csv.DictWriter(text, columns, restval="", delimiter=self.between)
        writer.writeheader()
        for row in rows:
            writer.writerow({n: v if noted(n) else quoted(v) for n, v in row.items()})
        self.seen = text.getvalue().encode()
        chapters.write_atomic(self.path, text.getvalue())


def noted(name: str) -> bool:
    """Whether a column is a teacher's own; it must have a name."""
    return bool(name) and not (name in FIRST or name == "sha256" or QUESTION.fullmatch(name))


def quoted(value: Any) -> Any:
    """The cell, quoted so that a spreadsheet does not read it as a formula."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def plain(value: str) -> str:
    """A cell without the quote."""
    return value[1:] if value[:1] == "'" and FORMULA.match(value) else value
