"""The reference: pages of a bearable size, and addresses from when it was one page."""

import re

import pytest
from test_browser import TOC, listed

MOST = 300_000  # bytes of HTML; the whole reference was once a page of 1.2 MB
(ENTRY,) = (x for part in TOC["parts"] for x in part["chapters"] if x["file"] == "book/api")
PAGES = [*listed(ENTRY)]
DEFINED = re.compile(r'<dt class="sig [^>]*id="((?:fedlab_|studies)[\w.]*)"')


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_reference_is_light(site, page):
    size = (site / f"{page}.html").stat().st_size
    assert size <= MOST, "divide it: _toc.yml, book/api.md, book.js"


@pytest.mark.browser
def test_what_led_to_the_one_page_leads_to_the_definition(open_page, site):
    """A name of each subpackage; from the entry, and from a bookmark of the one page."""
    opened = open_page(f"{site.as_uri()}/book/api.html")
    links = opened.locator("article table a[href*='#fedlab_mini.']")
    assert links.count() == opened.locator("article td:last-child code").count() > 50
    for page in PAGES[1:]:
        names = DEFINED.findall((site / f"{page}.html").read_text(encoding="utf-8"))
        for name in {".".join(name.split(".")[:2]): name for name in names}.values():
            opened.goto("about:blank")
            opened.goto(f"{site.as_uri()}/book/api.html#{name}")
            opened.wait_for_url(f"**/{page}.html#{name}")
    assert opened.faults == []
