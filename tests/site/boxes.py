"""Whether every visible box stands in its column, intervals on one line, and numbers in columns."""

from __future__ import annotations

from collections import defaultdict

from playwright.sync_api import Page

WIDTHS = (390, 768, 1024, 1280, 1440, 1920)
HEIGHT = 900
MOST = 3  # boxes named for each look

# The outermost boxes that leave the text's column, left or right. What a box that scrolls by
# itself holds may be wider; parts of formulas lean out by a hair, and are cut by nobody.
OUTSIDE = """most => {
  const found = [], article = document.querySelector("article");
  const needs = document.documentElement.scrollWidth, has = document.documentElement.clientWidth;
  if (needs > has) found.push(`scrolls sideways, needs ${needs} px`);
  if (!article) return found;
  const column = article.getBoundingClientRect();
  const walk = (box) => {
    for (const e of box.children) {
      if (e.matches("mjx-container *, .headerlink") || !e.checkVisibility()) continue;
      const { position, overflowX } = getComputedStyle(e);
      if (position === "fixed") continue;
      const { left, right, width, height } = e.getBoundingClientRect();
      if (width > 1 && height > 1 && (left < column.left - 1 || right > column.right + 1)) {
        const out = Math.round(Math.max(column.left - left, right - column.right));
        found.push(`${out} px outside the column: ${e.outerHTML.slice(0, 90)}`);
      } else if (overflowX === "visible") walk(e);
    }
  };
  walk(article);
  return found.slice(0, most);
}"""
# Intervals that two lines share. Code and what explorers hold are laid out otherwise.
BROKEN = r"""most => {
  const found = [], article = document.querySelector("article");
  const interval = /(?:(?<![\w.,])[-+−]?[\d.,]*\d%?\s)?\[[-+−]?[\d.,]*\d%?,\s[-+−]?[\d.,]*\d%?\]/g;
  const texts = document.createTreeWalker(article ?? document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    const box = text.parentElement;
    if (!text.data.includes("[") || !box.checkVisibility()) continue;
    if (box.closest("pre, code, script, mjx-container, .fedlab-widget")) continue;
    for (const hit of text.data.matchAll(interval)) {
      const range = document.createRange();
      range.setStart(text, hit.index);
      range.setEnd(text, hit.index + hit[0].length);
      const lines = new Set([...range.getClientRects()].map(part => Math.round(part.top)));
      if (lines.size > 1) found.push(`two lines share an interval: ${hit[0]}`);
    }
  }
  return found.slice(0, most);
}"""
# Columns of numbers that stand left, and numbers that run into the next column's.
TABLES = r"""most => {
  const found = [], style = (e, name) => getComputedStyle(e)[name];
  const number = e => /^[-+−]?[\d.,]+$/.test(e?.innerText.trim());
  for (const cell of document.querySelectorAll("article .cell_output tbody td")) {
    if (!number(cell) || cell.closest(".fedlab-widget, .widget-table")) continue;
    const before = cell.previousElementSibling, rows = [...cell.closest("tbody").rows];
    const left = !/right|end/.test(style(cell, "textAlign"));
    const room = before && parseFloat(style(before, "paddingRight"))
      + parseFloat(style(cell, "paddingLeft"));
    if (left && rows.every(row => number(row.cells[cell.cellIndex]))) {
      found.push(`number stands left in its column: ${cell.innerText}`);
    }
    if (before && room < 6) found.push(`number touches its neighbour: ${cell.innerText}`);
  }
  return found.slice(0, most);
}"""
# the theme's scripts answer a change of width, and containers of a new width are laid out anew
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
WAYS = (OUTSIDE, BROKEN, TABLES)


def boxes(page: Page) -> list[str]:
    """What stands outside, with the looks in which it does; the page keeps the last look."""
    seen: dict[str, list[str]] = defaultdict(list)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.evaluate(FRAMES)
            for fault in [one for way in WAYS for one in page.evaluate(way, MOST)]:
                seen[fault].append(f"{scheme} {width}")
    return [f"{fault} [{', '.join(looks)}]" for fault, looks in seen.items()]
