"""The ledger of the papers on its page: choices narrow the table, and say by how much."""

from __future__ import annotations

import re

import pytest

from studies import ledger

CHOICES = {  # what a reader chooses, and where an entry has it
    "paper": ("CGSV", lambda entry: entry.item.paper),
    "verdict": ("does not hold", lambda entry: entry.verdict),
    "distance": ("our own set-up", lambda entry: entry.item.distance),
}

pytestmark = pytest.mark.browser


def test_a_reader_narrows_the_ledger_by_paper_verdict_and_protocol(site, open_page) -> None:
    page = open_page((site / "book/ledger.html").as_uri())
    left = found = ledger.entries()
    told = page.locator(".ledger-choices [role=status]")
    assert page.locator("table.ledger tbody tr").count() == len(found)
    for name, (value, of) in CHOICES.items():
        page.select_option(f".ledger-choices select[name={name}]", value)
        left = [entry for entry in left if of(entry) == value]
        assert told.inner_text() == f"{len(left)} of {len(found)} rows"
        shown = page.locator("table.ledger tbody tr:visible th").all_inner_texts()
        assert shown == [entry.item.id for entry in left]
    assert 0 < len(left) < len(found)
    # Each choice says how many rows it would leave beside the other choices.
    options = page.locator("select[name=verdict] option").all_inner_texts()
    counts = [int(re.search(r"\((\d+)\)$", option)[1]) for option in options]
    assert counts[0] == sum(counts[1:])
    for name in CHOICES:
        page.select_option(f"select[name={name}]", "")
    assert told.inner_text() == f"{len(found)} of {len(found)} rows"
