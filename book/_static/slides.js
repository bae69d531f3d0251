/* A chapter as slides, at most 25: its question, its aims, then for each section one idea with one picture: a figure, a
   table, an explorer, or a step with its equation. Parts are borrowed from the page and given back, so numbers are the
   page's and explorers work; only a long paragraph is copied, as far as its first sentences. N shows what the page says
   beside the picture, for who speaks. Works from disk. */
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article");
  const bar = document.querySelector(".article-header-buttons");
  if (!bar || !article?.querySelector(".cell")) return;
  const MOST = 25, SHORT = 240, LINES = 9;
  const PICTURE = "img, table, svg.w-chart, script[type*='widget-view']", LEFT_OUT = /^[\d. ]*(Quiz|References)/;
  const words = (node) => node.textContent.trim();

  /* The first sentences of a paragraph: all of a short one. */
  const begin = (paragraph) => {
    if (!paragraph || words(paragraph).length <= SHORT * 1.4) return paragraph;
    const copy = paragraph.cloneNode(true);
    let length = 0, full = false;
    for (const node of [...copy.childNodes]) {
      if (full) { node.remove(); continue; }
      const end = node.nodeType === 3 ? node.data.slice(Math.max(0, SHORT / 2 - length)).search(/[.?!:](\s|$)/) : -1;
      const at = Math.max(0, SHORT / 2 - length) + end + 1;
      if (end >= 0 && length + at >= SHORT / 2) { node.data = node.data.slice(0, at); full = true; }
      length += node.textContent.length;
    }
    return full ? copy : paragraph;
  };
  /* A cell's output, behind its code if that stands open and is short. */
  const cell = (part) => {
    const output = part.querySelector(".cell_output"), input = part.querySelector(":scope > .cell_input");
    const lines = input ? words(input).split("\n").length : 99;
    return lines <= LINES ? [input, output] : [output];
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
      let step = null, pictures = 0, steps = 0;
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
      for (const part of parts) {
        if (used.has(part)) continue;
        if (part.matches("p") && part.firstElementChild?.matches("strong") && /^Step/.test(words(part))) step = part;
        else if (part.matches("div.math") && step && !used.has(step)) {
          slide(3 + steps++ / 10, near(part, "nextElementSibling"), begin(step), part);
          used.add(step);
          step = null;
        } else if (part.matches(".cell") && part.querySelector(".cell_output")?.querySelector(PICTURE)) {
          const explorer = part.querySelector("script[type*='widget-view']");
          slide(explorer ? 0 : 1 + pictures++, near(part, "nextElementSibling"), said(part), ...cell(part));
        } else if (part.matches("figure, table, .pst-scrollable-table-container")) slide(1 + pictures++, near(part, "nextElementSibling"), said(part), part);
      }
      if (!found.some(({ title }) => words(title) === words(heading))) {
        const shown = parts.find((part) => part.matches(".cell") && part.querySelector(".cell_output")?.textContent.trim());
        slide(4, null, begin(texts[0]), ...(shown ? cell(shown) : [parts.find((part) => part.matches("div.math, ul, ol"))]));
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
  let slides = [], at = 0, places = [], speaking = false;

  const giveBack = () => {
    for (const [mark, node] of places) mark.replaceWith(node);
    places = [];
    body.replaceChildren();
  };
  const show = (wanted) => {
    giveBack();
    at = Math.max(0, Math.min(wanted, slides.length - 1));
    const { title, nodes, notes } = slides[at];
    places = nodes.filter((node) => node.isConnected).map((node) => { const mark = document.createComment("on a slide"); node.replaceWith(mark); return [mark, node]; });
    body.append(title, ...nodes);
    if (speaking) body.append(Object.assign(document.createElement("aside"), { innerHTML: notes?.innerHTML ?? "No note: the page shows no sentence here." }));
    body.style.zoom = 1;
    body.style.zoom = Math.max(0.5, Math.min(1, body.clientHeight / body.scrollHeight, body.clientWidth / body.scrollWidth));
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
