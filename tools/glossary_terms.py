"""Sphinx extension: the glossary at hand wherever one of its terms stands.

A link to a term carries the first sentences of its definition, as text with TeX formulas, for
`book.js` to show. The general index says in which sections of which chapters a term is used.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes

CHAPTER = re.compile(r"notebooks/(\d+)_")
LINK = re.compile(r'(<a class="reference internal" href="[^"]*#(term-[^"]+)")(?=>)')
LENGTH = 260  # characters up to which a second sentence is added
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


def plain(node: nodes.Node) -> str:
    """The text of a node without citations, its formulas for MathJax."""
    if isinstance(node, nodes.math):
        return rf"\({node.astext()}\)"
    if isinstance(node, addnodes.pending_xref) and node["refdomain"] == "cite":
        return ""
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(map(plain, node.children))


def opening(text: str) -> str:
    """The first sentence of a definition, and the second where there is room."""
    text = re.sub(r"\s+([.,;:)])", r"\1", re.sub(r"\s+", " ", text)).strip()
    first, *rest = SENTENCE.split(text)
    return f"{first} {rest[0]}" if rest and len(first) + len(rest[0]) < LENGTH else first


def definitions(doctree: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Anchor, chief name and opening of the definition of every glossary term on a page."""
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            names = [node for node in item.children if isinstance(node, nodes.term)]
            text = opening(plain(next(item.findall(nodes.paragraph))))
            for name in names:
                yield name["ids"][0], names[0].astext(), text


def sections(doctree: nodes.document) -> Iterator[tuple[str, str]]:
    """Target and section anchor of every link to a term on a page."""
    for link in doctree.findall(addnodes.pending_xref):
        if link["reftype"] == "term":
            node = link.parent
            while not isinstance(node, nodes.section):
                node = node.parent
            yield link["reftarget"], node["ids"][0]


def gather(app: Any, env: Any) -> None:
    """Read the glossary, then write the chapters' terms into the general index."""
    objects = env.domaindata["std"]["objects"]
    terms = {name.lower(): place for (kind, name), place in objects.items() if kind == "term"}
    chief = {}
    env.glossary_definitions = {}
    for page in sorted({page for page, _ in terms.values()}):
        for anchor, name, text in definitions(env.get_doctree(page)):
            chief[page, anchor] = name
            env.glossary_definitions[anchor] = text
    for page in filter(CHAPTER.match, sorted(env.found_docs)):
        entries = env.domaindata["index"]["entries"].setdefault(page, [])
        number = int(CHAPTER.match(page)[1])
        for target, anchor in sections(env.get_doctree(page)):
            if target.lower() in terms:
                name = chief[terms[target.lower()]]
                entry = ("single", f"{name}; chapter {number}", anchor, "", None)
                if entry not in entries:
                    entries.append(entry)


def annotate(body: str, texts: dict[str, str]) -> str:
    """A page's HTML with the definition's opening on every link to a term."""

    def add(found: re.Match[str]) -> str:
        text = texts.get(html.unescape(found[2]))
        return f'{found[1]} data-definition="{html.escape(text)}"' if text else found[1]

    return LINK.sub(add, body)


def explain(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Annotate a page on its way to HTML."""
    if "body" in context:
        context["body"] = annotate(context["body"], app.env.glossary_definitions)


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-updated", gather)
    app.connect("html-page-context", explain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
