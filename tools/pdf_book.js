/* Chapters as one book. `gather` runs in each prepared page, `bind` in one of them with what was gathered. */
({
  /* Where links to other pages lead, noted before they are taken away for paper. */
  note() {
    const here = location.href.split("#")[0], stem = (address) => address.split("/").pop().replace(/\.html$/, "");
    for (const link of document.querySelectorAll("article a[href]")) {
      const [there, hash] = link.href.split("#");
      if (there.startsWith("file:") && there.endsWith(".html")) link.dataset.book = `${stem(there)}--${hash || "top"}`;
      else if (there === here) link.dataset.book = `${stem(here)}--${hash || "top"}`;
    }
  },

  /* The page's text as it stands now, its names its own, with the styles that its scripts have made. */
  gather() {
    const article = document.querySelector("article.bd-article").cloneNode(true);
    const stem = location.pathname.split("/").pop().replace(/\.html$/, "");
    for (const named of article.querySelectorAll("[id]")) named.id = `${stem}--${named.id}`;
    for (const input of document.querySelectorAll("article input")) {
      const copy = article.querySelector(`[id="${stem}--${CSS.escape(input.id)}"]`);
      copy?.setAttribute("value", input.value);
      if (input.checked) copy?.setAttribute("checked", "");
    }
    for (const script of article.querySelectorAll("script")) script.remove();
    article.id = `${stem}--top`;
    const made = [...document.styleSheets].filter((sheet) => sheet.ownerNode.tagName === "STYLE");
    const rules = made.flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText));
    const heading = article.querySelector("h1").cloneNode(true);
    heading.querySelector(".headerlink")?.remove();
    return { html: article.outerHTML, rules, title: heading.textContent.trim() };
  },

  /* One page of all that was gathered, behind a title and a list of contents. */
  bind(name, pieces) {
    const own = document.querySelector("article.bd-article"), style = document.createElement("style");
    style.textContent = [...new Set(pieces.flatMap(({ rules }) => rules))].join("\n");
    document.head.append(style);
    const front = Object.assign(document.createElement("article"), { className: "bd-article", innerHTML: "<h1></h1><ul></ul>" });
    front.firstChild.textContent = name;
    const articles = pieces.map(({ html }) => Object.assign(document.createElement("template"), { innerHTML: html }).content.firstChild);
    articles.forEach((article, k) => {
      article.style.breakBefore = "page";
      const link = Object.assign(document.createElement("a"), { textContent: pieces[k].title });
      link.href = `#${article.id}`;
      const line = document.createElement("li");
      line.append(link);
      front.lastChild.append(line);
    });
    own.replaceWith(front, ...articles);
    const names = new Set([...document.querySelectorAll("[id]")].map(({ id }) => id));
    for (const link of document.querySelectorAll("a[data-book]")) {
      const page = `${link.dataset.book.split("--")[0]}--top`;
      if (names.has(link.dataset.book)) link.href = `#${link.dataset.book}`;
      else if (names.has(page)) link.href = `#${page}`;
      else link.removeAttribute("href");
    }
  },
})
