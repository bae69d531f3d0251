"""Print the chapters of a built site: headless Chromium writes one tagged PDF a chapter.

A chapter is printed again only when its page, a figure on it or the site's scripts and styles
changed; older prints wait in `_build/pdf`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import chapters
import chromium

PRINTS = chapters.BUILD / "pdf"
AT_ONCE = 2
PATIENCE = 60_000  # ms, for a page to load or to draw
FIGURE = re.compile(r"(?:\.\./)*(_images/[^\"?#]+)")
SIZES = {"top": "22mm", "bottom": "20mm", "left": "18mm", "right": "18mm"}  # of the margins
WIDTH, HEIGHT = 658, 963  # CSS pixels of what an A4 page leaves between them

STYLE, PREPARE = (Path(__file__).with_suffix(kind) for kind in (".css", ".js"))
FORMULAS = "async () => { await window.MathJax?.startup?.promise; }"
FIGURES = """() => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every((figure) => figure.nextElementSibling?.textContent)"""
LINE = (
    '<div style="width: 100%; margin: 0 18mm; font: 8pt sans-serif; color: #5a6472; display: flex;'
    ' justify-content: space-between"><span>{left}</span><span>{right}</span></div>'
)
PAGE_NUMBER = '<span class="pageNumber"></span> / <span class="totalPages"></span>'


class PrintError(RuntimeError):
    """The browser did not start, or a page did not print."""


def title(page: Path) -> tuple[str, str]:
    """Numbered title of a page and name of the book, as HTML, from the page's own title."""
    found = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.DOTALL)
    own, _, book = (found.group(1) if found else page.stem).strip().partition(" &#8212; ")
    return own, book


def key(site: Path, page: Path) -> str:
    """Hash of all that a print depends on: page, its figures, scripts and styles, these tools."""
    figures = {site / name for name in FIGURE.findall(page.read_text(encoding="utf-8"))}
    static = [path for path in (site / "_static").rglob("*") if path.suffix in (".js", ".css")]
    own = (Path(__file__), STYLE, PREPARE)
    total = hashlib.sha256(b"".join(path.read_bytes() for path in own))
    for path in sorted(path for path in [page, *figures, *static] if path.is_file()):
        total.update(path.relative_to(site).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


async def print_one(context, page: Path, target: Path) -> None:
    """Open a page from disk, prepare it for paper, write its PDF."""
    own, book = title(page)
    tab = await context.new_page()
    await tab.emulate_media(media="print")
    await tab.goto(page.resolve().as_uri())
    await tab.add_style_tag(path=STYLE)
    await tab.evaluate(FORMULAS)
    await tab.wait_for_function(FIGURES)
    await tab.evaluate(PREPARE.read_text(encoding="utf-8"))
    await tab.pdf(
        path=target,
        format="A4",
        margin=SIZES,
        tagged=True,
        outline=True,
        print_background=True,
        display_header_footer=True,
        header_template=LINE.format(left=own, right=book),
        footer_template=LINE.format(left="", right=PAGE_NUMBER),
    )
    await tab.close()


async def print_all(browser: str, jobs: Sequence[tuple[Path, Path]]) -> None:
    """Print pages to targets, `AT_ONCE` at a time, all in one browser without a network."""
    from playwright.async_api import Error, async_playwright

    free = asyncio.Semaphore(AT_ONCE)

    async def in_turn(context, page: Path, target: Path) -> None:
        async with free:
            try:
                await print_one(context, page, target)
            except Error as failed:
                raise PrintError(f"{page.name} did not print: {failed}") from None

    async with async_playwright() as driver:
        try:
            started = await driver.chromium.launch(executable_path=browser, args=chromium.QUIET)
        except Error as failed:
            raise PrintError(f"{browser} did not start: {failed}") from None
        paper = {"width": WIDTH, "height": HEIGHT}
        context = await started.new_context(viewport=paper, color_scheme="light", offline=True)
        context.set_default_timeout(PATIENCE)
        done = await asyncio.gather(
            *(in_turn(context, *job) for job in jobs), return_exceptions=True
        )
        await started.close()
    for failed in filter(None, done):
        raise failed


def place(site: Path, page: Path) -> Path:
    """Where the PDF of a page of `notebooks/` lies in its site."""
    return (site / "pdf" / page.relative_to(site / "notebooks")).with_suffix(".pdf")


def print_pages(site: Path, pages: Sequence[Path], browser: str, store: Path = PRINTS) -> int:
    """Write the PDFs of pages of `notebooks/` into their site; returns how many were new.

    PrintError if the browser does not start or a page does not print.
    """
    keys = {page: key(site, page) for page in pages}
    stored = {page: store / f"{keys[page]}.pdf" for page in pages}
    stale = {page: path.with_suffix(".part") for page, path in stored.items() if not path.exists()}
    store.mkdir(parents=True, exist_ok=True)
    if stale:
        asyncio.run(print_all(browser, list(stale.items())))
    for page, part in stale.items():
        if part.exists():  # two pages of one content share a print
            part.replace(stored[page])
    for page, path in stored.items():
        place(site, page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place(site, page))
    for old in set(store.iterdir()) - set(stored.values()):
        old.unlink()
    return len(stale)
