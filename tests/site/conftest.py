"""A real browser on the built site, opened from disk, with every other address refused."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from playwright.sync_api import sync_playwright

import chromium

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = re.compile("^(?!file:|data:|blob:)")


@pytest.fixture(scope="session")
def site() -> Path:
    """The site built from the committed outputs."""
    folder = Path(os.environ.get("FEDLAB_SITE", ROOT / "_build" / "site")).resolve()
    if not (folder / "index.html").exists():
        pytest.fail(f"no site at {folder}; build it: make site")
    return folder


@pytest.fixture(scope="session")
def browser():
    path = chromium.find()
    if path is None and chromium.is_required():
        pytest.fail("no Chromium; install it or name one in FEDLAB_CHROMIUM")
    if path is None:
        pytest.skip("no Chromium on this machine; name one in FEDLAB_CHROMIUM")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=chromium.QUIET)
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address and gives the page, its scripts done.

    Its faults gather in `page.faults`, the files that it loads in `page.files`.
    """
    contexts = []

    def open_one(address: str, *, width: int = 1280, scheme: str = "light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.faults, page.files = faults, files = [], set()

        def refuse(route):
            faults.append(f"request to another machine: {route.request.url}")
            route.abort()

        def note(request):
            if request.url.startswith("file:"):
                files.add(Path(url2pathname(urlsplit(request.url).path)))

        def hear(said):
            if said.type == "error":
                where = said.location["url"]
                faults.append(f"console: {said.text}" + (f" ({where})" if where else ""))

        context.route(OUTSIDE, refuse)
        page.on("request", note)
        page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
        page.on("console", hear)
        page.goto(address)
        page.wait_for_function(
            "async () => { await window.MathJax?.startup?.promise; return true; }"
        )
        return page

    yield open_one
    for context in contexts:
        context.close()
