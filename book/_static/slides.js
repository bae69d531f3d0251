/* A chapter as slides, at most 25: its question, its aims, then for each section one idea with one picture: a figure, a
   table, an explorer, or a step with its equation; steps without one share a slide. Parts are borrowed from the page and given back, so numbers are the
   page's and explorers work; only a long paragraph is copied, as far as its first sentences. A picture gets all the room
   that its slide has. N shows what the page says beside the picture, for who speaks. Works from disk. */
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article");
  const bar = document.querySelector(".article-header-buttons");
  if (!bar || !article?.querySelector(".cell")) return;
  const MOST = 25, SHORT = 240, LINES = 9, LEAST = 0.75;
  const EXPLORER = "script[type*='widget-view']", PICTURE = `img, table, svg.w-chart, ${EXPLORER}`, LEFT_OUT = /^[\d. ]*(Quiz|References)/;
  const words = (node) => node.textContent.trim();

  /* A paragraph that goes on after a formula, without the rest of that sentence; null if it is no more. */
  const whole = (paragraph) => {
    const first = paragraph?.firstChild;
    if (first?.nodeType !== 3 || !/^\s*[a-z]/.test(first.data)) return paragraph;
    const copy = paragraph.cloneNode(true);
    for (const node of [...copy.childNodes]) {
      const end = node.nodeType === 3 ? node.data.search(/[.?!]\s/) : -1;
      if (end < 0) { node.remove(); continue; }
      node.data = node.data.slice(end + 1).trimStart();
      return copy;
    }
    return null;
  };
  /* The first sentences of a paragraph: all of a short one. */
  const begin = (text) => {
    const paragraph = whole(text);
    if (!paragraph || words(paragraph).length <= SHORT * 1.4) return paragraph;
    const copy = paragraph.cloneNode(true);
    let length = 0, full = false;
    for (const node of [...copy.childNodes]) {
      if (full) { node.remove(); continue; }
      const end = node.nodeType === 3 ? node.data.slice(Math.max(0, SHORT / 2 - length)).search(/[.?!](\s|$)/) : -1;
      const at = Math.max(0, SHORT / 2 - length) + end + 1;
      if (end >= 0 && length + at >= SHORT / 2) { node.data = node.data.slice(0, at); full = true; }
      length += node.textContent.length;
    }
    return full ? copy : paragraph;
  };
  /* A cell's output, behind its code if that stands open and is short; an explorer needs the room itself. */
  const code = (part) => {
    const input = part.querySelector(":scope > .cell_input");
    return input && words(input).split("\n").length <= LINES ? input : null;
  };
  const cell = (part) => [part.querySelector(EXPLORER) ? null : code(part), part.querySelector(".cell_output")];
  /* What a section without a picture shows below its first paragraph: what follows it. */
  const after = (text) => {
    const below = [...text?.parentElement.children ?? []].filter((part) => text.compareDocumentPosition(part) & 4);
    const best = below.find((part) => part.matches("div.math, ul, ol"));
    if (best) return [best];
    const next = below.find((part) => part.matches("p") ? whole(part) && !words(part).endsWith(":")
      : part.matches(".cell") && cell(part).some(Boolean));
    return !next ? [] : next.matches("p") ? [begin(next)] : cell(next);
  };
  const near = (part, way) => {
    for (let other = part[way]; other; other = other[way]) {
      if (other.matches("p")) return other;
      if (other.matches(".cell, h1, h2, h3, section")) return null;
    }
    return null;
  };

  const collect = () => {
    const found = [];
    for (const heading of article.querySelectorAll("h1, h2, h3")) {
      if (heading.closest(".admonition, .cell_output") || LEFT_OUT.test(words(heading))) continue;
      const parts = [...heading.parentElement.children].filter((part) => part !== heading && part.tagName !== "SECTION");
      // worth: 0 stands always, larger numbers give way first
      const slide = (worth, notes, ...nodes) => {
        const kept = nodes.filter(Boolean);
        if (kept.length) found.push({ worth, title: heading.cloneNode(true), nodes: kept, notes });
      };
      const texts = parts.filter((part) => part.matches("p"));
      let step = null, plain = [], pictures = 0, steps = 0;
      if (heading.tagName === "H1") {
        slide(0, null, begin(texts[0]), parts.find((part) => part.matches("figure")));
        for (const text of texts.slice(1)) if (text.querySelector("strong")?.textContent.startsWith("You will")) slide(0, null, text);
        pictures = 1;
      } else if (/^[\d. ]*Summary/.test(words(heading))) slide(0, null, parts.find((part) => part.matches("ul, ol")) ?? begin(texts[0]));
      else if (/^[\d. ]*Exercises/.test(words(heading))) {
        slide(0, null, parts.find((part) => part.matches(".exercise")));
        continue;
      }
      const used = new Set(found.flatMap(({ nodes }) => nodes));
      const said = (part) => { const text = near(part, "previousElementSibling"); return !text || used.has(text) ? null : (used.add(text), begin(text)); };
      const tell = () => { // steps without an equation: two on a slide, or one with its code
        const left = plain.filter((one) => !used.has(one)), below = left.length === 1 ? left[0].nextElementSibling : null;
        for (const one of left) used.add(one);
        slide(1.5 + steps++ / 100, left.find((one) => begin(one) !== one), ...left.map(begin), ...below?.matches(".cell") && !below.querySelector(PICTURE) ? cell(below) : []);
        plain = [];
      };
      for (const part of parts) {
        if (used.has(part)) continue;
        if (part.matches("p") && part.firstElementChild?.matches("strong") && /^Step/.test(words(part))) {
          if (step) plain.push(step);
          if (plain.length > 1) tell();
          step = part;
        } else if (step && !used.has(step) && (part.matches("div.math") || part.matches(".cell") && words(step).endsWith(":") && cell(part).some(Boolean))) {
          tell();
          slide(1.5 + steps++ / 100, near(part, "nextElementSibling"), begin(step), ...(part.matches("div.math") ? [part] : cell(part)));
          used.add(step);
          step = null;
        } else if (part.matches(".cell") && part.querySelector(".cell_output")?.querySelector(PICTURE)) {
          const explorer = part.querySelector(EXPLORER);
          slide(explorer ? 0 : 1 + pictures++, near(part, "nextElementSibling"), said(part), ...cell(part));
        } else if (part.matches("figure, table, .pst-scrollable-table-container")) slide(1 + pictures++, near(part, "nextElementSibling"), said(part), part);
      }
      if (step) plain.push(step);
      tell();
      if (!found.some(({ title }) => words(title) === words(heading))) {
        const part = heading.parentElement.querySelector(":scope > section") && !parts.some((one) => one.matches(".cell, div.math"));
        if (!part) slide(4, null, begin(texts[0]), ...after(texts[0]));
      }
    }
    const kept = new Set([...found].sort((a, b) => a.worth - b.worth).slice(0, MOST));
    return found.filter((slide) => kept.has(slide));
  };

  const stage = Object.assign(document.createElement("div"), { id: "slides", hidden: true });
  stage.innerHTML = `<div class="bd-article" tabindex="-1"></div><p><button type="button">Back</button> <output></output>
    <button type="button">Next</button> <button type="button">Leave</button></p>`;
  stage.setAttribute("role", "region");
  stage.setAttribute("aria-label", "Slides");
  const body = stage.firstElementChild, count = stage.querySelector("output");
  const [back, next, leave] = stage.querySelectorAll("button");
  let slides = [], at = 0, places = [], grown = [], speaking = false;

  /* All of a slide is in its frame. What is too much gives up its code first, then its size. */
  const fits = () => body.scrollHeight <= body.clientHeight + 1 && body.scrollWidth <= body.clientWidth + 1;
  const shrink = (least) => {
    for (let zoom = Number(body.style.zoom); !fits() && zoom > least; ) body.style.zoom = zoom = Math.max(least, zoom - 0.03);
    return fits();
  };
  const wear = (node, name, value) => {
    grown.push([node, name, node.style.getPropertyValue(name), node.style.getPropertyPriority(name)]);
    node.style.setProperty(name, value, "important");
  };
  /* The picture grows into what room is left, a table up to the size of the text. */
  const grow = () => {
    const image = body.querySelector(":is(figure, .cell_output) img"), table = body.querySelector("table:not(.fedlab-widget table)");
    const picture = image ?? table, { width, height } = picture?.getBoundingClientRect() ?? {};
    if (!width) return;
    const column = body.clientWidth - 2 * parseFloat(getComputedStyle(body).paddingLeft), before = grown.length;
    if (image) for (const name of ["max-width", "max-height", "min-height"]) wear(image, name, name === "min-height" ? 0 : "none");
    for (let times = image ? Math.min(3, column * Number(body.style.zoom) / width) : 1.5; times > 1; times -= 0.05) {
      if (image) wear(image, "width", `${width * times / body.style.zoom}px`);
      else wear(table, "zoom", times);
      const box = picture.parentElement;
      if (fits() && box.scrollWidth <= box.clientWidth + 1) return;
      restore(grown.length - 1);
    }
    restore(before);
  };
  const restore = (count) => {
    for (const [node, name, value, priority] of grown.splice(count).reverse()) node.style.setProperty(name, value, priority);
  };
  const narrow = () => { // formulas that are wider than their column
    for (const math of body.querySelectorAll("div.math")) {
      const drawn = math.querySelector("mjx-math"), wide = () => drawn.getBoundingClientRect().left < math.getBoundingClientRect().left
        || math.scrollWidth > math.clientWidth + 1;
      for (let times = 0.95; drawn && wide() && times > 0.4; times -= 0.05) wear(drawn.closest("mjx-container"), "zoom", times);
    }
  };
  const settle = () => {
    restore(0);
    body.classList.remove("no-code");
    const drawn = body.querySelector(":is(figure, .cell_output) img"); // a tall one stands beside its text
    body.classList.toggle("beside", drawn?.naturalHeight > 0.85 * drawn?.naturalWidth && body.children.length > 2);
    body.style.zoom = 1;
    narrow();
    if (!shrink(LEAST) && body.querySelector(".cell_input") && body.querySelector(PICTURE)) {
      body.classList.add("no-code");
      body.style.zoom = 1;
    }
    shrink(0.4);
    if (fits()) grow();
  };
  const watch = new ResizeObserver(() => { if (!stage.hidden && !fits()) shrink(0.4); }); // explorers are drawn later

  const giveBack = () => {
    for (const [mark, node] of places) mark.replaceWith(node);
    places = [];
    restore(0);
    watch.disconnect();
    body.replaceChildren();
  };
  const borrow = (nodes) => {
    for (const node of nodes.filter((one) => one.isConnected)) {
      const mark = document.createComment("on a slide");
      node.replaceWith(mark);
      places.push([mark, node]);
    }
    return nodes;
  };
  const show = (wanted) => {
    giveBack();
    at = Math.max(0, Math.min(wanted, slides.length - 1));
    const { title, nodes, notes } = slides[at];
    body.append(title, ...borrow(nodes));
    if (speaking) body.append(Object.assign(document.createElement("aside"), { innerHTML: notes?.innerHTML ?? "No note: the page shows no sentence here." }));
    body.classList.toggle("explored", nodes.some((node) => node.querySelector(EXPLORER)));
    settle();
    for (const node of body.children) watch.observe(node);
    count.textContent = `${at + 1} of ${slides.length}`;
    [back.disabled, next.disabled] = [at === 0, at === slides.length - 1];
    history.replaceState(null, "", `#slides-${at + 1}`);
    body.focus();
  };
  const start = (first) => {
    if (!stage.hidden) return show(first);
    slides = collect();
    stage.hidden = false;
    document.body.classList.add("on-stage");
    show(first);
  };
  const stop = () => {
    const heading = slides[at].title.textContent;
    giveBack();
    stage.hidden = true;
    document.body.classList.remove("on-stage");
    history.replaceState(null, "", location.pathname + location.search);
    [...article.querySelectorAll("h1, h2, h3")].find((one) => one.textContent === heading)?.scrollIntoView();
    button.focus();
  };

  /* On paper each slide begins a page; then the one that was shown is there again. */
  window.addEventListener("beforeprint", () => {
    if (stage.hidden) return;
    giveBack();
    body.className = "bd-article";
    body.style.zoom = 1;
    for (const { title, nodes } of slides) {
      const sheet = Object.assign(document.createElement("div"), { className: "sheet" });
      body.append(sheet);
      sheet.append(title, ...borrow(nodes));
    }
  });
  window.addEventListener("afterprint", () => { if (!stage.hidden) show(at); });

  const button = Object.assign(document.createElement("button"), { type: "button", className: "btn", title: "Slides", textContent: "Slides" });
  button.addEventListener("click", () => start(0));
  back.addEventListener("click", () => show(at - 1));
  next.addEventListener("click", () => show(at + 1));
  leave.addEventListener("click", stop);
  const STEPS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };
  document.addEventListener("keydown", (event) => {
    if (stage.hidden || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") stop();
    else if (event.key === "n") { speaking = !speaking; show(at); }
    else if (event.key in STEPS && !event.target.closest("input, select, textarea, [role=slider], .jupyter-widgets")) {
      event.preventDefault();
      show(at + STEPS[event.key]);
    }
  });
  bar.prepend(button);
  document.body.append(stage);
  const asked = /^#slides(?:-(\d+))?$/.exec(location.hash);
  if (asked) (window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => start((asked[1] ?? 1) - 1));
});
