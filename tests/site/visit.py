"""One visit to a page of the site: at six widths, in the dark, by axe at a desk and on a phone.

`visit` gives every fault that a reader, a phone or a screen reader would meet, one line each. The
page is opened once and unfolded; its colours follow the system, its width the window.
"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, Page

DESK, PHONE, HEIGHT = 1280, 390, 900
LOOKS = [("light", DESK), ("dark", DESK), ("dark", PHONE)]
LOOKS += [("light", width) for width in (PHONE, 768, 1024, 1440, 1920)]
PAGE_BYTES = 2_750_000  # chapter 5 shows twelve pictures as SVG; the others stay below 2.4 MB
PATIENCE = 5_000  # ms

IMAGES = """() => [...document.querySelectorAll("article img")].filter(i => !i.naturalWidth)
  .map(i => `image missing: ${i.src}`)"""
FORMULAS = r"""() => {
  const bad = `article .math:not(:has(mjx-container)), mjx-merror,
    mjx-container:not(:has(mjx-assistive-mml math))`;
  const found = [...document.querySelectorAll(bad)]
    .map(e => `formula that is not drawn, or not read aloud: ${e.outerHTML.slice(0, 90)}`);
  for (const article of document.querySelectorAll("article")) {
    const copy = article.cloneNode(true);
    copy.querySelectorAll("pre, code, script, mjx-container").forEach(e => e.remove());
    for (const [hit] of copy.textContent.matchAll(/\$\$|\\\(|\\\[|\\begin\{/g)) {
      found.push(`raw formula: ${hit}`);
    }
  }
  return found;
}"""
HEADING = """() => [...document.querySelectorAll("main h1")]
  .some(h => h.checkVisibility() && h.innerText.trim())"""
DRAWN = """() => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every(view => view.nextElementSibling?.matches("div:not(:empty)"))"""
UNFOLD = """() => {
  for (const e of document.querySelectorAll("article details")) e.open = true;
  const folded = document.querySelectorAll("article .toggle-hidden button.toggle-button");
  for (const e of folded) e.click();
}"""

# The outermost boxes that leave the text's column, or hold more than they show: at a desk there are
# none, on a phone the keyboard reaches them. What explorers hold is theirs, and a board is wider
# than any desk; parts of formulas and italics lean out by a hair, and are cut by nobody.
OUTSIDE = """desk => {
  const found = [], article = document.querySelector("article");
  const needs = document.documentElement.scrollWidth, has = document.documentElement.clientWidth;
  if (needs > has) found.push(`scrolls sideways, needs ${needs} px`);
  const column = article?.getBoundingClientRect();
  const walk = (box) => {
    for (const e of box.children) {
      if (e.matches("mjx-container *, .headerlink") || !e.checkVisibility()) continue;
      const { position, overflowX } = getComputedStyle(e);
      const { left, right, width, height } = e.getBoundingClientRect();
      const out = Math.round(Math.max(column.left - left, right - column.right));
      if (position === "fixed" || e.matches(".fedlab-widget *, .fedlab-quiz *")) continue;
      if (width > 1 && height > 1 && out > 1) {
        found.push(`${out} px outside the column: ${e.outerHTML.slice(0, 90)}`);
      } else if (overflowX === "visible") {
        walk(e);
      } else if (e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 2 && (e.tabIndex < 0
        || desk && !e.querySelector("table.leaderboard, table.ledger"))) {
        found.push(`cut, or not scrolled by keyboard: ${e.outerHTML.slice(0, 90)}`);
      }
    }
  };
  if (article) walk(article);
  return found.slice(0, 3);
}"""

# Contrast of every text and formula with what is painted below it, by WCAG's luminance.
CONTRAST = """scheme => {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map(), clear = "rgba(0, 0, 0, 0)", found = new Set();
  const first = document.querySelector("article p");
  const light = (...paints) => {
    const key = paints.join();
    if (known.has(key)) return known.get(key);
    for (const paint of paints) { brush.fillStyle = paint; brush.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...brush.getImageData(0, 0, 1, 1).data].map(x => x / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    known.set(key, 0.2126 * r + 0.7152 * g + 0.0722 * b);
    return known.get(key);
  };
  const walk = (e, below) => {
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return;
    const style = getComputedStyle(e), paint = style.backgroundColor;
    const under = paint === clear ? below : [...below, paint];
    const [low, high] = [light(...under), light(...under, style.color)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize);
    const written = [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const least = e === first ? 7 : large ? 3 : 4.5;
    if ((written || e.matches("mjx-container, mjx-container [style]")) && contrast < least
      && !e.matches(":disabled, .search-button__kbd-shortcut")) {
      found.add(`contrast ${contrast.toFixed(1)}: ${e.outerHTML.slice(0, 90)}`);
    }
    if (e.matches("article .cell_output img")) {
      if (light(...under) <= 0.9) found.add(`figure not on white paper: ${e.src}`);
      const turned = style.filter !== "none";
      if (turned !== (scheme === "dark")) found.add(`figure glares, or is turned: ${e.src}`);
    }
    if (e.matches("body") && (scheme === "dark") !== (light(...under) < 0.05)) {
      found.add("paper of another scheme");
    }
    if (e.matches("svg, mjx-assistive-mml, script, style, select")) return;
    for (const child of e.children) walk(child, under);
  };
  walk(document.documentElement, ["#fff"]);
  return [...found];
}"""

# Most of a page's elements are parts of formulas and words of code; axe needs none of them.
THIN = """() => {
  for (const e of document.querySelectorAll("mjx-container")) e.replaceChildren();
  for (const e of document.querySelectorAll("article pre")) e.textContent = e.textContent;
}"""
# What is not ours: docutils gives every reference a deprecated role, read as an item of its list.
AXE = """exclude => axe.run({ exclude }, {
  runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
  rules: Object.fromEntries(["color-contrast", "aria-deprecated-role", "aria-required-children"]
    .map(rule => [rule, { enabled: false }])),
  resultTypes: ["violations"], preload: false,
}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(({ html }) => `axe ${id}: ${html.slice(0, 100)}`)))"""
THEIRS = [[".search-button-field"]]  # the theme's: its label is not its visible text

# Transitions come to their end; scrolled up, the theme's button to go there covers no text.
SETTLE = """() => {
  scrollTo({ top: 0, behavior: "instant" });
  for (const a of document.getAnimations()) try { a.finish(); } catch { /* it never ends */ }
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}"""
# 300 ms after a change of width the theme lets the keyboard reach what scrolls, by this rule.
REACHABLE = """() => [...document.querySelectorAll(
  "pre, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container"
)].every(e => e.tabIndex === 0
  || e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight)"""


def visit(page: Page) -> list[str]:
    """Every fault of a page opened by `open_page`; none for a sound one."""
    found = [*page.evaluate(IMAGES), *page.evaluate(FORMULAS), *weight(page)]
    found += [] if settles(page, DRAWN) else ["a widget does not draw"]
    found += [] if page.evaluate(HEADING) else ["no heading of the page to see"]
    page.evaluate(UNFOLD)
    for scheme, width in LOOKS:
        wear(page, scheme, width)
        faults = page.evaluate(OUTSIDE, width >= DESK)
        faults += page.evaluate(CONTRAST, scheme) if width in (DESK, PHONE) else []
        found += [f"{fault} [{scheme} {width}]" for fault in faults]
    page.evaluate(THIN)
    for width in (DESK, PHONE):
        wear(page, "light", width)
        found += [f"{fault} [{width}]" for fault in axe(page)]
    return [*page.faults, *found]


def weight(page: Page) -> list[str]:
    """What a first visit loads, when it is too much."""
    total = sum(path.stat().st_size for path in page.files if path.is_file())
    return [f"loads {total:,} bytes, limit {PAGE_BYTES:,}"] if total > PAGE_BYTES else []


def wear(page: Page, scheme: str, width: int, height: int = HEIGHT) -> None:
    """Give the page a look, as the reader's system would, and let the theme's scripts follow."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    settles(page, "s => (document.documentElement.dataset.theme ?? s) === s", scheme)
    settles(page, REACHABLE)
    page.evaluate(SETTLE)


def axe(page: Page) -> list[str]:
    """What axe finds in the page as it is; contrast apart, which is ours."""
    page.evaluate(Axe().axe_script)
    return page.evaluate(AXE, THEIRS)


def settles(page: Page, condition: str, arg: object = None) -> bool:
    """Wait until a condition holds; False if it does not within the time."""
    try:
        page.wait_for_function(condition, arg=arg, timeout=PATIENCE)
    except Error:
        return False
    return True
