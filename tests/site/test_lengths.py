"""A lesson can be read in an hour: words, figures, tables and intervals of a page as it is shown.

Counted at 1280 px with folds closed. Prose: paragraphs, items, headings and captions. Visible: all
words of the article, with tables and code. An interval is [a, b] in running prose. The scoreboard
at the end is not counted as a table.
"""

import pytest

import chapters

LESSONS = [
    source
    for source in chapters.numbered()
    if (chapters.TEXTS.parent / chapters.EVIDENCE / source.name).exists()
]
MOST = {"prose": 3_150, "visible": 5_200, "figures": 5, "tables": 5, "intervals": 15}
COUNT = """() => {
  const page = document.querySelector("article");
  const seen = (selector) => [...page.querySelectorAll(selector)].filter(
    (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".fedlab-widget"));
  const words = (text) => text.split(/\\s+/).filter(Boolean).length;
  const texts = seen("p, li, h1, h2, h3, h4, figcaption, caption")
    .filter((e) => !e.querySelector("p") && !e.closest("td"));
  const running = texts.filter((e) => e.matches("p, li") && !e.closest("table, .cell_output"));
  const interval = /\\[[-−]?[\\d.]+,\\s[-−]?[\\d.]+\\]/g;
  const box = page.getBoundingClientRect();
  const widgets = [...page.querySelectorAll(".fedlab-widget")];
  const explorer = widgets.find((e) => e.querySelector(".w-guess"));
  return {
    prose: words(texts.map((e) => e.innerText).join(" ")),
    visible: words(page.innerText),
    figures: seen("figure").length,
    tables: seen("table")
      .filter((e) => !e.closest(".widget-table") && !e.matches(".fedlab-scoreboard")).length,
    intervals: running.flatMap((e) => e.innerText.match(interval) ?? []).length,
    explorer: explorer ? (explorer.getBoundingClientRect().top - box.top) / box.height : 1,
  };
}"""

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("source", LESSONS, ids=lambda source: source.stem)
def test_a_lesson_is_short_and_its_explorer_stands_early(source, open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/{source.stem}.html")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator(".fedlab-widget").first.wait_for()
    found = page.evaluate(COUNT)
    # A tenth of grace: nobody shall hunt for a last word.
    assert {what: found[what] for what, most in MOST.items() if found[what] > 1.1 * most} == {}
    assert found["explorer"] <= 1.1 * 0.3
