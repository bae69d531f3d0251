"""The board that `judge --page` writes: opened from disk, at a desk and on a phone."""

from __future__ import annotations

import pytest
from visit import DESK, PHONE, axe, look, wear

from fedlab_bench import command, truth

pytestmark = pytest.mark.browser

ORDER = """() => [...document.querySelector("table.leaderboard").tBodies[0].rows]
  .map(row => [row.cells[0].dataset.value, Number(row.cells[3].dataset.value ?? -Infinity)])"""
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_board_reads_at_every_width_and_is_sorted_by_keyboard(tmp_path, open_page) -> None:
    """The page beside all scores of the book, as a stranger's command writes it."""
    path = tmp_path / "board.html"
    command.main(
        ["judge", str(truth.folders()[0] / "submissions" / "size.csv"), "--page", str(path)]
    )
    page = open_page(path.as_uri())
    assert page.locator("table.leaderboard").count() == 5
    for scheme, width in (("light", DESK), ("dark", DESK), ("dark", PHONE), ("light", PHONE)):
        wear(page, scheme, width)
        assert page.evaluate(look("contrast"), "light") == [], f"{scheme} {width}"
        assert page.evaluate(WIDER) <= 0, f"{scheme} {width}: the page itself scrolls sideways"
    assert axe(page) == []
    page.keyboard.press("Tab")
    assert page.locator(".scroll").first.evaluate("box => box === document.activeElement")
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
    assert sorted(page.evaluate(ORDER)) == sorted(before) != page.evaluate(ORDER)
    assert page.faults == []
