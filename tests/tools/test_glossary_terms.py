"""Definitions reach the links to their terms as plain text, and the index knows the chapters."""

import html
import re
import shutil
import subprocess
import sys

import pytest

import chapters
import glossary_terms

CONF = f"""
import sys
sys.path.insert(0, {str(chapters.ROOT / "tools")!r})
extensions = ["myst_parser", "sphinxcontrib.bibtex", "glossary_terms"]
myst_enable_extensions = ["dollarmath"]
bibtex_bibfiles = ["book/references.bib"]
root_doc = "book/glossary"
html_theme = "basic"
"""
BIBLIOGRAPHY = "\n```{bibliography}\n```\n"
LINK = re.compile(r'<a class="reference internal" href="[^"]*#(term-[^"]+)"([^>]*)>')


def test_opening_takes_a_second_sentence_where_there_is_room():
    assert glossary_terms.opening("One  is\nso . Two is not. Three.") == "One is so. Two is not."
    assert glossary_terms.opening(f"One is so. {'Long ' * 60}.") == "One is so."
    assert glossary_terms.opening("n! orders, 0.5 each.") == "n! orders, 0.5 each."


def test_only_links_to_terms_are_annotated():
    link = '<a class="reference internal" href="../x.html#term-a"><span>a</span></a>'
    other = (
        '<a class="headerlink" href="#term-a">#</a> <a class="reference internal" href="#b">b</a>'
    )
    shown = glossary_terms.annotate(link + other, {"term-a": 'say "a" < b'})
    assert shown == link.replace('-a">', '-a" data-definition="say &quot;a&quot; &lt; b">') + other
    assert glossary_terms.annotate(link, {}) == link


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A small site: the book's glossary, and one chapter that links to every term of it."""
    folder = tmp_path_factory.mktemp("glossary")
    (folder / "book").mkdir()
    (folder / "notebooks").mkdir()
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    shutil.copy(chapters.ROOT / "book" / "references.bib", folder / "book")
    glossary = (chapters.ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    (folder / "book" / "glossary.md").write_text(glossary + BIBLIOGRAPHY, encoding="utf-8")
    entries = glossary.split("```{glossary}")[1].split("```")[0]
    terms = re.findall(r"^(\S.*)$", entries, re.MULTILINE)
    uses = "\n".join(f"- {{term}}`{term}`" for term in terms)
    page = f"# A chapter\n\n## First\n\n{uses}\n\n## Second\n\nA {{term}}`Client` again.\n"
    page = f"---\norphan: true\n---\n{page}"
    (folder / "notebooks" / "07_x.md").write_text(page, encoding="utf-8")
    refresher = folder / "notebooks" / "refresher.md"  # where entries of the glossary lead
    refresher.write_text("---\norphan: true\n---\n# Refresher\n", encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", str(folder), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return folder / "out", terms


def test_every_term_of_the_glossary_has_a_readable_definition(site):
    out, terms = site
    page = (out / "notebooks" / "07_x.html").read_text(encoding="utf-8")
    links = LINK.findall(page)
    assert len(links) == len(terms) + 1
    for anchor, attributes in links:
        found = re.fullmatch(r' data-definition="([^"]+)"', attributes)
        assert found, anchor
        text = html.unescape(found[1])
        assert 20 < len(text) < 300, anchor
        assert text.endswith("."), anchor
        assert text.count("\\(") == text.count("\\)"), text
        words = re.sub(r"\\\(.*?\\\)", "x", text)
        assert not re.search(r"[\\$]|\s[.,;]|\[|\]", words), text


def test_index_names_chapter_and_section(site):
    out, _ = site
    page = (out / "genindex.html").read_text(encoding="utf-8")
    entry = page[page.index('#term-client"') :]
    entry = entry[: entry.index("</ul>")]
    assert re.search(r'<a href="notebooks/07_x.html#first">chapter 7</a>', entry)
    assert re.search(r'<a href="notebooks/07_x.html#second">\[1\]</a>', entry)
    alias = page[page.index("#term-leave-one-out") :]
    assert "07_x.html#first" in alias[: alias.index("</ul>")]
    assert "07_x.html" not in page[page.index("#term-LOO") :].split("</li>")[0]
