"""The reference page lists every public name, each with an example that holds."""

import doctest
import importlib
import re

import pytest
import torch

import chapters
import docstrings
import fedlab_bench as fb
import fedlab_mini as fm

PAGE = (chapters.ROOT / "book" / "api.md").read_text(encoding="utf-8")
EXAMPLES = docstrings.examples(chapters.ROOT / "book" / "examples.txt")


def listed() -> set[str]:
    """Every name that the page describes."""
    found = {name.split(".")[-1] for name in re.findall(r"auto(?:class|exception):: (\S+)", PAGE)}
    for module, names in re.findall(r"automodule:: (\S+)\n   :members:(.*)", PAGE):
        every = importlib.import_module(module).__all__ if not names.strip() else names.split(",")
        found |= {name.strip() for name in every}
    return found


def test_every_public_name_is_on_the_page_with_an_example():
    assert {*fm.__all__, *fb.__all__} <= listed()
    without, strange = sorted(listed() - set(EXAMPLES)), sorted(set(EXAMPLES) - listed())
    assert not without, f"book/examples.txt: add ## NAME and a few lines of >>> for {without}"
    assert not strange, f"book/examples.txt: the page does not list {strange}"
    assert all(re.search(rf"\b{name}\b", text) for name, text in EXAMPLES.items())


def wrong(name: str, text: str) -> str:
    """What an example gives in place of what it says; "" if it holds."""
    told: list[str] = []
    start = {"torch": torch, "fm": fm, "fb": fb}
    test = doctest.DocTestParser().get_doctest(text + "\n", start, name, "book/examples.txt", 0)
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    return "".join(told)


def test_every_example_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    told = "".join(wrong(name, text) for name, text in EXAMPLES.items())
    assert not told, told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (">>> fm.mlp(2, 2).P\n6", ""),
        (">>> fm.mlp(2, 2).P\n7", "Expected:\n    7\nGot:\n    6"),
        (">>> fm.nothing", "has no attribute 'nothing'"),
    ],
)
def test_an_example_that_does_not_hold_is_named(text, said):
    told = wrong("mlp", text)
    assert (said in told and "mlp" in told) if said else told == ""
