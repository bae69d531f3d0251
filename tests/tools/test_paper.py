"""The paper that describes the course: what it cites is in the bibliography, and it is short."""

from __future__ import annotations

import re

import yaml

import chapters

PAPER = chapters.ROOT / "book" / "paper" / "paper.md"


def test_what_the_paper_cites_is_in_the_bibliography() -> None:
    _, head, text = PAPER.read_text(encoding="utf-8").split("---\n", 2)
    bibliography = PAPER.parent / yaml.safe_load(head)["bibliography"]
    known = set(re.findall(r"^@\w+\{([^,]+),", bibliography.read_text("utf-8"), re.MULTILINE))
    cited = set(re.findall(r"@([\w:-]+)", text))
    assert len(cited) > 8
    assert cited <= known


def test_it_has_what_the_journal_asks_for() -> None:
    text = PAPER.read_text(encoding="utf-8")
    for heading in ("Summary", "Statement of need", "Learning objectives", "Content and"):
        assert re.search(rf"^# {heading}", text, re.MULTILINE), heading
    assert len(text.split()) < 1_000
