"""Find a Chromium or Chrome, in which browser tests open the site and `make site` prints."""

from __future__ import annotations

import os
import shutil
import sys

NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    "microsoft-edge",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUIET = (  # it opens only files that were built here
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
ADVICE = (
    "no Chromium or Chrome here. Install one (Debian, Ubuntu: apt install chromium), or name one "
    "in FEDLAB_CHROMIUM"
)


def find() -> str | None:
    """The path of a Chromium or Chrome, or None; FEDLAB_CHROMIUM may name one."""
    named = os.path.expanduser(os.environ.get("FEDLAB_CHROMIUM", ""))
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def wanted(use: str) -> str | None:
    """`find`; if there is none, print that this use is skipped, or exit if it is required."""
    found = find()
    if found is None:
        if os.environ.get("FEDLAB_REQUIRE_BROWSER") == "1":
            sys.exit(f"{use} required by FEDLAB_REQUIRE_BROWSER: {ADVICE}")
        print(f"{use} left out: {ADVICE}", flush=True)
    return found
