"""What a class has handed in: every file, whatever it is called, and the pages that lie beside.

Nothing of a student is written over. A page of marks has a name of its own and begins in its own
way, so that it is known when the class is marked again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import chapters

LARGEST = 20 * 2**20  # bytes of a sheet, and of what the grader says of it
COPIED = b"\x00\x05\x16\x07"  # how what a Mac writes beside a file begins, ._NAME
HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="marks" content="{}">'
PAGE = re.compile(re.escape(HEAD).replace(r"\{\}", "([0-9a-f]{16})").encode())
PAGES = 100  # names that a page may have


class Refused(Exception):
    """Why a sheet has no marks: a status for its row."""


Content = tuple[Path, bytes | Refused]


def submissions(folder: Path) -> list[Path]:
    """Every file below a folder, whatever it is called; hidden folders and our own files apart."""
    found = []
    for path in sorted(folder.rglob("*")):
        *folders, name = path.relative_to(folder).parts
        hidden = any(part[0] == "." for part in folders) or (name[0] == "." and not dotted(path))
        a_file = path.is_file() or path.is_symlink() or named(path)
        if a_file and not hidden and path != folder / "grades.csv" and not ours(path):
            found.append(path)
    return found


def named(path: Path) -> bool:
    """Whether a file is called as sheets are."""
    return path.name.lower().endswith(".ipynb")


def dotted(path: Path) -> bool:
    """Whether a name that begins with a dot is a sheet's: ``.ipynb``, and no Mac's ``._``."""
    return named(path) and not (path.is_file() and first_bytes(path, len(COPIED)) == COPIED)


def ours(path: Path) -> bool:
    """Whether a file is a page of marks, and as it was written."""
    if path.suffix != ".html" or path.is_symlink() or not path.is_file():
        return False
    content = first_bytes(path, LARGEST)
    head = PAGE.match(content)
    return bool(head) and head[1].decode() == mark_of(content[head.end() :])


def first_bytes(path: Path, most: int) -> bytes:
    """The beginning of a file; of one that cannot be read, nothing."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return b""


def read(sheet: Path) -> bytes:
    """What was handed in, before anything runs."""
    if sheet.is_symlink() or not sheet.is_file():
        raise Refused("no file: a link or a folder")
    if sheet.stat().st_size > LARGEST:
        raise Refused(f"larger than {LARGEST // 2**20} MiB")
    return sheet.read_bytes()


def contents_of(found: list[Path], folder: Path) -> Iterator[tuple[str, Content]]:
    """Each file's place in words, its path and content, or why it has none."""
    for sheet in found:
        where = shown(sheet.relative_to(folder).as_posix())
        try:
            content = read(sheet)
            if not named(sheet) and b'"nbformat"' not in content:
                raise Refused("no notebook")
            yield where, (sheet, content)
        except Refused as refused:
            yield where, (sheet, refused)
        except OSError as error:
            yield where, (sheet, Refused(f"cannot be read: {error.strerror}"))


def shown(name: str) -> str:
    """A name that can be written: bytes that are no text, as an old zip has them, become \\xf6."""
    escaped = name.replace("\\", "\\\\").encode("utf-8", "surrogateescape")
    return escaped.decode("utf-8", "backslashreplace")


def mark_of(content: bytes | Refused) -> str:
    """A hash of what was handed in."""
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def leave_page(sheet: Path, text: str) -> str:
    """A page beside the sheet, under a name that nothing else has; where it has none, says why."""
    page = HEAD.format(mark_of(text.encode())) + text
    for place in ("", *range(2, PAGES)):
        path = sheet.with_name(f"{sheet.name}.marks{place}.html")
        try:
            if ours(path) or not os.path.lexists(path):
                chapters.write_atomic(path, page)
                return ""
        except OSError as error:
            return f" (no page: {error.strerror})"
    return " (no page: no name is free)"
