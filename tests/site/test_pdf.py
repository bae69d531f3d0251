"""Pages printed by a real browser: tagged, unfolded; `forms.py` looks at all for what is cut."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

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


def test_a_page_is_printed(browser, pages):
    site = pages[0].parents[1]
    for page in pages:
        pdf.print_one(browser, page, pdf.place(site, page))
        found = (site / "pdf" / f"{page.stem}.pdf").read_bytes()
        assert found.startswith(b"%PDF-")
        assert b"/Marked true" in found
        assert b"/Lang (en)" in found
        assert b"/URI (https://e.org/)" in found
        assert b"file:" not in found


def test_a_page_is_made_fit_for_paper(browser, pages):
    page = browser.new_page(viewport=pdf.PAPER)
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
    assert page.evaluate("document.documentElement.scrollWidth") <= pdf.PAPER["width"]
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
        pdf.print_one(browser, pages[0], pages[0].with_suffix(".pdf"))


def test_a_browser_that_does_not_start_is_named(pages):
    print_pages = partial(pdf.print_pages, pages[0].parents[1], pages, "/nowhere/chromium")
    with ThreadPoolExecutor(1) as other, pytest.raises(pdf.PrintError, match="did not start"):
        other.submit(print_pages).result()  # away from the thread of the tests' own browser


def test_a_chapter_of_the_site_prints_whole(site, browser, tmp_path):
    pages = [page for page in downloads.notebooks(site) if page.stem[0].isdigit()]
    page = min(pages, key=lambda page: page.stat().st_size)
    target, handout = tmp_path / "chapter.pdf", tmp_path / "handout.pdf"
    pdf.print_one(browser, page, target)
    pdf.print_one(browser, page, handout, solutions=False)
    found, text = target.read_bytes(), page.read_text(encoding="utf-8")
    assert b"file:" not in found
    sheets = [len(re.findall(rb"/Type /Page\b", file.read_bytes())) for file in (handout, target)]
    assert 5 < sheets[0] < sheets[1], "a hand-out is shorter by its solutions"
    assert len(re.findall(rb"/Alt \(", found)) > text.count('class="math notranslate')
