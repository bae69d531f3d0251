"""Pages printed by a real browser: tagged, unfolded, nothing cut."""

import re
from pathlib import Path

import pytest
from helpers import ALL_CASES
from visit import look

import chapters
import pdf

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>1. One</title><style>
.toggle-hidden > * {display: none}</style></head>
<body><article class="bd-article"><h1>One<a class="headerlink" href="#">#</a></h1>
<details><summary>1.</summary>deep</details>
<div class="admonition dropdown solution toggle-hidden"><p>wanted</p></div>
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
    found = [tmp_path / "notebooks" / name for name in ("01_one.html", "02_two.html")]
    found[0].parent.mkdir()
    for page in found:
        page.write_text(PAGE, encoding="utf-8")
    return found


def test_pages_are_made_fit_for_paper_and_bound_into_a_book(browser, pages, tmp_path):
    """A title, a list of contents, every page; links between pages stay inside the file."""
    with pdf.opened(browser, pages[0]) as tab:
        pdf.prepared(tab)
        for text in ("wanted", "deep", "answer", "away"):
            assert tab.locator(f"text={text}").first.is_visible()
        assert not tab.locator("#quiz").is_visible()
        for name, address in (("out", None), ("in", "#here"), ("web", "https://e.org/")):
            assert tab.locator(f"#{name}").get_attribute("href") == address
        assert tab.evaluate("document.documentElement.scrollWidth") <= pdf.PAPER["width"]
    pieces = [pdf.print_one(browser, page, tmp_path / f"{page.stem}.pdf") for page in pages]
    pdf.print_book(browser, pages[0], tmp_path / "book.pdf", pieces)
    for name in ("01_one", "02_two", "book"):
        found = (tmp_path / f"{name}.pdf").read_bytes()
        assert found.startswith(b"%PDF-")
        for part in (b"/Marked true", b"/Lang (en)", b"/URI (https://e.org/)"):
            assert part in found
        assert b"file:" not in found
    assert len(re.findall(rb"/Type /Page\s", found)) == 3
    for name in (b"01_one--top", b"02_two--top", b"02_two--there"):
        assert re.search(rb"/Dest ?/" + name, found), f"no link leads to {name}"


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ((">?<", "><"), r"01_one\.html did not print: .*Timeout"),
        (("</style>", "details {display: none}</style>"), "stays folded"),
    ],
)
def test_a_page_that_would_lack_something_is_named(browser, pages, planted, fault, monkeypatch):
    pages[0].write_text(PAGE.replace(*planted), encoding="utf-8")
    if "Timeout" in fault:  # nothing else ends this wait
        monkeypatch.setattr(pdf, "PATIENCE", 2_000)
    with pytest.raises(pdf.PrintError, match=fault):
        pdf.print_one(browser, pages[0], pages[0].with_suffix(".pdf"))


CHAPTERS = chapters.numbered() if ALL_CASES else chapters.sources(["04_cgsv", "06"])


@pytest.mark.parametrize("source", CHAPTERS, ids=lambda source: source.stem)
def test_a_hand_out_holds_no_answer_and_the_book_all(site, browser, tmp_path, source):
    page = site / "notebooks" / f"{source.stem}.html"
    full, handout, wall = (tmp_path / f"{name}.pdf" for name in ("full", "handout", "wall"))

    def said() -> str:
        return "".join(tab.locator("body").inner_text().split())

    with pdf.opened(browser, page) as tab:
        answers = ["".join(text.split()) for text in tab.evaluate(look("answers"))]
        exercises = tab.locator(".exercise .admonition-title").all_text_contents()
        pdf.prepared(tab)
        assert [*tab.evaluate(look("cut")), *tab.evaluate(look("paperFaults"))] == []
        assert tab.locator(".tag_hide-cell").first.is_visible()
        assert len(answers) > 15, "the page gives too few answers to try"
        assert [text for text in answers if text not in said()] == []
        assert said().count("Solutionto") >= len(exercises) >= 4
        pdf.write(tab, full, *pdf.title(page))
        tab.evaluate(pdf.HANDOUT)
        assert tab.locator(".solution, .tag_hide-cell, .widget-table details").count() == 0
        assert tab.locator("#references").is_visible()
        assert tab.locator(".fedlab-quiz input:visible").count() > 9, "no quiz to fill in"
        for text in ("Thetruthis", "Startagain", "Solutionto", *answers):
            assert text not in said(), "an answer, an explorer revealed or a button is on paper"
        assert [text for text in exercises if "".join(text.split()) not in said()] == []
        pdf.write(tab, handout, *pdf.title(page))
        for part in (".method-card li", "section > p strong", "section#summary li"):
            assert tab.locator(part).count() >= 1
        card = tab.locator(".method-card").inner_text()
        pdf.write_one_page(tab, wall, "")
        assert card == tab.locator(".method-card").inner_text()
        assert tab.locator("article figure").count() == 1
        assert (
            tab.locator(".exercise, .solution, section#summary p:has-text('executed')").count() == 0
        )
    files = (wall, handout, full)
    sheets = [len(re.findall(rb"/Type /Page\b", file.read_bytes())) for file in files]
    assert sheets[0] == 1
    assert 5 < sheets[1] < sheets[2], "a hand-out is shorter by its solutions"
    formulas = page.read_text(encoding="utf-8").count('class="math notranslate')
    assert len(re.findall(rb"/Alt \(", full.read_bytes())) > formulas
