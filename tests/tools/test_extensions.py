"""What the site's own Sphinx extensions make of docstrings, terms, intervals, texts and dates."""

import subprocess
from types import SimpleNamespace

from docutils.core import publish_doctree
from myst_parser.docutils_ import Parser

import chapters
import docstrings
import glossary_terms
import last_changed
import search_texts
import unbroken

PAGE = """
# Page

first $\\alpha$

## Section

one `word`.

**Is it `so`? Why?** Since *it* is 0.1 [0.0, 0.2], and `0.1 [0.0, 0.2]`.
"""


def test_a_docstrings_table_becomes_a_list_with_the_example():
    lines = ["Mean of ``x``.", "", "x [m]   numbers, |in|", '        order; w* "a": one']
    lines += ["raises  ValueError      source [A 2020; chapter 1]", "", "All of it is kept."]
    docstrings.rewrite(SimpleNamespace(examples={"f": ">>> f()"}), "function", "m.f", 0, 0, lines)
    terms = ["   x [m]", '      numbers, \\|in\\| order; w\\* ``"a"``\\ : one']
    terms += ["   raises", "      ValueError", "   source", "      [A 2020; chapter 1]"]
    made = ["Mean of ``x``\\ .", ".. container:: arguments", *terms, "All of it is kept."]
    assert [line for line in lines if line] == [*made, ".. code-block:: pycon", "   >>> f()"]


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


def test_a_file_has_the_day_of_its_last_commit(tmp_path):
    assert last_changed.dates(tmp_path) == {}
    for name, day in list(last_changed.dates(chapters.ROOT).items())[::9]:
        command = ["git", "log", "-1", "--format=%cs", "--", name]
        assert subprocess.check_output(command, cwd=chapters.ROOT, text=True).strip() == day
