"""Sphinx extension: show the package's docstrings as they are written.

The first paragraph becomes a paragraph; the table of arguments below it keeps its columns, as plain
text. A module's docstring is prose throughout.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

CODE = re.compile(r"(`+)(.+?)\1")
SPECIAL = re.compile(r"([*|_\\])")


def prose(line: str) -> str:
    """A line of reStructuredText that reads as the line does; `code` and ``code`` stay code."""
    pieces = CODE.split(line)
    plain, code = pieces[0::3], pieces[2::3]
    escaped = [SPECIAL.sub(r"\\\1", text) for text in plain]
    return escaped[0] + "".join(f"``{c}``\\ {t}" for c, t in zip(code, escaped[1:], strict=True))


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Lines between blank lines."""
    return [list(group) for filled, group in groupby(lines, key=bool) if filled]


def rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring, in place, into what the reference page shows."""
    first, *rest = paragraphs(lines) or [[]]
    lines[:] = [*map(prose, first), ""]
    if what == "module":
        for paragraph in rest:
            lines += [*map(prose, paragraph), ""]
    elif rest:
        lines += [".. code-block:: text", ""]
        for paragraph in rest:
            lines += [*("   " + CODE.sub(r"\2", line) for line in paragraph), ""]


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
