"""The page that asks: what went well comes back after days, what did not after five others."""

from __future__ import annotations

import datetime

import pytest

PAGE = "book/cards.html"
START = datetime.datetime(2026, 3, 28, 22, 30)  # two days with a change of clocks are ahead

pytestmark = pytest.mark.browser


@pytest.fixture
def page(site, open_page):
    page = open_page((site / "index.html").as_uri())
    page.clock.set_fixed_time(START)
    page.goto((site / PAGE).as_uri())
    page.locator(".card-front span").first.wait_for()
    return page


def front(page) -> str:
    return page.locator(".card-front").inner_text()


def rate(page, grade: str) -> None:
    page.get_by_role("button", name="Show the answer").click()
    assert page.locator(".card-back").inner_text().strip()
    page.get_by_role("button", name=grade, exact=True).click()


def asked_on(page, day: int, card: str) -> bool:
    """Is this card the first one on that day? What was seen comes before what is new."""
    page.clock.set_fixed_time(START + datetime.timedelta(days=day))
    page.reload()
    page.locator(".card-front span").first.wait_for()
    return front(page) == card


def test_a_card_comes_back_on_the_day_that_its_answer_earned(page) -> None:
    card = front(page)
    rate(page, "Good")
    day = 0
    for days in (1, 3, 7, 14, 30, 30):
        assert not asked_on(page, day + days - 1, card)
        day += days
        assert asked_on(page, day, card), days
        rate(page, "Good")
    assert asked_on(page, day + 30, card)
    rate(page, "Hard")  # tomorrow, and then as late as before
    assert asked_on(page, day + 31, card)
    rate(page, "Good")
    assert not asked_on(page, day + 60, card)
    assert asked_on(page, day + 61, card)
    page.get_by_role("button", name="Forget my answers").click()
    assert page.evaluate("localStorage.getItem('fedlab-cards')") == "{}"


def test_again_asks_after_five_others_and_keys_answer(page) -> None:
    first = front(page)
    page.locator("#pst-skip-link, body").first.press("Tab")
    rate(page, "Again")
    others = []
    for _ in range(5):
        others.append(front(page))
        page.get_by_role("button", name="Show the answer").click()
        page.keyboard.press("3")
    assert first not in others
    assert len({*others}) == 5
    assert front(page) == first


def test_one_chapter_is_asked_with_its_formulas_and_all_cards_are_listed(page) -> None:
    page.get_by_label("Ask about").select_option("Chapter 2")
    state = page.get_by_role("status")
    assert state.inner_text().startswith("Chapter 2.")
    seen = 0
    while page.get_by_role("button", name="Show the answer").count():
        seen += 1
        page.get_by_role("button", name="Show the answer").click()
        assert "\\" not in page.locator(".card-desk").inner_text()
        page.keyboard.press("2")
    assert state.inner_text() == "Nothing left for today."
    assert seen == page.locator(".cards details[data-card^='02-']").count() >= 12
    assert page.locator(".cards details").count() >= 150
    assert not page.faults
