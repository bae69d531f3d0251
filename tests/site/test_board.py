"""The board that `judge --page` writes: opened from disk, at a desk and on a phone."""

from __future__ import annotations

import pytest
from visit import AXE, CONTRAST, EVERY_RULE, LOOKS, MARK, PHONE, RULES, SETTLE, THIN, axe_program

import fedlab_bench as fb
from fedlab_bench import command, truth

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("one board for all")]

ORDER = """() => [...document.querySelector("table.leaderboard").tBodies[0].rows]
  .map(row => [row.cells[0].dataset.value, Number(row.cells[3].dataset.value ?? -Infinity)])"""
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> str:
    """The page beside all scores of the book, as a stranger's command writes it."""
    page = tmp_path_factory.mktemp("board") / "board.html"
    command.main(["judge", str(truth.folder() / "submissions" / "size.csv"), "--page", str(page)])
    return page.as_uri()


def test_it_reads_at_every_width(board, open_page) -> None:
    page = open_page(board)
    assert page.locator("table.leaderboard").count() == 5
    page.evaluate(axe_program())
    page.evaluate(THIN, RULES)
    for (scheme, width), whole in LOOKS.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLE)
        page.evaluate(MARK)
        options = {"runOnly": EVERY_RULE if whole else CONTRAST, "preload": False}
        assert page.evaluate(AXE, [[], options]) == [], f"{scheme} {width}"
        assert page.evaluate(WIDER) <= 0, f"{scheme} {width}: the page itself scrolls sideways"
    assert page.faults == []


def test_it_is_sorted_and_scrolled_by_keyboard(board, open_page) -> None:
    page = open_page(board, width=PHONE)
    page.keyboard.press("Tab")
    first = page.locator(".scroll").first
    assert first.evaluate("box => box === document.activeElement")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.scroll').scrollLeft > 0")
    before = page.evaluate(ORDER)
    page.keyboard.press("Tab")  # the button of the names
    page.keyboard.press("Tab")  # that of the first family
    for key, falls in (("Enter", True), ("Space", False)):
        page.keyboard.press(key)
        values = [value for _, value in page.evaluate(ORDER)]
        assert values == sorted(values, reverse=falls)
        said = page.locator("th[aria-sort]").evaluate_all("all => all.map(th => th.ariaSort)")
        assert said == ["descending" if falls else "ascending"]
    assert sorted(page.evaluate(ORDER)) == sorted(before)
    assert page.evaluate(ORDER) != before


def test_every_score_says_when_it_was_entered_and_for_which_version(board, open_page) -> None:
    rows = open_page(board).locator("table.leaderboard").first.locator("tbody tr")
    told = rows.evaluate_all("all => all.map(row => [row.cells[0].dataset.value,"
                             " row.cells[2].innerText])")  # fmt: skip
    assert len(told) > 19
    for name, words in told:
        assert name == fb.CEILING or (words.startswith("2026-") and "version 1" in words), name
