"""The ledger of the papers on its page: choices narrow the table, and say by how much."""

from __future__ import annotations

import re

import pytest

from studies import ledger

PAGE = "notebooks/12_replication.html"

pytestmark = pytest.mark.browser


def test_a_reader_narrows_the_ledger_by_paper_verdict_and_protocol(site, open_page) -> None:
    page = open_page((site / PAGE).as_uri())
    found = ledger.entries()
    rows, told = (
        page.locator("table.ledger tbody tr"),
        page.locator(".ledger-choices [role=status]"),
    )
    assert rows.count() == len(found)
    assert told.inner_text() == f"{len(found)} of {len(found)} rows"
    left = found
    choices = (("paper", "CGSV"), ("verdict", "does not hold"), ("distance", "our own set-up"))
    for name, value in choices:
        page.select_option(f".ledger-choices select[name={name}]", value)
        key = {"paper": lambda e: e.item.paper, "verdict": lambda e: e.verdict}
        of = key.get(name, lambda e: e.item.distance)
        left = [entry for entry in left if of(entry) == value]
        assert told.inner_text() == f"{len(left)} of {len(found)} rows"
        shown = page.locator("table.ledger tbody tr:visible th").all_inner_texts()
        assert shown == [entry.item.id for entry in left]
    assert 0 < len(left) < len(found)
    # Each choice says how many rows it would leave beside the other choices.
    options = page.locator("select[name=verdict] option").all_inner_texts()
    counts = [int(re.search(r"\((\d+)\)$", option)[1]) for option in options]
    assert counts[0] == sum(counts[1:])
    page.select_option("select[name=paper]", "")
    page.select_option("select[name=verdict]", "")
    page.select_option("select[name=distance]", "")
    assert told.inner_text() == f"{len(found)} of {len(found)} rows"
