/* Makes an open page fit for paper. Run in the page, once its formulas and interactive figures are drawn. */
async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];

  // Nothing stays folded; a quiz gives way to its questions with their answers.
  for (const box of all("article details")) box.open = true;
  for (const box of all(".toggle-hidden")) box.classList.remove("toggle-hidden");
  for (const answers of all(".widget-table").filter((table) => table.querySelector("details"))) {
    const cell = answers.closest(".cell_output");
    for (let box = answers; box !== cell; box = box.parentElement) box.hidden = false;
    cell.querySelector('script[type$="widget-view+json"]').nextElementSibling.style.display = "none";
  }
  const folded = all("article details, article details p, .solution p")
    .filter((part) => !part.closest("summary") && !part.checkVisibility());
  if (folded.length) throw new Error(`stays folded: ${folded[0].outerHTML}`);

  // A screen reader gets a formula's TeX. The browser keeps a tag only if something is painted in it.
  for (const formula of window.MathJax?.startup?.document?.math ?? []) {
    const drawn = formula.typesetRoot;
    drawn.querySelector("mjx-assistive-mml")?.remove();
    drawn.querySelector("mjx-math")?.removeAttribute("aria-hidden");
    drawn.setAttribute("role", "img");
    drawn.setAttribute("aria-label", formula.math.trim());
    drawn.style.background = "rgb(255 255 255 / 1%)";
  }

  // Every coloured word of code would become a tag of its own; the most usual colour needs none.
  for (const code of all("pre")) {
    const looks = new Map(), count = {};
    for (const word of code.querySelectorAll("span:not([id])")) {
      const { color, fontWeight, fontStyle, backgroundColor } = getComputedStyle(word);
      const look = [color, fontWeight, fontStyle, backgroundColor].join();
      looks.set(word, look);
      count[look] = (count[look] ?? 0) + 1;
    }
    const usual = Object.keys(count).sort((a, b) => count[b] - count[a])[0];
    const plain = [...looks.keys()].filter((word) => looks.get(word) === usual);
    if (plain.length) code.style.color = getComputedStyle(plain[0]).color;
    for (const word of plain) word.replaceWith(...word.childNodes);
    code.normalize();
  }

  // Links to other pages would lead to files of the machine that prints.
  const here = location.href.split("#")[0];
  for (const link of all("a[href]")) {
    const there = link.href.split("#")[0];
    if (there !== here && !/^(https?|mailto):/.test(there)) link.removeAttribute("href");
  }

  // Code moves to the next page with its frame, not out of it; what is long is broken, frame and code.
  for (const frame of all("div.cell_input")) {
    const way = frame.offsetHeight < 340 ? "avoid" : "auto";
    for (const box of [frame, ...frame.querySelectorAll("div")]) box.style.breakInside = way;
  }
  for (const table of all("table.fedlab-table")) {
    if (table.offsetHeight < 340) table.style.setProperty("break-inside", "avoid", "important");
  }

  // Nothing is wider than the paper.
  await document.fonts.ready;
  for (const wide of all("div.math, table, .cell_output > *")) {
    const room = wide.parentElement.clientWidth;
    if (wide.scrollWidth > room + 1) wide.style.zoom = room / wide.scrollWidth;
    const right = (box) => box.getBoundingClientRect().right;
    const cut = () => [...wide.querySelectorAll("mjx-math")].some((formula) =>
      right(formula) > Math.min(right(wide), right(wide.parentElement), right(formula.parentElement)) + 1);
    for (let size = 95; size > 30 && cut(); size -= 5) wide.style.zoom = size / 100;
  }
}
