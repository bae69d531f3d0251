"""Sphinx extension: show the package's docstrings as they are written, in aligned plain text.

The first paragraph becomes a paragraph; the table of arguments below it keeps its columns.
"""

from __future__ import annotations

import re
from typing import Any

SPECIAL = re.compile(r"([*`|_\\])")


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring, in place, into one escaped paragraph and a literal block."""
    first = lines.index("") if "" in lines else len(lines)
    head = [SPECIAL.sub(r"\\\1", line) for line in lines[:first]]
    body = lines[first:]
    while body and not body[0].strip():
        body.pop(0)
    while body and not body[-1].strip():
        body.pop()
    lines[:] = [*head, ""]
    if body:
        lines += [".. code-block:: text", "", *("   " + line for line in body), ""]


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", plain)
    return {"parallel_read_safe": True}
