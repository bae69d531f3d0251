"""Print a built site: headless Chromium writes tagged PDFs of chapters and of the whole book."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Piece = dict[str, Any]  # text, style and title of a page
PATIENCE = 300_000  # ms, for a page to load or to draw; a busy machine is slow
LOOK = {
    "format": "A4",
    "margin": {"top": "22mm", "bottom": "20mm", "left": "18mm", "right": "18mm"},
    **dict.fromkeys(("tagged", "outline", "print_background", "display_header_footer"), True),
}
PAPER = {"width": 658, "height": 963}  # CSS pixels of what an A4 page leaves between them

STYLE, PREPARE = (Path(__file__).with_suffix(kind) for kind in (".css", ".js"))
PROGRAM = Path(__file__).with_name("pdf_book.js").read_text(encoding="utf-8").rstrip()
WHOLE = "who-contributed-what"
HANDED_OUT, ON_A_WALL = "_without_solutions", "_on_one_page"
# after the chapters, the pages in which a reader on paper looks things up
BACK = ("faq", "methods", "notation", "proofs", "glossary", "bibliography")
FORMULAS = "async () => { await window.MathJax?.startup?.promise; }"
HANDOUT = """() => {
  for (const solution of document.querySelectorAll(".solution")) {
    for (let next; (next = solution.nextElementSibling) && !next.matches(".exercise, section");) {
      next.remove();
    }
    solution.remove();
  }
  for (const box of document.querySelectorAll(".admonition.dropdown")) box.remove();
  // a quiz whose answers stood there is a quiz again
  for (const answers of document.querySelectorAll(".widget-table:has(details)")) {
    const cell = answers.closest(".cell_output");
    const quiz = cell.querySelector('script[type$="widget-view+json"]').nextElementSibling;
    quiz.style.removeProperty("display");
    answers.remove();
  }
  // an explorer asks again: its first button puts the veil back
  const veils = document.querySelectorAll(".fedlab-widget .w-buttons > button:first-child");
  for (const button of veils) button.click();
}"""
WALL = """() => {
  const article = document.querySelector("article");
  const find = (selector) => article.querySelector(selector);
  const summary = find("section#summary"), card = find(".method-card");
  if (!card || !summary) return 0;
  // the title, the question, the first picture, the card, numbered equations, the summary
  const question = find("section > p:has(strong)");
  while (summary.querySelector(".exercise ~ *, .exercise")) summary.lastElementChild.remove();
  const equations = [...article.querySelectorAll("div.math:has(.eqno)")].slice(0, 2);
  const sheet = document.createElement("div");
  sheet.append(find("h1"), question, find("figure"), card, ...equations, summary);
  article.replaceChildren(sheet);
  return sheet.getBoundingClientRect().height;
}"""
FIGURES = """() => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every((figure) => figure.nextElementSibling?.textContent)"""
LINE = (
    '<div style="width: 100%; margin: 0 18mm; font: 8pt sans-serif; color: #5a6472; display: flex;'
    ' justify-content: space-between"><span>{left}</span><span>{right}</span></div>'
)
PAGE_NUMBER = '<span class="pageNumber"></span> / <span class="totalPages"></span>'


class PrintError(ValueError):
    """The browser did not start, or could not print a page."""


def title(page: Path) -> tuple[str, str]:
    """The numbered title of a page and the name of the book, as HTML, from the page's title."""
    found = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.DOTALL)
    own, _, book = (found.group(1) if found else page.stem).strip().partition(" &#8212; ")
    return own, book


def place(site: Path, page: Path, kind: str = "") -> Path:
    """The path of a page's PDF in its site; the kind is "", HANDED_OUT or ON_A_WALL."""
    return site / "pdf" / f"{page.stem}{kind}.pdf"


def whole(site: Path) -> Path:
    """The path of the PDF of the whole book."""
    return site / "pdf" / f"{WHOLE}.pdf"


def print_one(
    browser: Browser,
    page: Path,
    target: Path,
    handout: Path | None = None,
    wall: Path | None = None,
) -> Piece:
    """Open a page from disk, without a network, prepare it for paper, write its PDF.

    A hand-out has no solutions, and no answers of quiz and explorers. For a wall,
    a chapter is one page: question, picture, method card, equations, summary. Returns what
    `print_book` binds.
    """
    own, book = title(page)
    with opened(browser, page) as tab:
        piece = prepared(tab)
        write(tab, target, own, book)
        if handout:
            tab.evaluate(HANDOUT)
            write(tab, handout, own, book)
        if wall:
            write_one_page(tab, wall, book)
    return piece


def print_book(browser: Browser, page: Path, target: Path, pieces: Sequence[Piece]) -> None:
    """Write all pieces as one PDF with the style of `page`, any page of the site."""
    _, book = title(page)
    with opened(browser, page) as tab:
        tab.evaluate(f"pieces => {PROGRAM}.bind(pieces[0], pieces[1])", [book, list(pieces)])
        tab.evaluate("() => document.fonts.ready.then(() => true)")
        write(tab, target, "", book)


@contextmanager
def opened(browser: Browser, page: Path) -> Iterator[Page]:
    """A page of the site in print layout; PrintError if opening or printing fails."""
    from playwright.sync_api import Error

    context = browser.new_context(viewport=PAPER, color_scheme="light", offline=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    tab.emulate_media(media="print")
    try:
        tab.goto(page.resolve().as_uri())
        tab.add_style_tag(path=STYLE)
        tab.evaluate(FORMULAS)
        tab.wait_for_function(FIGURES)
        yield tab
    except Error as failed:
        raise PrintError(f"{page.name} did not print: {failed}") from None
    finally:
        context.close()


def prepared(tab: Page) -> Piece:
    """Prepare an open page for paper; return its content, for the whole book."""
    tab.evaluate(f"() => {PROGRAM}.note()")
    tab.evaluate(PREPARE.read_text(encoding="utf-8"))
    return dict(tab.evaluate(f"() => {PROGRAM}.gather()"))


def write(tab: Page, target: Path, left: str, right: str) -> None:
    head, foot = LINE.format(left=left, right=right), LINE.format(left="", right=PAGE_NUMBER)
    tab.pdf(path=target, header_template=head, footer_template=foot, **LOOK)


def write_one_page(tab: Page, target: Path, book: str) -> None:
    """Cut an open chapter down to one page and write it; only if it has a method card."""
    if height := tab.evaluate(WALL):
        zoom = min(1.0, 0.97 * PAPER["height"] / height)
        tab.add_style_tag(content=f"article {{ zoom: {zoom} }}")
        write(tab, target, "", book)


def print_pages(site: Path, pages: Sequence[Path], browser: str) -> None:
    """Write the PDFs of pages of `notebooks/` into their site, with and without solutions, and
    one of all of them with the pages of `BACK` behind them.

    PrintError if the browser does not start or a page does not print.
    """
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=browser, args=chromium.QUIET)
        except Error as failed:
            raise PrintError(f"{browser} did not start: {failed}") from None
        pieces = []
        for page in pages:
            others = (place(site, page, kind) for kind in (HANDED_OUT, ON_A_WALL))
            pieces.append(print_one(started, page, place(site, page), *others))
        for page in filter(Path.exists, (site / "book" / f"{name}.html" for name in BACK)):
            with opened(started, page) as tab:
                pieces.append(prepared(tab))
        print_book(started, pages[0], whole(site), pieces)
        started.close()
