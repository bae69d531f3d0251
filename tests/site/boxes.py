"""Whether every visible box stands in its column, intervals on one line, and numbers in columns."""

from __future__ import annotations

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
WAYS = (OUTSIDE, BROKEN, TABLES)
# Every box of the text. In the dark none has another size or stands further left or right, so that
# what is seen in the light at all widths holds there, too. A box that has grown makes its parents
# grow, so inner ones are named.
REMEMBER = """() => {
  window.places ??= {};
  window.places[innerWidth] = [...document.querySelectorAll(
    "article, article *:not(mjx-container *)"
  )].map(e => [e, e.getBoundingClientRect()]);
}"""
CHANGED = """most => {
  const found = [], place = ({ left, width, height }) => [left, width, height];
  for (const [e, light] of window.places[innerWidth].toReversed()) {
    const was = place(light), now = place(e.getBoundingClientRect());
    if (was.every((x, k) => Math.abs(x - now[k]) < 1)) continue;
    if (found.some(([inner]) => e.contains(inner))) continue;
    found.push([e, `left, width, height ${now} px, in the light ${was}: ${e.outerHTML}`]);
  }
  return found.slice(0, most).map(([, said]) => said.slice(0, 160));
}"""


def boxes(page: Page, scheme: str) -> list[str]:
    """What stands outside, runs over, is set wrongly or is elsewhere in the dark, in this look."""
    found = [fault for way in WAYS for fault in page.evaluate(way, MOST)]
    return found + (page.evaluate(REMEMBER if scheme == "light" else CHANGED, MOST) or [])
