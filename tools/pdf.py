"""Print the chapters of a built site: headless Chromium writes one tagged PDF a chapter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATIENCE = 60_000  # ms, for a page to load or to draw
LOOK = {
    "format": "A4",
    "margin": {"top": "22mm", "bottom": "20mm", "left": "18mm", "right": "18mm"},
    **dict.fromkeys(("tagged", "outline", "print_background", "display_header_footer"), True),
}
PAPER = {"width": 658, "height": 963}  # CSS pixels of what an A4 page leaves between them

STYLE, PREPARE = (Path(__file__).with_suffix(kind) for kind in (".css", ".js"))
FORMULAS = "async () => { await window.MathJax?.startup?.promise; }"
HANDOUT = """() => {
  for (const solution of document.querySelectorAll(".solution")) {
    for (let next; (next = solution.nextElementSibling) && !next.matches(".exercise, section");) {
      next.remove();
    }
    solution.remove();
  }
  for (const answer of document.querySelectorAll(".widget-table details")) answer.remove();
}"""
FIGURES = """() => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every((figure) => figure.nextElementSibling?.textContent)"""
LINE = (
    '<div style="width: 100%; margin: 0 18mm; font: 8pt sans-serif; color: #5a6472; display: flex;'
    ' justify-content: space-between"><span>{left}</span><span>{right}</span></div>'
)
PAGE_NUMBER = '<span class="pageNumber"></span> / <span class="totalPages"></span>'


class PrintError(ValueError):
    """The browser did not start, or a page did not print."""


def title(page: Path) -> tuple[str, str]:
    """Numbered title of a page and name of the book, as HTML, from the page's own title."""
    found = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.DOTALL)
    own, _, book = (found.group(1) if found else page.stem).strip().partition(" &#8212; ")
    return own, book


def place(site: Path, page: Path, solutions: bool = True) -> Path:
    """Where the PDF of a page of `notebooks/` lies in its site."""
    return site / "pdf" / f"{page.stem}{'' if solutions else '_without_solutions'}.pdf"


def print_one(browser: Browser, page: Path, target: Path, solutions: bool = True) -> None:
    """Open a page from disk, without a network, prepare it for paper, write its PDF.

    Without solutions, the answers of the quiz are left out as well.
    """
    from playwright.sync_api import Error

    own, book = title(page)
    context = browser.new_context(viewport=PAPER, color_scheme="light", offline=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    tab.emulate_media(media="print")
    try:
        tab.goto(page.resolve().as_uri())
        tab.add_style_tag(path=STYLE)
        tab.evaluate(FORMULAS)
        tab.wait_for_function(FIGURES)
        if not solutions:
            tab.evaluate(HANDOUT)
        tab.evaluate(PREPARE.read_text(encoding="utf-8"))
        head, foot = LINE.format(left=own, right=book), LINE.format(left="", right=PAGE_NUMBER)
        tab.pdf(path=target, header_template=head, footer_template=foot, **LOOK)
    except Error as failed:
        raise PrintError(f"{page.name} did not print: {failed}") from None
    finally:
        context.close()


def print_pages(site: Path, pages: Sequence[Path], browser: str) -> None:
    """Write the PDFs of pages of `notebooks/` into their site, with and without solutions.

    PrintError if the browser does not start or a page does not print.
    """
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=browser, args=chromium.QUIET)
        except Error as failed:
            raise PrintError(f"{browser} did not start: {failed}") from None
        for page in pages:
            for solutions in (True, False):
                print_one(started, page, place(site, page, solutions), solutions)
        started.close()
