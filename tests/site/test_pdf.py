"""Pages printed by a real browser: tagged, unfolded, nothing cut."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import forms
import paper_text
import pytest
from helpers import unless_passed

import chapters
import downloads
import pdf

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>1. One</title><style>
.a {color: #111} .b {color: #933} .toggle-hidden > * {display: none}</style></head>
<body><article class="bd-article"><h1>One<a class="headerlink" href="#">#</a></h1>
<details><summary>1.</summary>deep</details>
<div class="admonition dropdown solution toggle-hidden"><p>wanted</p></div>
<pre><span class="a">one</span> <span class="b">two</span> <span class="a">three</span></pre>
<a id="out" href="other.html">away</a> <a id="in" href="#here">here</a>
<a id="web" href="https://e.org/">web</a>
<table><tr><td><div style="width: 2000px">wide</div></td></tr></table>
<div class="cell_output"><script type="application/vnd.jupyter.widget-view+json">{}</script>
<div id="quiz">?</div>
<div hidden><div class="widget-table" hidden><details>answer</details></div></div></div>
<a id="next" href="02_two.html#there">on</a> <p id="there">goal of a link</p>
</article></body></html>"""

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


def test_pages_are_bound_into_a_book(browser, pages, tmp_path):
    """A title, a list of contents, every page; links between pages stay inside the file."""
    pieces = [pdf.print_one(browser, page, tmp_path / f"{page.stem}.pdf") for page in pages]
    target = tmp_path / "book.pdf"
    pdf.print_book(browser, pages[0], target, pieces)
    said = paper_text.words(target)
    assert said.count("wanted") == said.count("goalofalink") == 2
    assert paper_text.pages(target) == 3
    found = target.read_bytes()
    for name in (b"01_one--top", b"02_two--top", b"02_two--there"):
        assert re.search(rb"/Dest ?/" + name, found), f"no link leads to {name}"
    assert b"file:" not in found


ANSWERS = """() => [...document.querySelectorAll(
  ".admonition.dropdown p:not(.admonition-title), .widget-table details"
)].filter(e => !e.closest(".exercise") && !e.querySelector("mjx-container, .math"))
  .map(e => e.textContent.replace("and?", "")).filter(text => text.length > 40)"""


def stands(text: str, page: str) -> bool:
    """Whether a text, or one of its halves, stands there: it may go over the end of a page."""
    half = len(text) // 2
    return text[:half] in page or text[half:] in page


STEMS = [source.stem for source in chapters.numbered()]


@pytest.mark.parametrize("stem", STEMS)
def test_a_hand_out_holds_no_answer_and_the_book_all(site, browser, tmp_path, stem):
    page = site / "notebooks" / f"{stem}.html"
    by = [page, Path(__file__), Path(forms.__file__), *Path(pdf.__file__).parent.glob("pdf*")]
    static = [site / "_static" / name for name in ("book.css", "book.js", "afm-host.js")]
    with unless_passed(f"pdf/{stem}", [*by, *static]):
        full, handout = tmp_path / "full.pdf", tmp_path / "handout.pdf"
        with pdf.opened(browser, page) as tab:
            answers = [paper_text.bare(text) for text in tab.evaluate(ANSWERS)]
            exercises = tab.locator(".exercise .admonition-title").all_text_contents()
            pdf.prepared(tab)
            assert tab.evaluate(forms.CUT) == []
            assert tab.locator(".tag_hide-cell").first.is_visible()
            pdf.write(tab, full, *pdf.title(page))
            tab.evaluate(pdf.HANDOUT)
            assert tab.locator(".solution, .tag_hide-cell, .widget-table details").count() == 0
            assert tab.locator("#references").is_visible()
            assert tab.locator(".fedlab-quiz input:visible").count() > 9, "no quiz to fill in"
            pdf.write(tab, handout, *pdf.title(page))
        said, handed = paper_text.words(full), paper_text.words(handout)
        assert len(answers) > 15, "the page gives too few answers to try"
        assert [text for text in answers if not stands(text, said)] == []
        assert [text for text in answers if stands(text, handed)] == []
        assert "Thetruthis" not in handed, "an explorer is revealed"
        assert "Startagain" not in handed, "a button is on paper"
        assert said.count("Solutionto") >= len(exercises) >= 4
        assert "Solutionto" not in handed
        assert [text for text in exercises if paper_text.bare(text) not in handed] == []


# What no page break may cross stays below two fifths of a page, except pictures and explorers.
WHOLE = """() => [...document.querySelectorAll("article *")]
  .filter(e => getComputedStyle(e).breakInside.startsWith("avoid") && !e.closest(".fedlab-widget")
    && !e.matches("figure, img, figure *, .picture") && e.getBoundingClientRect().height > 385)
  .map(e => e.outerHTML.slice(0, 90))"""


# A frame whose code alone may not be broken stays behind, empty, at the end of a page.
EMPTY = """() => [...document.querySelectorAll(".cell_input")].filter(frame =>
  [...frame.querySelectorAll("div")].some(box =>
    getComputedStyle(box).breakInside !== getComputedStyle(frame).breakInside))
  .map(frame => frame.innerText.slice(0, 60))"""


# What unfolds for paper is printed at once: were it to fade in, ink would hardly show.
FAINT = """() => [...document.querySelectorAll("article :is(p, pre, td, img)")].filter(part => {
  let ink = 1;
  for (let box = part; box; box = box.parentElement) ink *= getComputedStyle(box).opacity;
  return ink < 0.5 && part.getBoundingClientRect().height > 0;
}).map(part => part.outerHTML.slice(0, 90))"""


def test_pages_are_not_left_half_empty_and_hold_no_empty_frame(site, browser):
    with pdf.opened(browser, site / "notebooks" / f"{STEMS[5]}.html") as tab:
        pdf.prepared(tab)
        assert tab.evaluate(FAINT) == []
        assert tab.evaluate(WHOLE) == []
        assert tab.evaluate(EMPTY) == []


def test_a_chapter_of_the_site_prints_whole(site, browser, tmp_path):
    pages = [page for page in downloads.notebooks(site) if page.stem[0].isdigit()]
    page = min(pages, key=lambda page: page.stat().st_size)
    target, handout = tmp_path / "chapter.pdf", tmp_path / "handout.pdf"
    pdf.print_one(browser, page, target, handout)
    found, text = target.read_bytes(), page.read_text(encoding="utf-8")
    assert b"file:" not in found
    sheets = [len(re.findall(rb"/Type /Page\b", file.read_bytes())) for file in (handout, target)]
    assert 5 < sheets[0] < sheets[1], "a hand-out is shorter by its solutions"
    assert len(re.findall(rb"/Alt \(", found)) > text.count('class="math notranslate')
