"""Hosts that allow a page little: the headers that `book/run.md` asks for are enough."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers import with_all_cases
from visit import look, settles

ROOT = Path(__file__).parents[2]
PAGE = "notebooks/04_cgsv.html"

pytestmark = [pytest.mark.browser, with_all_cases("only what a host's manual needs")]


@contextmanager
def host(site: Path, policy: str) -> Iterator[str]:
    """Address of the site on a host that sends this policy."""

    class Strict(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def log_message(self, *words: object) -> None:
            """Nothing: the tests print what they see."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Strict, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_site_works_under_the_policy_that_its_page_names(browser, site):
    text = (ROOT / "book" / "run.md").read_text(encoding="utf-8")
    told = re.search(r"Content-Security-Policy: ([^`\n]+)", text)
    assert told, "book/run.md names no policy"
    with host(site, told[1]) as address, closing(browser.new_page()) as page:
        page.goto(f"{address}/{PAGE}")
        page.wait_for_function("async () => (await window.MathJax?.startup?.promise, true)")
        assert page.evaluate(look("formulas")) == []
        assert settles(page, look("drawn"))
        assert page.get_by_text("could not start").count() == 0
