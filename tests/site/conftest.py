"""A real browser on the built site, opened from disk, with every other address refused."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]


def chromium() -> str | None:
    """Path of a Chromium or Chrome on this machine; FEDLAB_CHROMIUM names one."""
    named = os.environ.get("FEDLAB_CHROMIUM")
    return named or next(filter(None, map(shutil.which, [*NAMES, MAC])), None)


@pytest.fixture(scope="session")
def site() -> Path:
    """The site built from the committed outputs."""
    folder = Path(os.environ.get("FEDLAB_SITE", ROOT / "_build" / "site")).resolve()
    if not (folder / "index.html").exists():
        pytest.fail(f"no site at {folder}; build it: make site")
    return folder


@pytest.fixture(scope="session")
def browser():
    path = chromium()
    if path is None and os.environ.get("FEDLAB_REQUIRE_BROWSER") == "1":
        pytest.fail("no Chromium; install it or name one in FEDLAB_CHROMIUM")
    if path is None:
        pytest.skip("no Chromium on this machine; name one in FEDLAB_CHROMIUM")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address and gives the page; its faults gather in `page.faults`."""
    contexts = []

    def open_one(address: str, *, width: int = 1280, scheme: str = "light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.faults = faults = []

        def guard(route):
            if route.request.url.startswith(("file:", "data:", "blob:")):
                route.continue_()
            else:
                faults.append(f"request to another machine: {route.request.url}")
                route.abort()

        context.route("**/*", guard)
        page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
        page.on(
            "console",
            lambda said: faults.append(f"console: {said.text}") if said.type == "error" else None,
        )
        page.goto(address)
        page.wait_for_function(
            "async () => { await window.MathJax?.startup?.promise; return true; }"
        )
        return page

    yield open_one
    for context in contexts:
        context.close()
