"""What the site's own Sphinx extensions make of docstrings, intervals and texts."""

import inspect
import re
from collections import Counter
from types import SimpleNamespace

from docutils import nodes
from docutils.core import publish_doctree
from myst_parser.docutils_ import Parser

import docstrings
import fedlab_mini as fm
import page_scripts
import search_texts

PAGE = """
# Page

first $\\alpha$

## Section

**Is it `so`? Why?** Since *it* is 0.1 [0.0, 0.2], and `0.1 [0.0, 0.2]`.
"""
TABLE = r"""
# Page

| Symbol | Meaning |
|---|---|
| $\theta$ | all of it |
| $\phi, \varphi_k$ | a score |
| $S \subseteq N$ | a coalition |
| $\lambda = \sum_k \mathrm{CCI}_k$ | a sum |
| | none |
"""


def test_a_docstrings_table_becomes_a_list_and_no_word_is_lost():
    for name in (name for name in fm.__all__ if getattr(fm, name).__doc__):
        lines = inspect.getdoc(getattr(fm, name)).splitlines()
        said = Counter(re.findall(r"[^\W_]+", " ".join(lines)))
        docstrings.rewrite(SimpleNamespace(examples={}), "function", name, 0, 0, lines)
        assert said <= Counter(re.findall(r"[^\W_]+", " ".join(lines))), name


def test_markup_without_a_style_goes_and_no_letter_of_a_signature():
    made = '<em><span class="n"><span class="pre">x</span></span><span class="o">=</span></em>'
    made = f'<span id="x"></span>{made}<span class="sig-paren">)</span>'
    left = '<span id="x"></span><em>x<span class="o">=</span></em><span class="sig-paren">)</span>'
    assert docstrings.without(made, docstrings.IN_SIGNATURE) == left


def test_a_symbol_is_found_by_the_letter_that_is_typed():
    settings = {"doctitle_xform": False, "myst_enable_extensions": ["dollarmath"]}
    tree = publish_doctree(TABLE, parser=Parser(), settings_overrides=settings)
    found = [title for _, title, _ in search_texts.pieces(tree)]
    assert found == ["Page", "θ", "φ, φ_k", "S ⊆ N", "λ = Σ_k CCI_k"]


def test_a_page_is_found_in_pieces_and_keeps_its_intervals_whole():
    settings = {"doctitle_xform": False, "myst_enable_extensions": ["dollarmath"]}
    tree = publish_doctree(PAGE, parser=Parser(), settings_overrides=settings)
    said = "0.1 [0.0, 0.2]"
    found = search_texts.pieces(tree)
    assert [anchor for anchor, *_ in found] == ["", "is-it-so-why"]
    assert found[1][1:] == ["Is it so? Why?", f"Is it so? Why? Since it is {said}, and {said}."]
    page_scripts.keep_whole(None, tree, "page")
    whole = said.replace(" ", "\N{NO-BREAK SPACE}")
    assert tree.astext().endswith(f"Since it is {whole}, and {said}.")


def test_an_id_stands_once_on_a_page():
    tree = nodes.section(ids=["page"])
    tree += [nodes.section(ids=["exercise-content"]) for _ in range(3)]
    page_scripts.apart(None, tree, "page")
    ids = [name for node in tree.findall(nodes.Element) for name in node["ids"]]
    assert ids == ["page", "exercise-content", "exercise-content-2", "exercise-content-3"]
