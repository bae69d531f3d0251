"""A chapter's other forms, from the page that is open: its slides, and what is printed of it.

Both functions give every fault, one line each. Slides leave the page as it was; paper does not.
"""

from __future__ import annotations

from playwright.sync_api import Page

import pdf

# every slide in its turn, by the key of a clicker: what it counts, what leaves it, what it holds
SLIDES = """async count => {
  const stage = document.querySelector("#slides > .bd-article"), found = [], texts = new Set();
  for (let number = 1; number <= count; number++) {
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { left, right, top, bottom } = stage.getBoundingClientRect();
    const said = document.querySelector("#slides > p output").innerText;
    if (said !== `${number} of ${count}`) found.push(`slide ${number} says ${said}`);
    for (const part of stage.querySelectorAll("p, li, pre, img, table, mjx-math, .fedlab-widget")) {
      if (!part.checkVisibility() || part.closest("mjx-assistive-mml, [hidden]")) continue;
      const box = part.getBoundingClientRect();
      const out = Math.max(left - box.left, box.right - right, top - box.top, box.bottom - bottom);
      if (box.width > 1 && out > 1) {
        found.push(`slide ${number} cuts ${part.textContent.slice(0, 60) || part.src}`);
      }
    }
    const parts = [...stage.children].slice(1);
    if (!parts.some(part => part.clientHeight > 8)) found.push(`slide ${number} is empty`);
    if (stage.style.zoom < 0.55) found.push(`slide ${number} is too full: ${stage.style.zoom}`);
    if (stage.querySelector(".math:not(:has(mjx-container)), mjx-merror")) {
      found.push(`slide ${number} has a formula that is not drawn`);
    }
    texts.add(stage.textContent.trim());
    const press = { key: "PageDown", bubbles: true, cancelable: true };
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", press));
  }
  return found.concat(texts.size < count ? ["a slide repeats another one"] : []);
}"""
WHOLE = "() => document.querySelector('article.bd-article').innerText"


def slides(page: Page) -> list[str]:
    """What is cut, missing or miscounted on the slides of a chapter, and what they leave behind."""
    before, window = page.evaluate(WHOLE), page.viewport_size
    page.set_viewport_size({"width": 1280, "height": 720})  # a projector
    page.get_by_role("button", name="Slides").click()
    count = int(page.locator("#slides > p output").inner_text().split()[-1])
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    found = page.evaluate(SLIDES, count)
    page.keyboard.press("Escape")
    page.set_viewport_size(window)
    found += [] if 12 <= count <= 25 else [f"{count} slides"]
    return found + (["slides leave the page another one"] if page.evaluate(WHOLE) != before else [])


CUT = """() => {
  const article = document.querySelector("article"), found = [];
  const scrolls = (e) => ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX);
  const right = (e) => e.getBoundingClientRect().right;
  for (const e of article.querySelectorAll("mjx-math, pre, table, img, svg, .cell_output *")) {
    if (!e.checkVisibility() || !e.clientWidth || e.closest("mjx-assistive-mml")) continue;
    let edge = right(article);
    for (let box = e.parentElement; box !== article; box = box.parentElement) {
      if (scrolls(box)) edge = Math.min(edge, right(box));
    }
    const rest = scrolls(e) ? e.scrollWidth - e.clientWidth : 0;
    if (right(e) > edge + 1 || rest > 1) found.push(`cut on paper: ${e.outerHTML.slice(0, 90)}`);
  }
  return found;
}"""


def paper(page: Page) -> list[str]:
    """What is cut on paper, of a page as it is on a screen."""
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size(pdf.PAPER)
    page.add_style_tag(path=pdf.STYLE)
    page.evaluate(pdf.PREPARE.read_text(encoding="utf-8"))
    return page.evaluate(CUT)
