"""Every chapter is its own slides: nothing cut, nothing copied, the page whole again afterwards."""

import pytest

import chapters

NAMES = [source.stem for source in chapters.numbered()]
SHOWN = """() => {
  const stage = document.querySelector("#slides > .bd-article");
  const edge = stage.getBoundingClientRect().right + 1;
  const cut = [...stage.querySelectorAll("p, pre, img, table, mjx-math")]
    .filter((part) => part.getClientRects().length)
    .filter((part) => part.getBoundingClientRect().right > edge)
    .map((part) => part.textContent.slice(0, 60) || part.src);
  const figures = stage.querySelectorAll("img, script[type*='widget-view']").length;
  const said = document.querySelector("#slides > p output").innerText;
  return { cut, said, parts: stage.children.length, figures };
}"""
WHOLE = "() => document.querySelector('article.bd-article').innerText"


@pytest.mark.browser
@pytest.mark.parametrize("name", NAMES)
def test_slides_of_a_chapter(site, open_page, name):
    page = open_page((site / "notebooks" / f"{name}.html").as_uri())
    before = page.evaluate(WHOLE)
    page.get_by_role("button", name="Slides").click()
    count = int(page.locator("#slides > p output").inner_text().split()[-1])
    assert count >= 20
    seen = {"parts": 0, "figures": 0}
    for number in range(1, count + 1):
        shown = page.evaluate(SHOWN)
        assert shown["said"] == f"{number} of {count}"
        assert shown["cut"] == [], f"slide {number}"
        assert shown["parts"] >= 1
        seen = {key: seen[key] + shown[key] for key in seen}
        page.keyboard.press("PageDown")
    assert seen["parts"] > count
    assert seen["figures"] >= 3
    page.keyboard.press("Escape")
    assert page.evaluate(WHOLE) == before
    assert page.faults == []
