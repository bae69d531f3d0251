"""A real browser on the built site, opened from disk, with every other address refused."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import matplotlib
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from visit import PATIENCE

import chromium

ROOT = Path(__file__).resolve().parents[2]
# One family for all machines, which comes with matplotlib, and one way to fit letters to pixels:
# what fits a column must not depend on the fonts and settings that somebody has.
FAMILIES = {"sans-serif": "DejaVu Sans", "system-ui": "DejaVu Sans", "sans": "DejaVu Sans"}
FAMILIES |= {"serif": "DejaVu Serif", "monospace": "DejaVu Sans Mono"}
ALIAS = """<alias binding="strong"><family>{asked}</family>
<prefer><family>{given}</family></prefer></alias>"""
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{always}</dir>{aliases}<match target="pattern">
<edit name="hintstyle" mode="append"><const>hintslight</const></edit></match></fontconfig>"""
OUTSIDE = re.compile("^(?!file:|data:|blob:)")


@pytest.fixture(scope="session")
def site() -> Path:
    """The site built from the committed outputs."""
    folder = Path(os.environ.get("FEDLAB_SITE", ROOT / "_build" / "site")).resolve()
    if not (folder / "index.html").exists():
        pytest.fail(f"no site at {folder}; build it: make site")
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    path = chromium.find()
    if path is None:
        pytest.skip(chromium.ADVICE)  # tools/check.py says so first, or fails
    fonts = tmp_path_factory.mktemp("fonts") / "fonts.conf"
    always = Path(matplotlib.get_data_path(), "fonts", "ttf")
    aliases = "".join(ALIAS.format(asked=asked, given=given) for asked, given in FAMILIES.items())
    fonts.write_text(FONTS.format(always=always, aliases=aliases), encoding="utf-8")
    with sync_playwright() as driver:
        env = os.environ | {"FONTCONFIG_FILE": str(fonts)}
        started = driver.chromium.launch(executable_path=path, args=chromium.QUIET, env=env)
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address and gives the page, its scripts done.

    Its faults gather in `page.faults`, the files that it loads in `page.files`.
    """
    used = []

    def open_one(address: str, *, width: int = 1280):
        page = watched_page(browser)
        used.append(page.context)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(address)
        page.wait_for_function(
            "async () => { await window.MathJax?.startup?.promise; return true; }"
        )
        return page

    yield open_one
    for context in used:
        context.close()


def watched_page(browser: Browser) -> Page:
    """A page that may not leave this machine, and that tells its faults and files."""
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.faults, page.files = [], set()

    def refuse(route):
        page.faults.append(f"request to another machine: {route.request.url}")
        route.abort()

    def note(request):
        if request.url.startswith("file:"):
            page.files.add(Path(url2pathname(urlsplit(request.url).path)))

    def hear(said):
        if said.type == "error":
            page.faults.append(f"console: {said.text} ({said.location['url']})")

    context.route(OUTSIDE, refuse)
    page.on("request", note)
    page.on("pageerror", lambda error: page.faults.append(f"script error: {error}"))
    page.on("console", hear)
    return page
