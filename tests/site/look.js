// What a test asks of a page. `look(name)` in visit.py gives one of these functions to a page.

// Of every page

const images = () => [...document.querySelectorAll("article img")].filter(i => !i.naturalWidth)
  .map(i => `image missing: ${i.src}`);

const formulas = () => {
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
};

const heading = () => [...document.querySelectorAll("main h1")]
  .some(h => h.checkVisibility() && h.innerText.trim());

const drawn = () => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every(view => view.nextElementSibling?.matches("div:not(:empty)"));

const unfold = () => {
  for (const e of document.querySelectorAll("article details")) e.open = true;
  const folded = document.querySelectorAll("article .toggle-hidden button.toggle-button");
  for (const e of folded) e.click();
};

// The outermost boxes that leave the text's column, or hold more than they show: at a desk there are
// none, on a phone the keyboard reaches them. What explorers hold is theirs, and a board is wider
// than any desk; parts of formulas and italics lean out by a hair, and are cut by nobody.
const outside = desk => {
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
        || desk && !e.querySelector("table.leaderboard"))) {
        found.push(`cut, or not scrolled by keyboard: ${e.outerHTML.slice(0, 90)}`);
      }
    }
  };
  if (article) walk(article);
  return found.slice(0, 3);
};

// Contrast of every text and formula with what is painted below it, by WCAG's luminance.
const contrast = scheme => {
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
};

// Most of a page's elements are parts of formulas and words of code; axe needs none of them.
const thin = () => {
  for (const e of document.querySelectorAll("mjx-container")) e.replaceChildren();
  for (const e of document.querySelectorAll("article pre")) e.textContent = e.textContent;
};

// What is not ours: docutils gives every reference a deprecated role, read as an item of its list.
const violations = exclude => axe.run({ exclude }, {
  runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
  rules: Object.fromEntries(["color-contrast", "aria-deprecated-role", "aria-required-children"]
    .map(rule => [rule, { enabled: false }])),
  resultTypes: ["violations"], preload: false,
}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(({ html }) => `axe ${id}: ${html.slice(0, 100)}`)));

// Transitions come to their end; scrolled up, the theme's button to go there covers no text.
const settle = () => {
  scrollTo({ top: 0, behavior: "instant" });
  for (const a of document.getAnimations()) try { a.finish(); } catch { /* it never ends */ }
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())));
};

// 300 ms after a change of width the theme lets the keyboard reach what scrolls, by this rule.
const reachable = () => [...document.querySelectorAll(
  "pre, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container"
)].every(e => e.tabIndex === 0
  || e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight);

// Controls that show no ring when the keyboard reaches them; the ring of some is drawn behind them.
const withoutRing = () => {
  const ring = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const found = new Set();
  for (const e of document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")) {
    if (e.tabIndex < 0 || !e.checkVisibility({ visibilityProperty: true })) continue;
    e.focus();
    if (document.activeElement !== e || !e.matches(":focus-visible")) continue;
    if (!ring(getComputedStyle(e)) && !ring(getComputedStyle(e, "::after"))) found.add(e.outerHTML.slice(0, 90));
  }
  return [...found].slice(0, 10);
};

// Of slides and of paper

// every slide in its turn, by the key of a clicker: what it counts, what leaves it, what it holds
const slides = async count => {
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
};

const cut = () => {
  const article = document.querySelector("article"), found = [];
  const scrolls = (e) => ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX);
  const right = (e) => e.getBoundingClientRect().right;
  for (const e of article.querySelectorAll("mjx-math, pre, table, img, svg, .cell_output *")) {
    // A single pixel is for screen readers only.
    if (!e.checkVisibility() || e.clientWidth < 2 || e.closest("mjx-assistive-mml")) continue;
    let edge = right(article);
    for (let box = e.parentElement; box !== article; box = box.parentElement) {
      if (scrolls(box)) edge = Math.min(edge, right(box));
    }
    const rest = scrolls(e) ? e.scrollWidth - e.clientWidth : 0;
    if (right(e) > edge + 1 || rest > 1) found.push(`cut on paper: ${e.outerHTML.slice(0, 90)}`);
  }
  return found;
};

// Of a way by keyboard

const focused = () => {
  for (const a of document.getAnimations()) a.finish();
  const { top, height } = document.activeElement.getBoundingClientRect();
  return [document.activeElement.innerText, height > 0 && top >= 0 && top < innerHeight];
};

