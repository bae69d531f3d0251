"""A chapter's other forms, from the page that is open: its slides, and what is printed of it.

Both functions give every fault, one line each. Slides leave the page as it was; paper does not.
"""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
from PIL import Image
from playwright.sync_api import Page

import pdf

PROJECTOR = {"width": 1280, "height": 720}
MARGIN, INK = 6, 0.004  # px at the edges that stay empty; share of a slide that is not paper

# every slide in its turn, by the key of a clicker: what it counts, what leaves it, what it holds
SLIDES = """async ([count, steps]) => {
  const stage = document.querySelector("#slides > .bd-article"), found = [];
  const place = () => document.querySelector("#slides > p output").innerText;
  const texts = new Set();
  let parts = 0, drawn = 0, code = 0, aims = 0;
  for (let number = 1; number <= count; number++) {
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { left, right, top, bottom } = stage.getBoundingClientRect();
    if (place() !== `${number} of ${count}`) found.push(`slide ${number} says ${place()}`);
    for (const part of stage.querySelectorAll("p, li, pre, img, table, mjx-math, .fedlab-widget")) {
      if (!part.checkVisibility() || part.closest("mjx-assistive-mml, [hidden]")) continue;
      const box = part.getBoundingClientRect();
      const out = Math.max(left - box.left, box.right - right, top - box.top, box.bottom - bottom);
      if (box.width > 1 && out > 1) {
        found.push(`slide ${number} cuts ${part.textContent.slice(0, 60) || part.src}`);
      }
    }
    const [title, ...rest] = stage.children;
    const high = part => part.getBoundingClientRect().height;
    if (!rest.some(part => high(part) > 8)) found.push(`slide ${number} is empty`);
    const said = rest.filter(part => part.matches("p")).map(part => part.textContent.trim());
    if (/^[a-z]+ /.test(said[0])) found.push(`slide ${number} begins amid a sentence: ${said[0]}`);
    if (rest.length === said.length && said.at(-1)?.endsWith(":")) {
      found.push(`slide ${number} announces what it does not show: ${said.at(-1)}`);
    }
    const { zoom } = stage.style;
    if (zoom < 0.55) found.push(`slide ${number} is too full: zoom ${zoom}`);
    if (stage.querySelector(".math:not(:has(mjx-container)), mjx-merror")) {
      found.push(`slide ${number} has a formula that is not drawn`);
    }
    for (const image of stage.querySelectorAll("img")) {
      if (!image.naturalWidth) found.push(`slide ${number} lacks ${image.src}`);
    }
    const outer = ".cell_output, figure, .pst-scrollable-table-container, :scope > table";
    const all = [...stage.querySelectorAll(outer)];
    const pictures = all.filter(e => !e.parentElement.closest(outer));
    if (pictures.length > 1) found.push(`slide ${number} has ${pictures.length} pictures`);
    const text = stage.textContent.trim();
    if (texts.has(text)) found.push(`slide ${number} repeats another one`);
    steps = steps.filter(step => !said.some(line => line.startsWith(step)));
    texts.add(text);
    code += stage.querySelectorAll(".cell_input").length;
    aims += text.includes("You will be able to");
    parts += stage.children.length;
    drawn += stage.querySelectorAll("img, script[type*='widget-view']").length;
    const press = { key: "PageDown", bubbles: true, cancelable: true };
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", press));
  }
  if (parts <= count || drawn < 3) found.push(`${count} slides, ${parts} parts, ${drawn} figures`);
  if (!code || aims !== 1) found.push(`${code} slides with code, ${aims} with the chapter's aims`);
  if (steps.length) found.push(`slides leave out ${steps.join(" ")}`);
  return found;
}"""
STEPS = """() => [...document.querySelectorAll("article section > p > strong:first-child")]
  .map(step => step.textContent).filter(text => /^Step \\d/.test(text))"""
WHOLE = "() => document.querySelector('article.bd-article').innerText"


def slides(page: Page) -> list[str]:
    """What is cut, missing or miscounted on the slides of a chapter, and what they leave behind."""
    before, window = page.evaluate(WHOLE), page.viewport_size
    page.set_viewport_size(PROJECTOR)
    steps = page.evaluate(STEPS)
    page.get_by_role("button", name="Slides").click()
    count = int(page.locator("#slides > p output").inner_text().split()[-1])
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    found = page.evaluate(SLIDES, [count, steps])
    found += pictures(page, count)
    page.keyboard.press("Escape")
    page.set_viewport_size(window)
    found += [] if 12 <= count <= 25 else [f"{count} slides"]
    return found + (["slides leave the page another one"] if page.evaluate(WHOLE) != before else [])


def pictures(page: Page, count: int) -> list[str]:
    """Faults of slides as a projector shows them, from the last to the first: no ink, cut ink."""
    found = []
    camera = page.context.new_cdp_session(page)  # its quick way takes half of Playwright's time
    frame = page.locator("#slides > .bd-article").bounding_box()
    top, bottom = round(frame["y"]), round(frame["y"] + frame["height"])
    stage = (0, top, PROJECTOR["width"], bottom)
    for number in range(count, 0, -1):
        taken = camera.send("Page.captureScreenshot", {"optimizeForSpeed": True})
        shown = Image.open(BytesIO(base64.b64decode(taken["data"]))).convert("L").crop(stage)
        sheet = int(np.argmax(shown.histogram()))
        inked = np.asarray(shown.point([abs(grey - sheet) > 24 for grey in range(256)]), dtype=bool)
        if inked.mean() < INK:
            found.append(f"slide {number} is blank: {inked.mean():.2%} of it is not paper")
        sides = inked[:, :MARGIN], inked[:, -MARGIN:], inked[:MARGIN], inked[-1:]
        if any(side.any() for side in sides):
            found.append(f"slide {number} is cut at an edge")
        page.keyboard.press("PageUp")
    camera.detach()
    return found


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
    page.evaluate(pdf.FORMULAS)
    page.wait_for_function(pdf.FIGURES)
    page.evaluate(pdf.PREPARE.read_text(encoding="utf-8"))
    return page.evaluate(CUT)
