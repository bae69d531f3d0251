"""A chapter of the built site prints as a PDF. Without its own print, `make test` stays short."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import chromium
import downloads
import pdf

pytestmark = pytest.mark.browser


def test_a_chapter_prints_tagged_and_unfolded(site, browser, tmp_path):
    page = min(downloads.notebooks(site), key=lambda page: page.stat().st_size)
    target = tmp_path / "chapter.pdf"
    with ThreadPoolExecutor(1) as other:  # this thread already runs a browser's loop
        other.submit(asyncio.run, pdf.print_all(chromium.find(), [(page, target)])).result()
    printed = target.read_bytes()
    assert printed.startswith(b"%PDF-")
    assert re.search(rb"/Marked true", printed)
    assert re.search(rb"/Lang \(en\)", printed)
    assert b"file:" not in printed
    assert len(re.findall(rb"/Type /Page\b", printed)) > 5
    alternatives = re.findall(rb"/Alt \(", printed)
    text = page.read_text(encoding="utf-8")
    assert len(alternatives) > text.count('class="math notranslate')
