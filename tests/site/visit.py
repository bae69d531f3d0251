"""One visit to a page of the site: at six widths, in the dark, by axe at a desk and on a phone.

`visit` gives every fault that a reader, a phone or a screen reader would meet, one line each. The
page is opened once and unfolded; its colours follow the system, its width the window.
"""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, Page

import deadlines

DESK, PHONE, HEIGHT = 1280, 390, 900
LOOKS = [("light", DESK), ("dark", DESK), ("dark", PHONE)]
LOOKS += [("light", width) for width in (PHONE, 768, 1024, 1440, 1920)]
PAGE_BYTES = 2_750_000  # chapter 5 shows twelve pictures as SVG; the others stay below 2.4 MB
PATIENCE = 60_000  # ms, only so that no test waits for ever; tools/deadlines.py
LOOK = Path(__file__).with_name("look.js").read_text(encoding="utf-8")


THEIRS = [[".search-button-field"]]  # the theme's: its label is not its visible text


def look(name: str) -> str:
    """A function of look.js, as a page takes it."""
    return f"(() => {{ {LOOK}\nreturn {name}; }})()"


def visit(page: Page) -> list[str]:
    """Every fault of a page opened by `open_page`; none for a sound one."""
    found = [*page.evaluate(look("images")), *page.evaluate(look("formulas")), *weight(page)]
    found += [] if settles(page, look("drawn")) else ["a widget does not draw"]
    found += [] if page.evaluate(look("heading")) else ["no heading of the page to see"]
    page.evaluate(look("unfold"))
    for scheme, width in LOOKS:
        wear(page, scheme, width)
        faults = page.evaluate(look("outside"), width >= DESK)
        faults += page.evaluate(look("contrast"), scheme) if width in (DESK, PHONE) else []
        found += [f"{fault} [{scheme} {width}]" for fault in faults]
    page.evaluate(look("thin"))
    for width in (DESK, PHONE):
        wear(page, "light", width)
        found += [f"{fault} [{width}]" for fault in axe(page)]
    return [*page.faults, *found]


def weight(page: Page) -> list[str]:
    """What a first visit loads, when it is too much."""
    total = sum(path.stat().st_size for path in page.files if path.is_file())
    return [f"loads {total:,} bytes, limit {PAGE_BYTES:,}"] if total > PAGE_BYTES else []


def wear(page: Page, scheme: str, width: int, height: int = HEIGHT) -> None:
    """Give the page a look, as the reader's system would, and let the theme's scripts follow."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    settles(page, "s => (document.documentElement.dataset.theme ?? s) === s", scheme)
    settles(page, look("reachable"))
    page.evaluate(look("settle"))


def axe(page: Page) -> list[str]:
    """What axe finds in the page as it is; contrast apart, which is ours."""
    page.evaluate(Axe().axe_script)
    return page.evaluate(look("violations"), THEIRS)


def settles(page: Page, condition: str, arg: object = None) -> bool:
    """Wait until a condition holds; False if it does not within the time."""
    try:
        page.wait_for_function(condition, arg=arg, timeout=PATIENCE)
    except Error:
        if deadlines.busy():
            raise  # the test is not run
        return False
    return True


def rest(page: Page, ms: int) -> None:
    """Let a page's own timers of so many milliseconds go off, however slow the machine is.

    They are in a queue by time, so ours goes off behind all that were set before it.
    """
    page.evaluate("ms => new Promise(done => setTimeout(done, ms))", ms)
