"""The submissions of a class: every file, with any name, and the pages of marks.

No file of a student is overwritten. A page of marks has its own name and its own first
line, so that it is recognised when the class is marked again.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import chapters

LARGEST = 20 * 2**20  # bytes of a sheet, and of the grader's output
COPIED = b"\x00\x05\x16\x07"  # beginning of the files that a Mac adds, ._NAME
HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="marks" content="{}">'
PAGE = re.compile(re.escape(HEAD).replace(r"\{\}", "([0-9a-f]{16})").encode())


class Refused(Exception):
    """The reason why a sheet has no marks, as the status of its row."""


Content = tuple[Path, bytes | Refused]


def contents(folder: Path) -> dict[str, Content]:
    """Every file below a folder by its path, with its content, or why it cannot be read.

    Hidden files and folders and our own are left out; a sheet's name may begin with a dot.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        *folders, name = path.relative_to(folder).parts
        if path.is_dir() and not path.is_symlink() and not named(path):
            continue
        try:
            content: bytes | Refused = read(path)
        except (Refused, OSError) as error:
            why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            content = Refused(why)
        copied = isinstance(content, bytes) and content.startswith(COPIED)
        hidden = name[0] == "." and (copied or not named(path))
        hidden |= any(part[0] == "." for part in folders)
        if not hidden and path != folder / "grades.csv" and not ours(path):
            found[shown(path.relative_to(folder).as_posix())] = (path, content)
    return found


def named(path: Path) -> bool:
    """Whether a file has the name of a sheet."""
    return path.name.lower().endswith(".ipynb")


def read(path: Path) -> bytes:
    """The content of a submitted file, if it may be a sheet."""
    if path.is_symlink() or not path.is_file():
        raise Refused("no file: a link or a folder")
    if path.stat().st_size > LARGEST:
        raise Refused(f"larger than {LARGEST // 2**20} MiB")
    content = path.read_bytes()
    if not named(path) and b'"nbformat"' not in content:
        raise Refused("no notebook")
    return content


def ours(path: Path) -> bool:
    """Whether a file is an unchanged page of marks."""
    try:
        content = b"" if path.suffix != ".html" or path.is_symlink() else path.read_bytes()
    except OSError:
        return False
    head = PAGE.match(content)
    return bool(head) and head[1].decode() == mark_of(content[head.end() :])


def shown(name: str) -> str:
    """A printable name: bytes that are no text, as in an old zip, become \\xf6."""
    escaped = name.replace("\\", "\\\\").encode("utf-8", "surrogateescape")
    return escaped.decode("utf-8", "backslashreplace")


def mark_of(content: bytes | Refused) -> str:
    """A hash of the submitted file."""
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def places(sheet: Path) -> list[Path]:
    """Where the page of a sheet may lie."""
    return [sheet.with_name(f"{sheet.name}.marks{n}.html") for n in ("", *range(2, 100))]


def page_of(sheet: Path) -> str:
    """The text of the page beside the sheet; "" without one."""
    path = next((path for path in places(sheet) if ours(path)), None)
    return path.read_text(encoding="utf-8").partition("\n")[2] if path else ""


def leave_page(sheet: Path, text: str) -> str:
    """Write a page beside the sheet, under a name of its own; return the reason if that fails."""
    page = HEAD.format(mark_of(text.encode())) + text
    for path in places(sheet):
        try:
            if ours(path) or not os.path.lexists(path):
                chapters.write_atomic(path, page)
                return ""
        except OSError as error:
            return f" (no page: {error.strerror})"
    return " (no page: no name is free)"
