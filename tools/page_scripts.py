"""Sphinx extension, two repairs of pages: widgets' states are harmless, intervals stay on one line.

A state cannot end the script that holds it, and is JSON: a browser reads no NaN there, and one
would silence all widgets of the page; it becomes null. A line may end between two words, but not
inside "0.52 [0.43, 0.62]": there the spaces do not break.
"""

from __future__ import annotations

import json
import re
from typing import Any

from docutils import nodes
from myst_nb.core import render

NUMBER = r"[-+−]?(?:\d[\d,]*)?\.?\d+%?"
INTERVAL = re.compile(rf"(?:(?<![\w.,]){NUMBER} )?\[{NUMBER}, {NUMBER}\]")
AS_WRITTEN = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.comment)


def harmless(content: str) -> str:
    """JSON for a script tag: without any character that HTML reads, and without NaN."""
    text = json.dumps(json.loads(content, parse_constant=lambda name: None))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def whole(text: str) -> str:
    """The text, its intervals without a place where a line could end."""
    return INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def keep_whole(app: Any, doctree: nodes.document, page: str) -> None:
    """Sentences, cells and results of a page; code and formulas stay as they were written."""
    for text in [*doctree.findall(nodes.Text)]:
        parent = text.parent
        if isinstance(parent, nodes.raw):
            if parent.get("format") == "html" and "<table" in text and "<script" not in text:
                parent.replace(text, nodes.Text(whole(text)))
        elif not isinstance(parent, AS_WRITTEN) and (new := whole(text)) != text:
            parent.replace(text, nodes.Text(new))


def setup(app: Any) -> dict[str, bool]:
    render.sanitize_script_content = harmless
    app.connect("doctree-resolved", keep_whole, priority=900)  # after the search page's texts
    return {"parallel_read_safe": True, "parallel_write_safe": True}
