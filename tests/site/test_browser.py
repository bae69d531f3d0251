"""The site as a reader meets it: opened from disk in a browser, with no network."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from forms import paper, slides
from helpers import unless_passed
from visit import report, visit

from stamps import digest

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("FEDLAB_SITE", ROOT / "_build" / "site")).resolve()
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))


def listed(entry: dict) -> Iterator[str]:
    """Every page of the table of contents, in its order."""
    yield from (entry[key] for key in ("root", "file") if key in entry)
    for key in ("parts", "chapters", "sections"):
        for below in entry.get(key, []):
            yield from listed(below)


def size(page: str) -> int:
    """Bytes of a page, 0 if it is missing; a visit takes the longer the longer the page."""
    path = SITE / f"{page}.html"
    return path.stat().st_size if path.exists() else 0


MORE = sorted(path.stem for path in SITE.glob("*.html") if path.name != "index.html")
PAGES = sorted(dict.fromkeys([*listed(TOC), *MORE]), key=size, reverse=True)
LOADED = sorted(path for path in SITE.glob("_static/**/*.*") if path.name != "search-texts.js")
BY = [*sorted(Path(__file__).parent.glob("*.py")), *sorted((ROOT / "tools").glob("pdf.*"))]
CHAPTERS = [page for page in listed(TOC) if re.match(r"notebooks/\d\d_", page)]

pytestmark = pytest.mark.browser


@cache
def static() -> str:
    """Hash of programs and styles that pages load."""
    return digest(LOADED)


def pictures(page: str) -> list[Path]:
    """The files of a page's images."""
    text = (SITE / f"{page}.html").read_text(encoding="utf-8")
    return [SITE / "_images" / name for name in set(re.findall(r"_images/([\w.%-]+)", text))]


def address(site: Path, page: str) -> str:
    return f"{site.as_uri()}/{page}.html"


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
    if not solution.count():
        return [*found, "no folded solution"]
    inside = solution.locator("section, p:not(.admonition-title)").first
    if inside.is_visible():
        found.append("a solution is open before it is asked for")
    solution.locator("button.toggle-button").click()
    if not inside.is_visible():
        found.append("a solution does not unfold")
    return found


FOCUS = """() => {
  for (const a of document.getAnimations()) a.finish();
  const { top, height } = document.activeElement.getBoundingClientRect();
  return [document.activeElement.innerText, height > 0 && top >= 0 && top < innerHeight];
}"""
RING = """() => { const e = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(e);
  return [e.id || e.innerText, `${outlineStyle} ${outlineWidth}`]; }"""
TO_START = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
}"""
IN_TEXT = "document.querySelector('article').contains(document.activeElement)"
TO_FOCUS = """[...document.querySelectorAll("article :is(a[href], button, input, [tabindex])")]
  .some(e => e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true }))"""


def presses(page, most: int) -> int:
    """How often Tab is pressed until the focus is in the text; `most` if it does not get there."""
    for count in range(1, most):
        page.keyboard.press("Tab")
        if page.evaluate(IN_TEXT):
            return count
    return most


def keyboard(page) -> list[str]:
    """What is wrong with the way from the page's start to its text, by Tab and by skip link."""
    if page.url.endswith("404.html"):  # its links lead to the site's root, at any depth
        seen = [page.keyboard.press("Tab") or page.evaluate(RING) for _ in range(3)]
        wanted = [["the front page", "solid 3px"], ["words", "solid 3px"], ["Search", "solid 3px"]]
        return [] if seen == wanted else [f"Tab shows {seen}"]
    if page.locator("article").count() == 0 or not page.evaluate(TO_FOCUS):
        return []
    page.keyboard.press("Tab")
    said, visible = page.evaluate(FOCUS)
    found = [] if said == "Skip to the text" and visible else [f"first Tab shows {said!r}"]
    page.keyboard.press("Enter")
    if (count := presses(page, 5)) >= 5 - 2:
        found.append(f"{count + 2} keys to the text by the skip link")
    page.evaluate(TO_START)
    if (count := presses(page, 12)) >= 12:
        found.append("Tab does not reach the text in 11 presses")
    page.evaluate(TO_START)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_page_is_sound(open_page, site, page):
    """On a screen; a chapter also as slides, other notebooks on paper (chapters: `test_pdf.py`)."""
    with unless_passed(f"pages/{page}", [site / f"{page}.html", *pictures(page), *BY], static()):
        opened, chapter = open_page(address(site, page)), page in CHAPTERS
        found = keyboard(opened)
        found += [*tools(opened, site / page), *slides(opened)] if chapter else []
        found += opened.evaluate(SCROLLS) if page == "book/api" else []
        found += visit(opened)
        found += paper(opened) if page.startswith("notebooks/") and not chapter else []
        assert not found, report(page, found)


SCROLLS = """() => [...document.querySelectorAll("article :is(pre, dl, .arguments)")]
  .filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => `too wide: ${e.innerText.slice(0, 60)}`)"""


def test_copy_buttons_are_a_stop_a_section_and_arrows_go_on(open_page, site):
    opened = open_page(address(site, CHAPTERS[0]))
    buttons = "article button.copybtn"
    stops = opened.locator(f"{buttons}[tabindex='0']").count()
    sections = "all => new Set(all.map(e => e.closest('section'))).size"
    assert stops == opened.eval_on_selector_all(buttons, sections)
    assert 0 < stops < opened.locator(buttons).count() / 2
    opened.locator(buttons).first.focus()
    opened.keyboard.press("ArrowDown")
    second = opened.locator(buttons).nth(1)
    assert second.evaluate("e => e === document.activeElement && e.tabIndex === -1")
    opened.keyboard.press("ArrowUp")
    assert opened.locator(buttons).first.evaluate("e => e === document.activeElement")
    for width, key in ((1280, "#pst-primary-sidebar"), (390, "dialog[open]")):
        opened.set_viewport_size({"width": width, "height": 900})
        state = "visible" if width == 1280 else "hidden"  # the theme moves it away in steps
        opened.locator("#pst-primary-sidebar").wait_for(state=state)
        opened.locator("#pst-skip-link a").nth(1).focus()
        opened.keyboard.press("Enter")
        opened.keyboard.press("Tab")
        assert opened.evaluate("k => !!document.activeElement.closest(k)", key), width


def test_front_door_leads_to_the_book(open_page, site):
    opened = open_page(f"{site.as_uri()}/index.html")
    opened.wait_for_url(f"**/{TOC['root']}.html")
    opened.locator("nav.bd-links a", has_text=re.compile("^1")).first.click()
    opened.wait_for_url(f"**/{CHAPTERS[0]}.html")
    assert opened.faults == []
