"""One word for one thing: the table of words, what the lint reads, and the glossary's part."""

from __future__ import annotations

import re

import pytest

import terms

FOUND = [term for term in terms.terms() if term.pattern]
EXAMPLES = {
    entry["stands"]: (entry["bad"], entry["good"])
    for entry in terms.tomllib.loads(terms.TABLE.read_text(encoding="utf-8"))["term"]
    if "pattern" in entry
}


@pytest.mark.parametrize("term", FOUND, ids=lambda term: term.stands)
def test_a_pattern_finds_its_bad_example_and_passes_its_good_one(term):
    bad, good = EXAMPLES[term.stands]
    assert term.pattern.search(bad)
    assert not list(terms.faults([good]))  # nor any other pattern


def test_code_formulas_and_links_are_not_prose():
    texts = ["`second order`, $truth$, {ref}`words <ev10-luck>`, [words](luck.md)"]
    assert not list(terms.faults(texts))
    assert len(list(terms.faults(["By second order, {ref}`with luck <ev>`."]))) == 2


def test_texts_of_every_kind_are_read(tmp_path):
    page, quiz, code = (tmp_path / name for name in ("page.md", "quiz.toml", "code.py"))
    page.write_text("# A truth\n\n```python\ntruth = 1\n```\n\nBy luck.\n", encoding="utf-8")
    quiz.write_text('text = "Is luck a \\"truth\\"?"\n', encoding="utf-8")
    code.write_text('"""A liar."""\nluck = 1  # luck\n', encoding="utf-8")
    kinds = {page: terms.of_markdown, quiz: terms.of_table, code: terms.of_code}
    found = [len(list(terms.faults(read(path)))) for path, read in kinds.items()]
    assert found == [2, 2, 2]


def test_the_glossary_has_every_word_once():
    written = terms.WRITTEN.read_text(encoding="utf-8")
    assert written == terms.glossary(), "run: python tools/terms.py --write"
    page = (terms.ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    assert "{include} terms.txt" in page
    own = set(re.findall(r"^(\S.*)$", page, re.MULTILINE))
    assert not own & {term.stands for term in terms.terms()}
