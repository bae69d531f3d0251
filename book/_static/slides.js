/* A chapter as slides: the page's own headings, first sentences, steps, equations, figures, tables, explorers and
   exercises, one after another. Nothing is copied: a slide borrows its parts from the page and gives them back, so numbers
   are the page's and explorers work. Prose, code and solutions stay on the page. Works from disk. */
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article");
  const bar = document.querySelector(".article-header-buttons");
  if (!bar || !article?.querySelector(".cell")) return;
  const telling = (output) => output && (output.querySelector("img, table, script[type*='widget-view']") || output.textContent.trim().includes("\n"));

  const collect = () => {
    const slides = [];
    for (const heading of article.querySelectorAll("h1, h2, h3")) {
      const parts = [...heading.parentElement.children].filter((part) => part !== heading && part.tagName !== "SECTION");
      if (heading.closest(".admonition, .cell_output")) continue;
      const slide = (...nodes) => slides.push({ title: heading.cloneNode(true), nodes: nodes.filter(Boolean) });
      const lists = parts.filter((part) => part.matches("ul, ol"));
      slide(parts.find((part) => part.matches("p")), ...lists);
      let step = null;
      for (const part of parts) {
        if (part.matches("p") && part.firstElementChild?.matches("strong") && /^Step/.test(part.textContent)) step = part;
        else if (part.matches("div.math")) { slide(step, part); step = null; }
        else if (part.matches(".cell")) {
          const said = part.previousElementSibling, output = part.querySelector(".cell_output");
          if (telling(output)) slide(said.matches("p") && said, output);
        }
        else if (part.matches("figure, table, .pst-scrollable-table-container, .admonition, .proof") && !part.matches(".solution, .dropdown")) slide(part);
      }
    }
    return slides;
  };

  const stage = Object.assign(document.createElement("div"), { id: "slides", hidden: true });
  stage.innerHTML = `<div class="bd-article" tabindex="-1"></div><p><button type="button">Back</button> <output></output>
    <button type="button">Next</button> <button type="button">Leave</button></p>`;
  stage.setAttribute("role", "region");
  stage.setAttribute("aria-label", "Slides");
  const body = stage.firstElementChild, count = stage.querySelector("output");
  const [back, next, leave] = stage.querySelectorAll("button");
  let slides = [], at = 0, places = [];

  const giveBack = () => {
    for (const [mark, node] of places) mark.replaceWith(node);
    places = [];
    body.replaceChildren();
  };
  const show = (wanted) => {
    giveBack();
    at = Math.max(0, Math.min(wanted, slides.length - 1));
    const { title, nodes } = slides[at];
    places = nodes.map((node) => { const mark = document.createComment("on a slide"); node.replaceWith(mark); return [mark, node]; });
    body.append(title, ...nodes);
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
