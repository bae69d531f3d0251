"""Seconds until a chapter of the built site, opened from disk, can be used.

Each visit is a new browser context, so nothing is cached. ``make site`` builds what is opened.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .timing import Result

NAME = "pages"
ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1.5
WATCH = """new MutationObserver((_, observer) => {
  if (!document.querySelector(".fedlab-widget")) return;
  window.usable = performance.now() / 1000;
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });"""
TYPESET = """async () => { await window.MathJax?.startup?.promise;
  return performance.now() / 1000; }"""


def run(repetitions: int) -> list[Result]:
    """Chapters 2 to 9 from disk: until the interactive figure answers, and until formulas stand."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "tools"))
    import chromium

    path, pages = chromium.find(), sorted((ROOT / "_build/site/notebooks").glob("0[2-9]_*.html"))
    if path is None or not pages:
        raise SystemExit("pages: needs Chromium and a built site; run: make site")
    usable: dict[Path, list[float]] = {page: [] for page in pages}
    drawn: dict[Path, list[float]] = {page: [] for page in pages}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=chromium.QUIET)
        for turn in range(repetitions + 1):
            for page in pages:
                context = browser.new_context()
                tab = context.new_page()
                tab.add_init_script(WATCH)
                tab.goto(page.as_uri())
                tab.wait_for_function("window.usable")
                formulas = tab.evaluate(TYPESET)
                if turn:  # the first turn only warms the browser
                    usable[page].append(tab.evaluate("window.usable"))
                    drawn[page].append(formulas)
                context.close()
        browser.close()
    return [
        *(
            Result(NAME, f"{page.stem}, figure answers", tuple(usable[page]), LIMIT, True, "s")
            for page in pages
        ),
        *(
            Result(NAME, f"{page.stem}, formulas stand", tuple(drawn[page]), None, True, "s")
            for page in pages
        ),
    ]
