"""What the site keeps for a reader, and what arrow keys do."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from visit import look, rest

CHAPTER, NEXT = "notebooks/01_federated_averaging.html", "notebooks/02_shapley_theory.html"
SHORT = "book/teaching.html"  # a page that is soon drawn, as its neighbours are

MOVED = {  # an address that somebody may have kept: where it leads now
    "adopt.html": "about.html#statement-of-need",
    "adopt.html#for-a-team-from-question-to-score-in-a-day": (
        "about.html#for-a-team-from-question-to-score-in-a-day"
    ),
    "adopt.html#for-a-project-depending-on-the-package": (
        "about.html#for-a-project-depending-on-the-package"
    ),
    "adopt.html#a-story-of-use": "about.html#for-a-teacher",
    "adopt.html#for-a-teacher-a-week-before-the-first-class": (
        "teaching.html#before-the-first-class"
    ),
    "board.html": "teaching.html#at-the-board",
    "board.html#chapter-4": "teaching.html#chapter-4",
    "board.html#chapter-12": "teaching.html#chapter-12",
}

pytestmark = pytest.mark.browser


def stored(page) -> dict:
    kept = page.evaluate("() => Object.entries(localStorage)")
    texts = [value for name, value in kept if name.startswith("fedlab-mini")]
    return json.loads(texts[0]) if texts else {}


def test_a_section_read_to_its_end_is_ticked_until_it_is_forgotten(site, open_page) -> None:
    page = open_page((site / CHAPTER).as_uri())
    ticked = page.locator("#pst-page-toc-nav .read-mark")
    section, kept = page.evaluate(look("passingBy"))
    assert kept == 0, "passing by is not reading"
    ticked.first.wait_for(state="attached")
    here = page.locator(f"#pst-page-toc-nav .toc-h2 > a[href='#{section}'] .read-mark")
    assert (here.count(), here.get_attribute("aria-label")) == (1, "read")
    sections = page.locator("#pst-page-toc-nav .toc-h2").count()
    read = len(stored(page)[CHAPTER]["read"])
    # another page shows the count beside the chapter, and the chapter itself remembers
    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**/{NEXT}")
    beside = page.locator("#pst-primary-sidebar a[href='01_federated_averaging.html'] .read-mark")
    assert beside.inner_text() == f"{read}/{sections}"
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(f"**/{CHAPTER}")
    assert ticked.count() == read
    page.get_by_role("button", name="Forget what I have read").click()
    assert (ticked.count(), beside.count(), stored(page)) == (0, 0, {})
    page.get_by_role("button", name="Slides").click()  # where arrow keys turn slides
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/01_federated_averaging.html#slides-2")


def test_arrow_keys_turn_pages_and_leave_what_means_something_else(site, open_page) -> None:
    """What has the focus keeps its keys, and what browsers do with Control is theirs."""
    page = open_page((site / SHORT).as_uri())
    page.keyboard.press("Control+ArrowRight")
    page.focus("a.right-next")
    page.keyboard.press("ArrowRight")
    rest(page, 1000)
    assert page.url.endswith(SHORT)
    page.evaluate("document.activeElement.blur()")
    around = [("Right", "notebooks/refresher"), ("Left", "book/teaching"), ("Left", "book/cards")]
    for key, there in around:
        page.keyboard.press(f"Arrow{key}")
        page.wait_for_url(f"**/{there}.html")


def test_addresses_of_pages_that_moved_lead_to_what_they_had(site, open_page, browser) -> None:
    page = open_page((site / SHORT).as_uri())
    for kept, now in MOVED.items():
        page.goto(f"{site.as_uri()}/book/{kept}")
        page.wait_for_url(f"**/book/{now}")
        assert page.locator(f"[id='{now.partition('#')[2]}']").count() == 1, kept
    with closing(browser.new_context(java_script_enabled=False)) as plain:
        page = plain.new_page()
        for kept in ("adopt.html", "board.html"):
            page.goto(f"{site.as_uri()}/book/{kept}")
            page.wait_for_url(f"**/book/{MOVED[kept]}")
