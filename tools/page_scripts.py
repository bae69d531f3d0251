"""Sphinx extension with two repairs: widgets' states are safe, intervals stay on one line.

A state must not end the script that contains it, and must be JSON: browsers cannot read NaN. One
NaN would stop all widgets of the page, so it becomes null. A line may end between words, but not
inside "0.52 [0.43, 0.62]", whose spaces do not break.
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
    """JSON for a script tag: without characters that HTML interprets, and without NaN."""
    text = json.dumps(json.loads(content, parse_constant=lambda name: None))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def whole(text: str) -> str:
    """The text, in which no line can end inside an interval."""
    return INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def keep_whole(app: Any, doctree: nodes.document, page: str) -> None:
    """Sentences, cells and results of a page; code and formulas do not change."""
    for text in [*doctree.findall(nodes.Text)]:
        parent = text.parent
        if isinstance(parent, nodes.raw):
            if parent.get("format") == "html" and "<table" in text and "<script" not in text:
                parent.replace(text, nodes.Text(whole(text)))
        elif not isinstance(parent, AS_WRITTEN) and (new := whole(text)) != text:
            parent.replace(text, nodes.Text(new))


def apart(app: Any, doctree: nodes.document, page: str) -> None:
    """No id twice on a page: exercises and proofs of our extensions share some."""
    seen: set[str] = set()
    for node in doctree.findall(nodes.Element):
        for place, name in enumerate(node.get("ids", [])):
            new, count = name, 1
            while new in seen:
                count += 1
                new = f"{name}-{count}"
            node["ids"][place] = new
            seen.add(new)


def setup(app: Any) -> dict[str, bool]:
    render.sanitize_script_content = harmless
    app.connect("doctree-resolved", apart, priority=100)  # before the search page's texts
    app.connect("doctree-resolved", keep_whole, priority=900)  # after the search page's texts
    return {"parallel_read_safe": True, "parallel_write_safe": True}
