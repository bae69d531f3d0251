"""A chapter's other forms, from the page that is open: its slides, and what is printed of it.

Both functions give every fault, one line each. Slides leave the page as it was; paper does not.
"""

from __future__ import annotations

from playwright.sync_api import Page
from visit import look

import pdf

WHOLE = "() => document.querySelector('article.bd-article').innerText"


def slides(page: Page) -> list[str]:
    """What is cut, missing or miscounted on the slides of a chapter, and what they leave behind."""
    before, window = page.evaluate(WHOLE), page.viewport_size
    page.set_viewport_size({"width": 1280, "height": 720})  # a projector
    page.get_by_role("button", name="Slides").click()
    count = int(page.locator("#slides > p output").inner_text().split()[-1])
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    found = page.evaluate(look("slides"), count)
    page.keyboard.press("Escape")
    page.set_viewport_size(window)
    found += [] if 12 <= count <= 25 else [f"{count} slides"]
    return found + (["slides leave the page another one"] if page.evaluate(WHOLE) != before else [])


def paper(page: Page) -> list[str]:
    """What is cut on paper, of a page as it is on a screen."""
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size(pdf.PAPER)
    page.add_style_tag(path=pdf.STYLE)
    page.evaluate(pdf.PREPARE.read_text(encoding="utf-8"))
    return page.evaluate(look("cut"))
