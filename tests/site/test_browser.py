"""The site as a reader meets it: opened from disk in a browser, with no network."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from forms import paper, slides
from visit import look, visit

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("FEDLAB_SITE", ROOT / "_build" / "site")).resolve()
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))


def listed(entry: dict) -> Iterator[str]:
    """Every page of the table of contents, in its order."""
    yield from (entry[key] for key in ("root", "file") if key in entry)
    for key in ("parts", "chapters", "sections"):
        for below in entry.get(key, []):
            yield from listed(below)


MORE = sorted(path.stem for path in SITE.glob("*.html") if path.name != "index.html")
CHAPTERS = [page for page in listed(TOC) if re.match(r"notebooks/\d\d_", page)]
PAGES = [*dict.fromkeys([*CHAPTERS, *listed(TOC), *MORE])]  # what takes long begins

pytestmark = pytest.mark.browser


def tools(page, path: Path) -> list[str]:
    """What a chapter fails to offer: code to copy, its notebook, a solution to unfold."""
    found = []
    if not page.locator("div.cell_input button.copybtn").count():
        found.append("no code can be copied")
    bare = "article :is(h1, h2, h3):not(:has(a.headerlink[href^='#']))"
    found += [f"no link to the section {text}" for text in page.locator(bare).all_inner_texts()]
    links = page.eval_on_selector_all(
        "a.btn-download-source-button", "all => all.map(a => a.getAttribute('href'))"
    )
    if not any(x.endswith(".ipynb") and path.parent.joinpath(x).exists() for x in links):
        found.append(f"no notebook to download: {links}")
    solution = page.locator("div.solution.dropdown").first
    inside = solution.locator("section, p:not(.admonition-title)").first
    if inside.is_visible():
        found.append("a solution is open before it is asked for")
    solution.locator("button.toggle-button").click()
    return found if inside.is_visible() else [*found, "a solution does not unfold"]


IN_TEXT = "document.querySelector('article').contains(document.activeElement)"
TO_FOCUS = """[...document.querySelectorAll("article :is(a[href], button, input, [tabindex])")]
  .some(e => e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true }))"""


def keyboard(page) -> list[str]:
    """What is wrong with the way from the page's start to its text, by Tab and skip link."""
    lone = page.url.endswith("404.html") or not page.locator("article").count()
    if lone or not page.evaluate(TO_FOCUS):
        return []
    page.keyboard.press("Tab")
    said, visible = page.evaluate(look("focused"))
    found = [] if said == "Skip to the text" and visible else [f"first Tab shows {said!r}"]
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate(IN_TEXT):
            return found
    return [*found, "the skip link does not lead to the text"]


@pytest.mark.parametrize("page", PAGES)
def test_page_is_sound(open_page, site, page):
    """On a screen, and a notebook on paper; a chapter as slides, too."""
    opened = open_page(f"{site.as_uri()}/{page}.html")
    found = keyboard(opened)
    opened.evaluate("document.activeElement.blur()")
    if page in CHAPTERS:
        found += [*tools(opened, site / page), *slides(opened)]
    found += visit(opened)
    if page.startswith("notebooks/"):
        opened.reload()
        found += paper(opened)
    assert not found, "\n  - ".join([f"{page}, {len(found)} faults:", *found[:30]])


def test_copy_buttons_are_a_stop_a_section_and_arrows_go_on(open_page, site):
    opened = open_page(f"{site.as_uri()}/{CHAPTERS[0]}.html")
    buttons, active = "article button.copybtn", "e => e === document.activeElement"
    stops = opened.locator(f"{buttons}[tabindex='0']").count()
    sections = "all => new Set(all.map(e => e.closest('section'))).size"
    assert stops == opened.eval_on_selector_all(buttons, sections)
    assert 0 < stops < opened.locator(buttons).count() / 2
    opened.locator(buttons).first.focus()
    for key, place in (("ArrowDown", 1), ("ArrowUp", 0)):
        opened.keyboard.press(key)
        assert opened.locator(f"{buttons}:visible").nth(place).evaluate(active)


@pytest.mark.parametrize("page", [CHAPTERS[0], "book/index", "book/ledger", "book/cards", "search"])
def test_every_control_shows_that_it_has_the_focus(open_page, site, page):
    """Also those of the theme: *Slides*, *Download*, the search and the list of chapters."""
    opened = open_page(f"{site.as_uri()}/{page}.html")
    opened.keyboard.press("Tab")  # from now on the focus is the keyboard's
    assert opened.evaluate(look("withoutRing")) == []


def test_slides_are_printed_each_on_a_page(open_page, site):
    """And the slide that was shown is there again afterwards."""
    opened = open_page(f"{site.as_uri()}/{CHAPTERS[3]}.html#slides-3")
    shown = opened.locator("#slides > p output")
    shown.wait_for()
    before, text = shown.inner_text(), opened.locator("#slides > .bd-article").inner_text()
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("#slides .sheet").count() == int(before.split()[-1]) > 12
    assert opened.locator("#slides .sheet :is(h1, h2, h3)").count() >= int(before.split()[-1])
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.locator("#slides .sheet").count() == 0
    assert (shown.inner_text(), opened.locator("#slides > .bd-article").inner_text()) == (
        before,
        text,
    )
    printed = opened.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b(?!s)", printed)) >= int(before.split()[-1])


def test_front_door_leads_to_the_book(open_page, site):
    opened = open_page(f"{site.as_uri()}/index.html")
    opened.wait_for_url(f"**/{TOC['root']}.html")
    opened.locator("nav.bd-links a", has_text=re.compile("^1")).first.click()
    opened.wait_for_url(f"**/{CHAPTERS[0]}.html")
    assert opened.faults == []