// Of JupyterLab

const ready = count => {
  const panel = jupyterapp.shell.currentWidget?.node;
  const texts = [...panel?.querySelectorAll(".jp-MarkdownCell .jp-MarkdownOutput") ?? []];
  return texts.length === count && texts.every(text => text.firstElementChild)
    && [...panel.querySelectorAll("img")].every(image => image.complete);
};

const seen = () => {
  const panel = jupyterapp.shell.currentWidget.node;
  const all = (name) => [...panel.querySelectorAll(name)];
  const copies = all(".jp-MarkdownOutput").map(text => text.cloneNode(true));
  const parts = copies.flatMap(copy => [...copy.querySelectorAll("pre, code, mjx-container")]);
  for (const part of parts) part.remove();
  return {
    text: copies.map(copy => copy.textContent).join(" "),
    formulas: all("mjx-container").length,
    folded: all(".jp-InputPlaceholder").length,
    bad: all("mjx-merror, .katex-error, details[open], .jp-OutputArea-output.jp-mod-error")
      .concat(all("img").filter(image => !image.naturalWidth))
      .concat(all(".jupyter-widgets-disconnected")
        .filter(e => getComputedStyle(e, "::before").content !== "none"))
      .concat(all(".jp-OutputArea-output").filter(e => e.innerText.startsWith("<Figure")))
      .map(e => e.outerHTML.slice(0, 90)),
  };
};

// Of a printed book and a hand-out

const answers = () => [...document.querySelectorAll(
  ".admonition.dropdown p:not(.admonition-title), .widget-table details"
)].filter(e => !e.closest(".exercise") && !e.querySelector("mjx-container, .math"))
  .map(e => e.textContent.replace("and?", "")).filter(text => text.length > 40);

// What no page break may cross stays below two fifths of a page, except pictures and explorers;
// what unfolds is printed at once: were it to fade in, ink would hardly show.
const paperFaults = () => [...document.querySelectorAll("article *")].filter(e => {
  const { breakInside } = getComputedStyle(e), { height } = e.getBoundingClientRect();
  let ink = 1;
  for (let box = e; box; box = box.parentElement) ink *= getComputedStyle(box).opacity;
  return height > 0 && e.matches("p, pre, td, img") && ink < 0.5
    || breakInside.startsWith("avoid") && !e.closest(".fedlab-widget") && height > 385
      && !e.matches("figure, img, figure *, .picture");
}).map(e => e.outerHTML.slice(0, 90));

// Of explorers

const readState = keys => { const board = document.querySelector(".fedlab-widget");
  const model = board.parentElement.model;
  return { state: Object.fromEntries(keys.map((key) => [key, model.get(key)])),
    shown: [...board.querySelectorAll("data[data-of]")].map((e) =>
      [e.dataset.of, e.dataset.for, e.value, e.textContent]) }; };

const setState = state => { const { model } = document.querySelector(".fedlab-widget").parentElement;
  for (const [key, value] of Object.entries(state)) model.set(key, value);
  model.save_changes(); };

const cramped = e => { const bar = innerWidth > 1000 ? 0 : // it covers the top of a phone's window
    document.querySelector(".bd-header-article").getBoundingClientRect().bottom;
  scrollBy({ top: e.getBoundingClientRect().top - bar, behavior: "instant" });
  return [
  ...[...e.querySelectorAll("input[type=range]")].filter(i => innerWidth > 1000
    && i.clientWidth < Math.round((i.max - i.min) / i.step)),
  ...[...e.querySelectorAll(".w-table")].filter(t => t.scrollWidth > t.clientWidth),
  ...[...e.querySelectorAll("input, select, button, svg, table, .w-tip, [role=status]")]
    .filter(i => { const at = i.getBoundingClientRect();
      return i.getClientRects().length && (at.top < bar - 1 || at.bottom > innerHeight + 1
        || at.width < 23.9 || i.matches("input, select, button, .w-tip") && at.height < 23.9); })
  ].map(i => i.outerHTML.slice(0, 90)); };

// Of what is kept for a reader

const passingBy = async () => {
    const first = document.querySelector(".bd-article > section > section");
    first.lastElementChild.scrollIntoView({ block: "center", behavior: "instant" });
    await new Promise(done => setTimeout(done, 1000));
    return [first.id, Object.keys(localStorage).filter(k => k.startsWith("fedlab-mini")).length];
};
