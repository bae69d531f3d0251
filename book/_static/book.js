/* The theme's script expects a page contents column on every page; short pages have none and it stops. */
document.addEventListener("DOMContentLoaded", () => {
  if (document.querySelector("div.bd-sidebar-secondary")) return;
  const column = document.createElement("div");
  column.className = "bd-sidebar-secondary hide";
  column.hidden = true;
  document.body.append(column);
});

/* What unfolds the pages below a page of the list is an arrow without words. */
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll(".bd-sidebar-primary .has-children > details > summary"))
    arrow.setAttribute("aria-label", `Pages below: ${arrow.parentElement.previousElementSibling.textContent}`);
});

/* By keyboard the text comes before the list of chapters, where a second skip link leads. Of the copy buttons only
   the first of a section is a stop for Tab; from there arrow keys go to the code before and after. */
document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("main-content"), sidebar = document.getElementById("pst-primary-sidebar");
  const text = main?.querySelector("article, .bd-search-container"), skip = document.querySelector("#pst-skip-link a");
  if (!text || !sidebar || !skip) return;
  main.after(sidebar);
  text.id ||= "the-text";
  sidebar.tabIndex = text.tabIndex = -1;
  skip.href = `#${text.id}`;
  skip.textContent = "Skip to the text";
  const chapters = Object.assign(document.createElement("a"), { href: "#pst-primary-sidebar", textContent: "Chapters and search" });
  chapters.addEventListener("click", (event) => {
    if (sidebar.checkVisibility({ visibilityProperty: true })) return;
    event.preventDefault();
    document.querySelector(".primary-toggle").click(); // narrow, or put away
  });
  skip.after(" ", chapters);

  const buttons = [...document.querySelectorAll("button.copybtn")], begun = new Set();
  for (const button of buttons) {
    const section = button.closest("section");
    button.tabIndex = begun.has(section) ? -1 : 0;
    begun.add(section);
    button.setAttribute("aria-label", "Copy. Arrow up and down: other code");
    button.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      let at = buttons.indexOf(button) + step;
      while (buttons[at] && !buttons[at].checkVisibility({ visibilityProperty: true })) at += step;
      buttons[at]?.focus();
    });
  }
});

/* A bookmark from when the reference was one page, such as api.html#fedlab_mini.methods.CGSV */
if (location.pathname.endsWith("/book/api.html")) {
  const path = /^#(?:module-)?(fedlab_\w+|studies)(?:\.(\w+))?(?:\.(\w+))?/;
  const [, top, below, file] = location.hash.match(path) ?? [];
  const scored = below === "gate" && ["scoring", "draws"].includes(file);
  const second = top === "fedlab_mini" && (scored || ["methods", "judge"].includes(below));
  const part = second ? "_methods" : top === "fedlab_mini" && below === "show" ? "_show" : "";
  if (top) location.replace(`${top}${part}.html${location.hash}`);
}

/* The moving picture of the landing page moves by itself, unless the reader wants less motion; its button always works. */
document.addEventListener("DOMContentLoaded", () => {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  for (const figure of document.querySelectorAll("figure.federation")) {
    const button = figure.querySelector("button");
    const set = (state) => {
      figure.dataset.state = state;
      button.firstElementChild.textContent = state === "playing" ? "Pause" : "Play";
    };
    const start = () => set(calm.matches ? "still" : "playing");
    button.addEventListener("click", () => set(figure.dataset.state === "playing" ? "paused" : "playing"));
    calm.addEventListener("change", start);
    button.hidden = false;
    start();
  }
});

/* A link to a glossary term shows the definition that the page carries with it. It stays while pointer or
   focus is on the link, or the pointer on the box; Escape puts it away. */
document.addEventListener("DOMContentLoaded", () => {
  const box = Object.assign(document.createElement("div"), { id: "term-definition", className: "term-definition", hidden: true });
  box.setAttribute("role", "tooltip");
  let shown = null, timer = 0;

  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    box.hidden = true;
  };
  const show = (link) => {
    hide();
    shown = link;
    box.textContent = link.dataset.definition;
    box.style.left = box.style.top = "0";
    box.hidden = false;
    link.setAttribute("aria-describedby", box.id);
    place(link);
    if (box.textContent.includes("\\(")) window.MathJax?.typesetPromise?.([box]).then(() => place(link));
  };
  const place = (link) => {
    const at = link.getClientRects()[0], { width, height } = box.getBoundingClientRect();
    const room = document.documentElement.clientWidth - width - 8;
    const below = at.bottom + height <= innerHeight || at.top < height;
    box.style.left = `${scrollX + Math.max(8, Math.min(at.left, room))}px`;
    box.style.top = `${scrollY + (below ? at.bottom : at.top - height)}px`;
  };
  const soon = (act, delay) => { timer = setTimeout(act, delay); };
  const term = (event) => event.target.closest?.("a[data-definition]");

  document.body.append(box);
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = term(event);
    clearTimeout(timer);
    if (link && link !== shown) soon(() => show(link), 150);
    else if (!link && !box.contains(event.target) && shown !== document.activeElement) soon(hide, 250);
  });
  document.addEventListener("focusin", (event) => { if (term(event)) show(term(event)); });
  document.addEventListener("focusout", (event) => { if (term(event) === shown) hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("pagehide", hide);
});

/* What is wider than its place scrolls sideways, by keyboard too, and its edge fades where it goes on. */
(() => {
  const BOXES = "mjx-container, .bd-article pre, div.cell_output, div.cell_output > .output, .picture, .pst-scrollable-table-container";
  const fade = (box) => {
    for (const table of box.querySelectorAll(":scope > table.fedlab-table:not(.ledger)")) { // smaller type first
      table.classList.remove("tight");
      table.classList.toggle("tight", table.offsetWidth > box.clientWidth);
    }
    const rest = box.scrollWidth - box.clientWidth, scrolls = rest > 0 && getComputedStyle(box).overflowX !== "visible";
    if (scrolls) box.tabIndex = 0;
    box.classList.toggle("more-before", scrolls && box.scrollLeft > 1);
    box.classList.toggle("more-after", scrolls && box.scrollLeft < rest - 1);
  };
  const seen = new ResizeObserver((changes) => changes.forEach((change) => fade(change.target)));
  const look = () => document.querySelectorAll(BOXES).forEach((box) => { seen.observe(box); fade(box); });
  addEventListener("load", async () => {
    for (const image of document.querySelectorAll("div.cell_output img")) {
      const box = Object.assign(document.createElement("div"), { className: "picture" });
      image.style.setProperty("--natural", `${image.naturalWidth}px`);
      image.replaceWith(box);
      box.append(image);
    }
    await window.MathJax?.startup?.promise;
    await document.fonts.ready; // letters change the width
    for (const wait of [0, 200, 1000, 3000]) setTimeout(look, wait);
  });
  addEventListener("resize", look); // no observer sees formulas within a line
  document.addEventListener("scroll", ({ target }) => target.matches?.(BOXES) && fade(target), true);
})();
