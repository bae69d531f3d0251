"""Mutants: an edit must fit, run on a copy, and be noticed by an assertion."""

from __future__ import annotations

from pathlib import Path

import pytest

import chapters
import mutants

CELL = "```{{code-cell}}\n{}\n```\n\n"
TEXT = "# A chapter\n\n" + "".join(
    map(CELL.format, ("from fedlab_mini.room import one", "assert one() == 1"))
)


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book of one chapter, whose package has one function."""
    for part in ("book/chapters", "fedlab_mini", "notebooks", "tools"):
        (tmp_path / part).mkdir(parents=True)
    for tool in ("run_cells.py", "chapters.py"):
        (tmp_path / "tools" / tool).write_text((chapters.ROOT / "tools" / tool).read_text())
    head = (
        "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"
    )
    (tmp_path / "book/chapters/01_one.md").write_text(head + TEXT)
    (tmp_path / "fedlab_mini/room.py").write_text("UNUSED = 1\n\n\ndef one():\n    return 1\n")
    (tmp_path / "fedlab_mini/__init__.py").write_text("")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(chapters, "TEXTS", tmp_path / "book/chapters")
    return tmp_path


def edit(find: str, replace: str) -> mutants.Mutant:
    return mutants.Mutant(
        claim="One is 1.", file="fedlab_mini/room.py", find=find, replace=replace, chapter="01"
    )


@pytest.mark.parametrize(
    ("find", "replace", "word"),
    [
        ("return 1", "return 2", "caught"),
        ("UNUSED = 1", "UNUSED = 2", "SURVIVED"),
        ("return 1", "return", "caught"),
        ("return 1", "raise KeyError", "ended otherwise"),
        ("1", "2", "does not fit"),
    ],
)
def test_the_verdict_says_what_happened(book: Path, find: str, replace: str, word: str) -> None:
    before = (book / "fedlab_mini/room.py").read_text()
    assert mutants.verdict(edit(find, replace)).startswith(word)
    assert (book / "fedlab_mini/room.py").read_text() == before  # only a copy was edited


def test_every_day_has_others_until_all_had_their_turn() -> None:
    every = [edit(str(i), "") for i in range(7)]
    seen = {mutant.find for day in range(4) for mutant in mutants.some(every, 2, day)}
    assert seen == set("0123456")


def test_every_mutant_of_the_book_fits_its_file(tmp_path: Path) -> None:
    """The text that is replaced stands once in its file, and a chapter or a test must notice."""
    for mutant in mutants.read():
        target = tmp_path / mutant.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((chapters.ROOT / mutant.file).read_text(encoding="utf-8"))
        mutant.apply(tmp_path)
        assert bool(mutant.chapter) != bool(mutant.test), mutant.claim
        assert mutant.claim.endswith("."), mutant.claim
