"""What the search page can find: a page in pieces, each with a title and a place."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from myst_parser.docutils_ import Parser

import chapters
import search_texts

PAGE = """
# Page

first

## Empty

### Section

one `word`.

    code()

**Is it `so`? Why?** Since *it* is.

**No question.** No piece.
"""
SETTINGS = {"doctitle_xform": False}


def test_pieces_of_a_page():
    tree = publish_doctree(PAGE, parser=Parser(), settings_overrides=SETTINGS)
    assert search_texts.pieces(tree) == [
        ["", "Page", "first"],
        ["section", "Section", "one word. code() No question. No piece."],
        ["is-it-so-why", "Is it so? Why?", "Is it so? Why? Since it is."],
    ]
    assert 'ids="is-it-so-why"' in tree.pformat()  # where the link leads


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (nodes.math("", "v(S) = x_{1}"), "v(S) = x_1"),
        (nodes.math("", r"\alpha"), "…"),
        (nodes.comment("", "hidden"), ""),
        (nodes.container("", nodes.Text("3.14"), classes=["cell_output"]), ""),
    ],
)
def test_words_of_a_node(node, words):
    assert search_texts.plain(node) == words


def test_program_holds_pages_and_synonyms(tmp_path):
    (tmp_path / "_static").mkdir()
    pages = {"a": [["", "A", "</script> ü"]]}
    app = SimpleNamespace(srcdir=chapters.ROOT, outdir=tmp_path, search_pieces=pages)
    search_texts.write(app, None)
    text = (tmp_path / "_static" / search_texts.FILE).read_text(encoding="utf-8")
    told = json.loads(text.removeprefix("SEARCH_TEXTS = ").removesuffix(";\n"))
    assert told["pages"] == pages
    assert (tmp_path / "searchindex.js").stat().st_size < 100  # every page loads it
    groups = told["synonyms"]
    assert all(len(set(group)) == len(group) > 1 for group in groups)
    assert all(word == word.lower() for group in groups for word in group)
