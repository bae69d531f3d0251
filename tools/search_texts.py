"""Sphinx extension: the book's texts for its search page, in pieces that a link can open.

A piece is a section without subsections, a glossary term, a question of the FAQ, a name of the
package or a symbol of the notation, without outputs of cells. `search.js` reads the file, also
from disk, where a browser may not fetch pages; the file also has the synonyms of
`book/synonyms.toml`.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

SILENT = (nodes.comment, nodes.raw, nodes.title, addnodes.index)
SILENT += (addnodes.desc_signature, addnodes.toctree)
FILE = "search-texts.js"
SIGNS = {"sum": "Σ", "in": "∈", "subseteq": "⊆", "cup": "∪", "ell": "ℓ", "partial": "∂"}


def plain(node: nodes.Node) -> str:
    """The words of a node; of formulas only those that are readable without TeX."""
    if isinstance(node, nodes.math | nodes.math_block):
        text = node.astext()
        return "…" if "\\" in text else re.sub(r"[{}$]", "", text)
    if isinstance(node, nodes.Text):
        return str(node.astext())
    if isinstance(node, SILENT) or "cell_output" in node.get("classes", []):
        return ""
    gap = "" if isinstance(node, nodes.TextElement) else " "
    return gap.join(map(plain, node.children))


def letter(command: re.Match[str]) -> str:
    r"""What a command of TeX draws: of \varphi and \phi the letter that keys write."""
    size = "CAPITAL" if command[1][0].isupper() else "SMALL"
    name = command[1].upper().replace("LAMBDA", "LAMDA")  # Unicode's spelling
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name}")
    except KeyError:
        return SIGNS.get(command[1], " ")


def symbols(row: nodes.row) -> str:
    """The symbol in a row of a table of symbols, in letters that a reader can type."""
    titles = row.parent.parent.next_node(nodes.entry)
    if titles.astext() != "Symbol" or not row[0].next_node(nodes.math):
        return ""
    text = re.sub(r"\\(?:var)?([A-Za-z]+)", letter, row[0].astext())
    return " ".join(re.sub(r"\\\W|[{}$]", "", text).split())


def opens(node: nodes.Node) -> tuple[str, str] | None:
    """The title and anchor of a node that begins a piece; questions and symbols get an anchor."""
    if isinstance(node, nodes.section) and node.children and isinstance(node[0], nodes.title):
        return "".join(map(plain, node[0].children)), node["ids"][0]
    if isinstance(node, nodes.definition_list_item) and "ids" in node[0] and node[0]["ids"]:
        names = [child.astext() for child in node if isinstance(child, nodes.term)]
        return ", ".join(names), node[0]["ids"][0]
    if isinstance(node, addnodes.desc) and node[0].get("ids"):
        return node[0]["fullname"], node[0]["ids"][0]
    if isinstance(node, nodes.row) and (title := symbols(node)):
        place = node.parent.parent.parent
        node["ids"] = node["ids"] or [f"symbol-{place.line}-{node.parent.index(node)}"]
        return title, node["ids"][0]
    if isinstance(node, nodes.paragraph):
        first = next((child for child in node if child.astext()), None)
        if isinstance(first, nodes.strong) and first.astext().endswith("?"):
            node["ids"] = node["ids"] or [nodes.make_id(first.astext())]
            return first.astext(), node["ids"][0]
    return None


def pieces(doctree: nodes.document) -> list[list[str]]:
    """[anchor, title, text] of every piece of a page, in its order."""
    found: list[list[str]] = []

    def walk(node: nodes.Node, piece: list[str] | None) -> None:
        if begun := opens(node):
            title, anchor = begun
            piece = [anchor if found else "", title, ""]
            found.append(piece)
        inside = (below for child in node.children for below in child.findall())
        if piece and not any(map(opens, inside)):
            piece[2] += " " + plain(node)
            return
        for child in node.children:
            walk(child, piece)

    walk(doctree, None)
    texts = ([anchor, title, " ".join(text.split())] for anchor, title, text in found)
    return [piece for piece in texts if piece[2] or not piece[0]]


def gather(app: Any, doctree: nodes.document, page: str) -> None:
    """Store a page's pieces until all pages are written."""
    if page != "genindex":
        app.search_pieces[page] = pieces(doctree)


def both(term: dict[str, Any]) -> list[str]:
    """The word that stands and those that it replaces."""
    return [term["stands"], *term["goes"]]


def write(app: Any, failed: Exception | None) -> None:
    """Write all pieces and the synonyms as a script that `search.js` loads."""
    if failed is None:
        book = Path(app.srcdir) / "book"
        table = tomllib.loads((book / "terms.toml").read_text("utf-8"))["term"]
        terms = {word.lower(): term["stands"] for term in table for word in both(term)}
        groups = tomllib.loads((book / "synonyms.toml").read_text("utf-8"))["same"]
        told = {"pages": app.search_pieces, "synonyms": groups, "terms": terms}
        text = f"SEARCH_TEXTS = {json.dumps(told, ensure_ascii=False, separators=(',', ':'))};\n"
        (Path(app.outdir) / "_static" / FILE).write_text(text, encoding="utf-8", newline="\n")
        # Sphinx's own index, which every page would load, is not needed any more
        (Path(app.outdir) / "searchindex.js").write_text("Search.setIndex({});\n", "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.search_pieces = {}
    app.connect("doctree-resolved", gather)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
