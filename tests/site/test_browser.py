"""The site as a reader meets it: opened from disk in a browser, with no network."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from visit import report, visit

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
CHAPTERS = [page for page in listed(TOC) if re.match(r"notebooks/\d\d_", page)]

pytestmark = pytest.mark.browser


def address(site: Path, page: str) -> str:
    return f"{site.as_uri()}/{page}.html"


def tools(page, path: Path) -> list[str]:
    """What a chapter fails to offer: code to copy, its notebook, a solution to unfold."""
    found = []
    if not page.locator("div.cell_input button.copybtn").count():
        found.append("no code can be copied")
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


@pytest.mark.parametrize("page", PAGES)
def test_page_is_sound(open_page, site, page):
    opened = open_page(address(site, page))
    found = tools(opened, site / page) if page in CHAPTERS else []
    found += visit(opened)
    assert not found, report(page, found)


def test_search_finds_a_word(open_page, site):
    opened = open_page(address(site, "search") + "?q=federated")
    hits = opened.locator("#search-results li a")
    hits.first.wait_for()
    assert hits.count() >= 3
    assert opened.faults == []


def test_front_door_leads_to_the_book(open_page, site):
    opened = open_page(f"{site.as_uri()}/index.html")
    opened.wait_for_url(f"**/{TOC['root']}.html")
    opened.locator("nav.bd-links a", has_text=re.compile("^1")).first.click()
    opened.wait_for_url(f"**/{CHAPTERS[0]}.html")
    assert opened.faults == []
