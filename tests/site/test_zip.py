"""The site as a zip, which a class without a network unpacks: it works from there, too."""

from __future__ import annotations

import zipfile

import pytest
from visit import look, settles

import downloads

pytestmark = pytest.mark.browser


def test_the_zip_works_wherever_it_is_unpacked(site, open_page, tmp_path) -> None:
    packed, room = tmp_path / "site.zip", tmp_path / "week 2, #1 (été)"
    downloads.write_zip(site, packed)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(room)
    front = room / downloads.NAME / "index.html"
    page = open_page(front.as_uri())
    page.locator("article a[href*='04_cgsv']").first.click()
    page.wait_for_url("**/04_cgsv.html")
    page.wait_for_function("async () => { await window.MathJax.startup.promise; return true; }")
    assert page.locator("mjx-container").count() > 50
    assert settles(page, look("drawn"))
    assert [*page.evaluate(look("images")), *page.faults] == []
    page.goto(f"{front.parent.joinpath('search.html').as_uri()}?q=temperature")
    page.locator("#search-results li").first.wait_for()
    assert all(path.is_relative_to(front.parent) for path in page.files)
