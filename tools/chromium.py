"""Find a Chromium or Chrome: the browser tests open the site in it, `make site` prints with it."""

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
QUIET = (  # it opens files that were built here, and calls nobody
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
ADVICE = (
    "no Chromium or Chrome here. Install one (Debian, Ubuntu: apt install chromium), or name one "
    "in FEDLAB_CHROMIUM"
)


def find() -> str | None:
    """Path of a Chromium or Chrome on this machine, or None; FEDLAB_CHROMIUM names one."""
    named = os.path.expanduser(os.environ.get("FEDLAB_CHROMIUM", ""))
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def wanted(use: str) -> str | None:
    """`find`; where there is none, say that this use is left out, or exit if one is required."""
    found = find()
    if found is None:
        if os.environ.get("FEDLAB_REQUIRE_BROWSER") == "1":
            sys.exit(f"{use} required by FEDLAB_REQUIRE_BROWSER: {ADVICE}")
        print(f"{use} left out: {ADVICE}", flush=True)
    return found
