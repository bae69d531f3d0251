"""Pages printed by a real browser: tagged, unfolded, within the paper, once."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import chromium
import downloads
import pdf

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>1. One</title><style>
.a {color: #111} .b {color: #933} .toggle-hidden > * {display: none}</style></head>
<body><h1>One</h1><details><summary>1.</summary>deep</details>
<div class="admonition dropdown solution toggle-hidden"><p>wanted</p></div>
<pre><span class="a">one</span> <span class="b">two</span> <span class="a">three</span></pre>
<a id="out" href="other.html">away</a> <a id="in" href="#here">here</a>
<a id="web" href="https://e.org/">web</a>
<table><tr><td><div style="width: 2000px">wide</div></td></tr></table>
<div class="cell_output"><script type="application/vnd.jupyter.widget-view+json">{}</script>
<div id="quiz">?</div>
<div hidden><div class="widget-table" hidden><details>answer</details></div></div></div>
</body></html>"""

pytestmark = pytest.mark.browser


@pytest.fixture
def pages(tmp_path) -> list[Path]:
    """Two pages below a site's `notebooks/`."""
    folder = tmp_path / "site" / "notebooks"
    folder.mkdir(parents=True)
    found = [folder / "01_one.html", folder / "02_two.html"]
    for page in found:
        page.write_text(PAGE, encoding="utf-8")
    return found


def printed(pages: list[Path]) -> int:
    """`print_pages`, away from this thread, which already runs the loop of a browser."""
    site, store = pages[0].parents[1], pages[0].parents[2] / "store"
    with ThreadPoolExecutor(1) as other:
        return other.submit(pdf.print_pages, site, pages, chromium.find(), store).result()


def test_pages_are_printed_once(browser, pages):
    assert printed(pages) == 2
    for page in pages:
        found = pdf.place(pages[0].parents[1], page).read_bytes()
        assert found.startswith(b"%PDF-")
        assert b"/Marked true" in found
        assert b"/Lang (en)" in found
        assert b"/URI (https://e.org/)" in found
        assert b"file:" not in found
    assert printed(pages) == 0
    pages[0].write_text(f"{PAGE}<!-- changed -->", encoding="utf-8")
    assert printed(pages) == 1
    assert len(list((pages[0].parents[2] / "store").iterdir())) == 2


def test_a_page_is_made_fit_for_paper(browser, pages):
    page = browser.new_page(viewport={"width": pdf.WIDTH, "height": pdf.HEIGHT})
    page.goto(pages[0].as_uri())
    assert not page.locator("text=wanted").is_visible()
    page.add_style_tag(path=pdf.STYLE)
    page.evaluate(pdf.PREPARE.read_text(encoding="utf-8"))
    for text in ("wanted", "deep", "answer", "away"):
        assert page.locator(f"text={text}").first.is_visible()
    assert not page.locator("#quiz").is_visible()
    for name, address in (("out", None), ("in", "#here"), ("web", "https://e.org/")):
        assert page.locator(f"#{name}").get_attribute("href") == address
    assert page.locator("pre").inner_html() == 'one <span class="b">two</span> three'
    assert page.evaluate("document.documentElement.scrollWidth") <= pdf.WIDTH
    page.close()


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ((">?<", "><"), r"01_one\.html did not print: .*Timeout"),
        (("</style>", "details {display: none}</style>"), "stays folded"),
    ],
)
def test_a_page_that_would_lack_something_is_named(browser, pages, planted, fault, monkeypatch):
    pages[0].write_text(PAGE.replace(*planted), encoding="utf-8")
    monkeypatch.setattr(pdf, "PATIENCE", 2_000)
    with pytest.raises(pdf.PrintError, match=fault):
        printed(pages[:1])


def test_a_browser_that_does_not_start_is_named(pages, monkeypatch):
    monkeypatch.setattr(chromium, "find", lambda: "/nowhere/chromium")
    with pytest.raises(pdf.PrintError, match="/nowhere/chromium did not start"):
        printed(pages)


def test_a_chapter_of_the_site_prints_whole(site, browser, tmp_path):
    page = min(downloads.notebooks(site), key=lambda page: page.stat().st_size)
    target = tmp_path / "chapter.pdf"
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, pdf.print_all(chromium.find(), [(page, target)])).result()
    found, text = target.read_bytes(), page.read_text(encoding="utf-8")
    assert b"file:" not in found
    assert len(re.findall(rb"/Type /Page\b", found)) > 5
    assert len(re.findall(rb"/Alt \(", found)) > text.count('class="math notranslate')
