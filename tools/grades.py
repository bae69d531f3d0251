"""The table of marks: one line per sheet; all of it is written again after each sheet.

A teacher may open it in a spreadsheet, write into it and save it as CSV, with commas, semicolons or
tabs, in UTF-8 or in the encoding of Western Windows: all their lines and columns are kept. It
begins with a byte-order mark, by which spreadsheets know UTF-8. One that has read or saved a name
wrongly does not part a line from its sheet: both have the sheet's hash. An unreadable file is
refused, not overwritten.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unicodedata import normalize

import chapters

# A program that does not know the byte-order mark reads it as a part of the first name, so that
# column is one by which nobody looks up a line.
FIRST = ("lab", "student", "file", "status", "points", "possible", "raised")
MARK = "\ufeff"
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

    sheets  {file: its hash} of all that is handed in; a line whose file is none of them belongs to
            the sheet of its hash
    raises  ValueError that names the unchanged file, if a part of it could get lost
    """

    def __init__(self, folder: Path, again: bool = False, sheets: Mapping[str, str] | None = None):
        self.path, self.again, self.seen = folder / "grades.csv", again, b""
        self.rows, self.loose = dict[str, dict[str, Any]](), list[dict[str, Any]]()
        self.names, self.between, self.sheets = list[str](), ",", dict(sheets or {})
        self.read()

    def read(self) -> None:
        """Read the file's entries again, also those that somebody has saved meanwhile."""
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{self.path}: expected a file; {AWAY}")
        content = self.path.read_bytes() if self.path.exists() else b""
        if content and content != self.seen:
            rows = [row for row in self._rows(content) if any(row.values())]
            self._join([row for row in rows if row["file"]])
            known = {row["file"]: row for row in rows if row["file"]}
            self.loose = [row for row in rows if not row["file"]]
            if len(known) + len(self.loose) < len(rows):
                raise ValueError(f"{self.path}: two lines for one file; keep one of them")
            self.rows |= known  # an older table, saved meanwhile, lacks the newest lines
        self.seen = content

    def _join(self, rows: list[dict[str, Any]]) -> None:
        """Give lines whose file's name has suffered the name of their sheet again."""
        hashes = [row["sha256"].removeprefix(HASH) for row in rows]
        lost = [k for k, row in enumerate(rows) if row["file"] not in self.sheets]
        free = [where for where in self.sheets if where not in {row["file"] for row in rows}]
        for k in lost:
            seen = rows[k]["file"]
            same = [where for where, mark in self.sheets.items() if mark == hashes[k]]
            found = [where for where in same if suffered(where, seen, ".+")]
            if not found and hashes.count(hashes[k]) == len(same) == 1:  # moved, or called anew
                found = [where for where in same if where in free]
            if not found:  # handed in again
                found = [where for where in free if suffered(where, seen, "[^a-zA-Z]+")]
            place = next((where for where in found if where in free), "")
            if place:
                free.remove(place)
                rows[k] |= {"file": place, "student": student(place)}
            elif found:
                said = f"{self.path}: two lines for the sheet {found[0]}, one of them as {seen}"
                raise ValueError(f"{said}; keep one of them")

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
        try:
            text = decoded(content)
        except UnicodeDecodeError:
            why = "not text in UTF-8 or Windows-1252; save it as 'CSV UTF-8'"
            raise ValueError(f"{self.path}: {why}, or {AWAY}") from None
        file = io.StringIO(text.removeprefix(MARK), newline="")
        for self.between in BETWEEN:
            file.seek(0)
            try:
                names, *lines = csv.reader(file, delimiter=self.between, strict=True)
            except (csv.Error, ValueError):
                continue
            names = [name.strip() for name in names]
            if {"file", "sha256"} <= {*names}:
                return names, [*self._unfolded(lines, len(names))]
        wanted = "expected a first line with columns file and sha256, and lines of CSV"
        raise ValueError(f"{self.path}: {wanted}; save it as 'CSV UTF-8', or {AWAY}")

    def _unfolded(self, lines: Iterable[list[str]], columns: int) -> Iterator[list[str]]:
        """The lines; one that a spreadsheet has read as a single cell is parted again."""
        for line in lines:
            parts = next(csv.reader(line, delimiter=self.between)) if len(line) == 1 else []
            yield parts if len(parts) == columns else line

    def knows(self, where: str, mark: str) -> bool:
        """Whether exactly this sheet has been marked before."""
        before = self.rows.get(where, {}).get("sha256", "")
        return not self.again and before.removeprefix(HASH) == mark

    def add(self, row: dict[str, Any]) -> None:
        """Store a row; the entries in a teacher's own columns are kept."""
        self.read()
        own = {n: v for n, v in self.rows.get(row["file"], {}).items() if noted(n)}
        self.rows[row["file"]] = {**own, **row, "sha256": f"{HASH}{row['sha256']}"}
        self.write()

    def write(self) -> None:
        """Write the table, with a teacher's newest entries."""
        self.read()
        rows = [*(self.rows[where] for where in sorted(self.rows)), *self.loose]
        names = dict.fromkeys([*self.names, *(name for row in rows for name in row)])
        asked = sorted(filter(QUESTION.fullmatch, names), key=counted)
        columns = [*FIRST, *asked, "sha256", *filter(noted, names)]
        text = io.StringIO(MARK, newline="")
        text.seek(0, io.SEEK_END)
        writer = csv.DictWriter(text, columns, restval="", delimiter=self.between)
        writer.writeheader()
        for row in rows:
            writer.writerow({n: v if noted(n) else quoted(v) for n, v in row.items()})
        self.seen = text.getvalue().encode()
        chapters.write_atomic(self.path, text.getvalue())


def written(value: Any) -> str:
    """A mark as a page shows it: 1, "1.0" and "1,0" are one mark; "excused" is one, too."""
    number = amount(value)
    return str(value) if number is None else f"{number:g}"


def amount(value: Any) -> float | None:
    """The number of a mark, or None."""
    try:
        return float(str(value).replace(",", "."))
    except ValueError:
        return None


def decoded(content: bytes) -> str:
    """The text of a table: UTF-16 and UTF-8 by their marks, else UTF-8, else Windows-1252."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def student(where: str) -> str:
    """Whose sheet a file is: its first folder, or the name of the file."""
    return re.sub(r"\.ipynb$", "", Path(where).parts[0], flags=re.IGNORECASE) or where


def suffered(name: str, seen: str, wrong: str) -> bool:
    """Whether a spreadsheet could have made ``seen`` of a name: what is not ASCII became wrong."""
    parts = re.split(r"[^\x00-\x7f]+", normalize("NFC", name))
    pattern = wrong.join(map(re.escape, parts))
    return len(parts) > 1 and bool(re.fullmatch(pattern, normalize("NFC", seen), re.DOTALL))


def noted(name: str) -> bool:
    """Whether a column is a teacher's own; it must have a name."""
    return bool(name) and not (name in FIRST or name == "sha256" or QUESTION.fullmatch(name))


def quoted(value: Any) -> Any:
    """The cell, quoted so that a spreadsheet does not read it as a formula."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def plain(value: str) -> str:
    """A cell without the quote."""
    return value[1:] if value[:1] == "'" and FORMULA.match(value) else value
