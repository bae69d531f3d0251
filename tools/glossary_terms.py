"""Sphinx extension: each link to a glossary term carries its definition.

A link to a term carries the first sentences of its definition, as text with TeX formulas, for
`book.js` to show. The general index says in which sections of which chapters a term is used.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes

CHAPTER = re.compile(r"notebooks/(\d+)_")
LINK = re.compile(r'(<a class="reference internal" href="[^"]*#(term-[^"]+)")(?=>)')
LENGTH = 260  # characters up to which a second sentence is added
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


def plain(node: nodes.Node) -> str:
    """The text of a node without citations, with formulas for MathJax."""
    if isinstance(node, nodes.math):
        return rf"\({node.astext()}\)"
    if isinstance(node, addnodes.pending_xref) and node["refdomain"] == "cite":
        return ""
    return node.astext() if isinstance(node, nodes.Text) else "".join(map(plain, node.children))


def opening(text: str) -> str:
    """The first sentence of a definition, and the second if there is room."""
    text = re.sub(r"\s+([.,;:)])", r"\1", re.sub(r"\s+", " ", text)).strip()
    first, *rest = SENTENCE.split(text)
    return f"{first} {rest[0]}" if rest and len(first) + len(rest[0]) < LENGTH else first


def gather(app: Any, env: Any) -> None:
    """Read the glossary, then write the chapters' terms into the general index."""
    objects = env.domaindata["std"]["objects"]
    terms = {name.lower(): place for (kind, name), place in objects.items() if kind == "term"}
    chief = {}
    env.glossary_definitions = {}
    for page in sorted({page for page, _ in terms.values()}):
        for glossary in env.get_doctree(page).findall(addnodes.glossary):
            for item in glossary.findall(nodes.definition_list_item):
                names = [node for node in item.children if isinstance(node, nodes.term)]
                text = opening(plain(next(item.findall(nodes.paragraph))))
                for name in names:
                    chief[page, name["ids"][0]] = names[0].astext()
                    env.glossary_definitions[name["ids"][0]] = text
    for page in filter(CHAPTER.match, sorted(env.found_docs)):
        entries = env.domaindata["index"]["entries"].setdefault(page, [])
        for link in env.get_doctree(page).findall(addnodes.pending_xref):
            place = terms.get(link["reftarget"].lower()) if link["reftype"] == "term" else None
            section = link.parent
            while place and not isinstance(section, nodes.section):
                section = section.parent
            text = f"{chief.get(place)}; chapter {int(CHAPTER.match(page)[1])}"
            entry = ("single", text, place and section["ids"][0], "", None)
            if place and entry not in entries:
                entries.append(entry)


def explain(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add the opening of its definition to every link to a term on a page."""

    def add(found: re.Match[str]) -> str:
        text = app.env.glossary_definitions.get(html.unescape(found[2]))
        return f'{found[1]} data-definition="{html.escape(text)}"' if text else found[1]

    if "body" in context:
        context["body"] = LINK.sub(add, context["body"])


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-updated", gather)
    app.connect("html-page-context", explain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
