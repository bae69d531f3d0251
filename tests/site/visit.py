"""One visit to a page of the site: at six widths, in the dark, by axe at a desk and on a phone.

`visit` gives every fault that a reader, a phone or a screen reader would meet, one line each. The
page is opened once and unfolded; its colours follow the system, its width the window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from boxes import HEIGHT, WIDTHS, boxes
from playwright.sync_api import Error, Page

DESK, PHONE = 1280, 390
# every scheme and every width meets all rules once; contrast alone hangs on both together
LOOKS = {
    ("light", PHONE): True,
    ("dark", PHONE): False,
    ("dark", DESK): True,
    ("light", DESK): False,
}
TURNS = [*(("light", width) for width in WIDTHS), ("dark", PHONE), ("dark", DESK)]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
EVERY_RULE = {"type": "tag", "values": TAGS}
CONTRAST = {"type": "rule", "values": ["color-contrast"]}
PAGE_BYTES = 2_750_000  # chapter 5 shows twelve pictures as SVG; the others stay below 2.4 MB
PROGRAM_BYTES = 24_000  # see tests/unit/test_widgets.py
HOST = "afm-host.js"
PATIENCE = 5_000  # ms

NOT_OURS = [[".search-button-field"]]  # the theme's: its label is not its visible text
RULES = [
    {"id": "color-contrast", "selector": "[data-contrast]"},  # see MARK
    # docutils gives every reference this role: deprecated, yet read as an item of the list it is in
    {"id": "aria-deprecated-role", "selector": "[role]:not(.citation[role=doc-biblioentry])"},
    {"id": "aria-required-children", "selector": "[role]:not(.citation-list[role=list])"},
]

IMAGES = """() => [...document.querySelectorAll("article img")].filter(i => !i.naturalWidth)
  .map(i => `image missing: ${i.src}`)"""

FORMULAS = r"""() => {
  const all = [...document.querySelectorAll("article .math")], found = [];
  const drawn = all.filter(e => e.querySelector("mjx-container")).length;
  if (drawn < all.length) found.push(`${all.length} formulas, ${drawn} of them drawn`);
  for (const e of document.querySelectorAll("mjx-merror")) {
    found.push(`formula error: ${e.innerText}`);
  }
  for (const e of document.querySelectorAll("mjx-container:not(:has(mjx-assistive-mml math))")) {
    found.push(`formula that no screen reader reads: ${e.parentElement.outerHTML.slice(0, 90)}`);
  }
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

DRAWN = """() => [...document.querySelectorAll(
  'script[type="application/vnd.jupyter.widget-view+json"]'
)].every(view => view.nextElementSibling?.matches("div:not(:empty)"))"""

PROGRAMS = """() => [...document.querySelectorAll(
  'script[type="application/vnd.jupyter.widget-state+json"]'
)].flatMap(s => Object.values(JSON.parse(s.textContent).state).map(m => m.state._esm ?? ""))"""

UNFOLD = """() => {
  for (const e of document.querySelectorAll("article details")) e.open = true;
  const folded = document.querySelectorAll("article .toggle-hidden button.toggle-button");
  for (const e of folded) e.click();
}"""

# Formulas hold no text that axe could see, so their contrast is taken here. `light` is WCAG's
# luminance of paints laid on each other.
INK = """scheme => {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (...paints) => {
    for (const paint of paints) { brush.fillStyle = paint; brush.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...brush.getImageData(0, 0, 1, 1).data].map(x => x / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paint = e => getComputedStyle(e).backgroundColor;
  const ground = e => e ? [...ground(e.parentElement), paint(e)] : ["#fff"];
  const known = new Map();
  const contrast = e => {
    const ink = getComputedStyle(e).color, under = ground(e), key = [ink, ...under].join();
    if (!known.has(key)) {
      const [low, high] = [light(...under), light(...under, ink)].sort((a, b) => a - b);
      known.set(key, (high + 0.05) / (low + 0.05));
    }
    return known.get(key);
  };
  const found = [];
  const paper = light(...ground(document.body)), text = document.querySelector("article p");
  if ((scheme === "dark") !== (paper < 0.05)) found.push(`paper of luminance ${paper.toFixed(2)}`);
  if (text && contrast(text) < 7) found.push(`text of contrast ${contrast(text).toFixed(1)}`);
  for (const e of document.querySelectorAll("mjx-container, mjx-container [style]")) {
    if (contrast(e) < 4.5) found.push(`formula of contrast ${contrast(e).toFixed(1)}`);
  }
  for (const image of document.querySelectorAll("article div.cell_output img")) {
    if (light(...ground(image)) <= 0.9) found.push(`figure not on white paper: ${image.src}`);
    const turned = getComputedStyle(image).filter !== "none";
    if (turned !== (scheme === "dark")) found.push(`figure glares, or is turned: ${image.src}`);
  }
  return found;
}"""

# Boxes that hold more than they show. At a desk there are none; on a phone the keyboard reaches
# them and their edge fades. What explorers hold is theirs.
CUT = """desk => {
  const views = document.querySelectorAll('script[type$="widget-view+json"]');
  const explorers = [...views].map(view => view.nextElementSibling);
  const found = [];
  for (const e of document.querySelectorAll("article, article *:not(mjx-container *)")) {
    const { overflowX, maskImage } = getComputedStyle(e), scrolls = /auto|scroll/.test(overflowX);
    const needs = e.scrollWidth, has = e.clientWidth;
    if (overflowX === "visible" || has < 2 || needs <= has + 2) continue;  // italics lean out
    if (explorers.some(explorer => explorer?.contains(e))) continue;
    // A board is wider than any desk: its box scrolls by itself, by keyboard too.
    if (e.tabIndex >= 0 && scrolls && e.querySelector("table.leaderboard, table.ledger")) continue;
    const why = desk || !scrolls ? "cut" : e.tabIndex < 0 ? "scrolls, but not by keyboard"
      : maskImage === "none" ? "has no sign of more" : "";
    if (why) found.push(`${why}: ${needs} in ${has} px: ${e.outerHTML.slice(0, 120)}`);
  }
  return found;
}"""

# Most of a page's elements are parts of formulas and coloured words of code. Axe needs none of the
# former (hidden from it, or MathML) and one of each class of the latter; the rest go, formulas for
# a while, their room and text stay. Formulas that scroll remain, as the keyboard must reach them,
# and coloured ones. Axe parses every colour anew, 80,000 times on a long page: here it remembers.
THIN = """rules => {
  window.thinned = [];
  const scrolls = e => e && e.scrollWidth > e.clientWidth;
  for (const e of document.querySelectorAll("mjx-container:has(mjx-math)")) {
    if (scrolls(e) || scrolls(e.closest("div.math")) || e.querySelector("[style*=color]")) continue;
    const { width, height } = e.querySelector("mjx-math").getBoundingClientRect();
    const room = document.createElement("span");
    room.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`;
    window.thinned.push([e, ...e.childNodes]);
    e.replaceChildren(room);
  }
  const flow = e => (({ font, whiteSpace }) => font + whiteSpace)(getComputedStyle(e));
  const kept = new Set(), words = document.querySelectorAll("article :is(span, em)[class]");
  for (const e of [...words].reverse()) {  // inner ones first
    if (e.children.length || e.attributes.length > 1 || e.closest(".fedlab-widget")) continue;
    if (!e.closest("pre") && flow(e) !== flow(e.parentElement)) {  // it takes other room
      if (e.parentElement.childNodes.length > 1) continue;
      const { font, whiteSpace } = getComputedStyle(e);
      Object.assign(e.parentElement.style, { font, whiteSpace });
    }
    let kind = "";
    for (let a = e; a; a = a.parentElement) {
      kind += `${a.localName} ${a.className} ${a.style.cssText};`;
    }
    if (kept.has(kind)) e.replaceWith(...e.childNodes); else kept.add(kind);
  }
  const Colour = axe.commons.color.Color.prototype, parse = Colour.parseString, known = new Map();
  Colour.parseString = function (text) {
    if (known.has(text)) [this.r, this.g, this.b, this.alpha] = known.get(text);
    else { parse.call(this, text); known.set(text, [this.r, this.g, this.b, this.alpha]); }
    return this;
  };
  axe.configure({ rules });
}"""

WHOLE_AGAIN = "() => window.thinned.forEach(([e, ...parts]) => e.replaceChildren(...parts))"

# Contrast is a matter of style: of all texts with one ink, size, weight and ground, axe is shown
# one. A ground is every painted or placed box around the text.
MARK = """() => {
  const seen = new Set(), plain = "rgba(0, 0, 0, 0) none 1 none normal";
  let placed = 0;
  const walk = (element, ground) => {
    element.removeAttribute("data-contrast");
    const s = getComputedStyle(element);
    if (s.display === "none" || element.localName === "title") return;
    const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode];
    if (own.join(" ") !== plain) ground += `|${own}`;
    if (["absolute", "fixed", "sticky"].includes(s.position)) ground += `|placed ${placed++}`;
    if ([...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) {
      const ink = [s.color, s.webkitTextFillColor, s.textShadow, s.visibility];
      const style = [...ink, s.fontSize, s.fontWeight, ground].join(" ");
      if (!seen.has(style)) { seen.add(style); element.setAttribute("data-contrast", ""); }
    }
    for (const child of element.children) walk(child, ground);
  };
  walk(document.documentElement, "");
}"""

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

AXE = """([exclude, options]) => axe.run({ exclude }, options).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ target, html, any, all, none }) => {
    const why = [...any, ...all, ...none].map(check => check.message)[0] ?? "";
    const text = html.replace(' data-contrast=""', "").slice(0, 100);
    const line = `axe ${id}: ${target.join(" ")}: ${text}: ${why}`;
    return line.replaceAll('[data-contrast=""]', "").replace(/\\s+/g, " ");
  })))"""


def visit(page: Page) -> list[str]:
    """Every fault of a page opened by `open_page`; none for a sound one."""
    found = [*page.evaluate(IMAGES), *page.evaluate(FORMULAS), *widgets(page), *weight(page.files)]
    if not page.evaluate(HEADING):
        found.append("no heading of the page to see")
    page.evaluate(UNFOLD)
    page.evaluate(axe_program())
    page.evaluate(THIN, RULES)
    seen: dict[str, list[str]] = defaultdict(list)
    for scheme, width in TURNS:
        faults = [*wear(page, scheme, width), *boxes(page, scheme)]
        if (scheme, width) in LOOKS:
            faults += look(page, scheme, EVERY_RULE if LOOKS[scheme, width] else CONTRAST)
        for fault in dict.fromkeys(faults):
            seen[fault].append(f"{scheme} {width}")
    page.evaluate(WHOLE_AGAIN)
    found += [f"{fault} [{', '.join(looks)}]" for fault, looks in seen.items()]
    return list(dict.fromkeys([*page.faults, *found]))


def report(page: str, found: list[str], most: int = 30) -> str:
    """The faults of a page as a list to read."""
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return "\n  - ".join([f"{page}, {len(found)} faults:", *found[:most], *more])


def widgets(page: Page) -> list[str]:
    """Widgets that do not draw, and programs that weigh too much; payload does not count."""
    found = [] if settles(page, DRAWN) else ["a widget does not draw"]
    host = sum(path.stat().st_size for path in page.files if path.name == HOST)
    total = host + sum(len(text.encode()) for text in set(page.evaluate(PROGRAMS)))
    if total > PROGRAM_BYTES:
        found.append(f"widget programs of {total:,} bytes, limit {PROGRAM_BYTES:,}")
    return found


def weight(files: Iterable[Path]) -> list[str]:
    """What a first visit loads, when it is too much."""
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
    if (total := sum(sizes.values())) <= PAGE_BYTES:
        return []
    heavy = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
    names = ", ".join(f"{path.name} {sizes[path]:,}" for path in heavy)
    return [f"loads {total:,} bytes, limit {PAGE_BYTES:,}: {names}"]


def wear(page: Page, scheme: str, width: int) -> list[str]:
    """Give the page a look, as the reader's system would, and let the theme's scripts follow."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": HEIGHT})
    follows = settles(page, "s => (document.documentElement.dataset.theme ?? s) === s", scheme)
    settles(page, REACHABLE)
    page.evaluate(SETTLE)
    return [] if follows else ["does not follow the system's colour scheme"]


def look(page: Page, scheme: str, only: dict[str, object]) -> list[str]:
    """What is wrong with the page in its present look, by these rules of axe and our own."""
    page.evaluate(MARK)
    options = {"runOnly": only, "resultTypes": ["violations"], "preload": False}
    cut = page.evaluate(CUT, page.viewport_size["width"] == DESK)
    return [*cut, *page.evaluate(INK, scheme), *page.evaluate(AXE, [NOT_OURS, options])]


def settles(page: Page, condition: str, arg: object = None) -> bool:
    """Wait until a condition holds; False if it does not within the time."""
    try:
        page.wait_for_function(condition, arg=arg, timeout=PATIENCE)
    except Error:
        return False
    return True


# Axe takes a text for an icon, and does not look at it, where a canvas draws no letter of it: so it
# is with a font of bitmaps. Nothing that is written here is an icon.
LETTERS = """CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  this.fillRect(x, y, this.measureText(text).width, parseFloat(this.font));
};"""


@cache
def axe_program() -> str:
    """The program text of axe-core."""
    return f"{LETTERS}\n{Axe().axe_script}"
