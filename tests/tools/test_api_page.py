"""The reference lists every public name, each with an example that holds."""

import doctest
import importlib
import itertools
import re

import torch

import chapters
import docstrings
import fedlab_bench as fb
import fedlab_mini as fm

BOOK = chapters.ROOT / "book"
ENTRY, *PAGES = (
    (BOOK / f"{name}.md").read_text(encoding="utf-8")
    for name in (
        "api",
        "fedlab_mini",
        "fedlab_mini_methods",
        "fedlab_mini_show",
        "fedlab_bench",
        "studies",
    )
)
PAGE = "".join(PAGES)
EXAMPLES = docstrings.examples(BOOK / "examples.txt")


def test_every_public_name_is_on_a_page_with_an_example():
    listed = {name.split(".")[-1] for name in re.findall(r"auto(?:class|exception):: (\S+)", PAGE)}
    for module, names in re.findall(r"automodule:: (\S+)\n   :members:(.*)", PAGE):
        every = importlib.import_module(module).__all__ if not names.strip() else names.split(",")
        listed |= {name.strip() for name in every}
    assert {*fm.__all__, *fm.methods.__all__, *fb.__all__} <= listed
    assert {*EXAMPLES} == listed, "book/examples.txt has a ## NAME for each"
    assert all(re.search(rf"\b{name}\b", text) for name, text in EXAMPLES.items())


def test_the_table_has_each_name_under_fm_once_in_a_chapter_that_uses_it():
    rows = re.findall(r"^\| \{doc\}`\w+ <\.\./notebooks/(\w+)>`[^|]*\|(.*)\|$", ENTRY, re.MULTILINE)
    named = {chapter: re.findall(r"`(\w+)`", names) for chapter, names in rows}
    assert sorted(itertools.chain(*named.values())) == sorted(fm.__all__)
    for chapter, names in named.items():
        pages = [BOOK / "methods.md", *BOOK.glob(f"*/{chapter}.md")]
        text = "".join(page.read_text(encoding="utf-8") for page in pages)
        assert not [name for name in names if not re.search(rf"\bfm\.{name}\b", text)], chapter


def test_every_example_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    told: list[str] = []
    for name, text in EXAMPLES.items():
        names = {"torch": torch, "fm": fm, "fb": fb}
        test = doctest.DocTestParser().get_doctest(text + "\n", names, name, "book/examples.txt", 0)
        assert test.examples, name
        doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert not told, "".join(told)
