"""What the site's own Sphinx extensions make of docstrings, terms, intervals and texts."""

import inspect
import re
from collections import Counter
from types import SimpleNamespace

from docutils.core import publish_doctree
from myst_parser.docutils_ import Parser

import docstrings
import fedlab_mini as fm
import glossary_terms
import search_texts
import unbroken

PAGE = """
# Page

first $\\alpha$

## Section

one `word`.

**Is it `so`? Why?** Since *it* is 0.1 [0.0, 0.2], and `0.1 [0.0, 0.2]`.
"""


def test_a_docstrings_table_becomes_a_list_and_no_word_is_lost():
    app, lines = SimpleNamespace(examples={}), ["First.", "", "x [m]   numbers, |in|", "        w*"]
    docstrings.rewrite(app, "function", "m.f", 0, 0, lines)
    rows = ["   x [m]", "      numbers, \\|in\\| w\\*"]
    assert [line for line in lines if line][1:] == [".. container:: arguments", *rows]
    wide = f"{'x ' * 46}x"  # had no room for the next word
    assert docstrings.rows(["a  b", wide, "goes on"]) == [("a", "b"), ("", f"{wide} goes on")]
    for name in (name for name in fm.__all__ if getattr(fm, name).__doc__):
        lines = inspect.getdoc(getattr(fm, name)).splitlines()
        said = Counter(re.findall(r"[^\W_]+", " ".join(lines)))
        docstrings.rewrite(app, "function", name, 0, 0, lines)
        assert said <= Counter(re.findall(r"[^\W_]+", " ".join(lines))), name


def test_a_page_is_found_in_pieces_and_keeps_its_intervals_whole():
    settings = {"doctitle_xform": False, "myst_enable_extensions": ["dollarmath"]}
    tree = publish_doctree(PAGE, parser=Parser(), settings_overrides=settings)
    said = "0.1 [0.0, 0.2]"
    assert search_texts.pieces(tree) == [
        ["", "Page", "first …"],
        ["section", "Section", "one word."],
        ["is-it-so-why", "Is it so? Why?", f"Is it so? Why? Since it is {said}, and {said}."],
    ]
    unbroken.keep_whole(None, tree, "page")
    whole = said.replace(" ", "\N{NO-BREAK SPACE}")
    assert tree.astext().endswith(f"Since it is {whole}, and {said}.")
    assert unbroken.whole("[1, 2, 3] of [Castro, 2009]") == "[1, 2, 3] of [Castro, 2009]"


def test_a_link_to_a_term_carries_the_opening_of_its_definition():
    assert glossary_terms.opening("One  is\nso . Two is not. Three.") == "One is so. Two is not."
    assert glossary_terms.opening(f"n! is so. {'Long ' * 60}.") == "n! is so."
    link, other = (f'<a class="reference internal" href="../x.html#{x}">' for x in ("term-a", "b"))
    shown = glossary_terms.annotate(link + other, {"term-a": 'say "a" < b', "b": "no"})
    assert shown == link.replace('">', '" data-definition="say &quot;a&quot; &lt; b">') + other
