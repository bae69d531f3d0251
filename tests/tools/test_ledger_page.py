"""The counts on the landing page and in the summaries are those of the ledger now."""

from __future__ import annotations

import re

import chapters
import ledger_page
from studies import ledger
from studies.items import PAPERS, items
from studies.results import HOLDS

BOOK = chapters.ROOT / "book"


def test_the_stored_counts_are_those_of_the_rows() -> None:
    stored = ledger_page.FILE.read_text(encoding="utf-8")
    assert stored == ledger_page.page(), f"run {ledger_page.ADVICE}"


def test_the_table_adds_up() -> None:
    own = ledger.tested(ledger.entries())
    rows = re.findall(r"^\| ([\w-]+) \|((?: \d+ \|)+)$", ledger_page.by_paper(own), re.MULTILINE)
    assert [paper for paper, _ in rows] == list(PAPERS)
    numbers = [[int(cell) for cell in re.findall(r"\d+", cells)] for _, cells in rows]
    for tested, hold, fail, open_, confirmed in numbers:
        assert tested == hold + fail + open_ >= confirmed
    assert sum(row[0] for row in numbers) == len(own)
    assert sum(row[1] for row in numbers) == sum(entry.verdict == HOLDS for entry in own)


def test_pages_show_the_counts_and_name_rows_that_are_there() -> None:
    assert "```{include} ledger.txt" in (BOOK / "index.md").read_text(encoding="utf-8")
    ids = [item.id for item in items()]
    pages = ["summaries.md", "wrong.md", "chapters/12_replication.md"]
    for page in pages:
        text = (BOOK / page).read_text(encoding="utf-8")
        for name in re.findall(rf"`((?:{'|'.join(PAPERS)})-[\w.-]+)`", text):
            known = [each for each in ids if each == name or each.startswith(f"{name}-")]
            assert known, f"{page}: {name}"
