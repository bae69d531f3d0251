"""Find a Chromium or Chrome: the browser tests open the site in it, `make site` prints with it."""

from __future__ import annotations

import os
import shutil

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    "microsoft-edge",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUIET = (  # it opens files that were built here, and calls nobody
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)


def find() -> str | None:
    """Path of a Chromium or Chrome on this machine, or None; FEDLAB_CHROMIUM names one."""
    named = os.environ.get("FEDLAB_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def is_required() -> bool:
    """True where a missing browser is a fault: in CI, and where the site is published."""
    return os.environ.get("FEDLAB_REQUIRE_BROWSER") == "1"
