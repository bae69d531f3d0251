/* The search page shows the places that hold the words of a query, or words that mean the same, each with its text
   around them. Sphinx's search fetches other pages for that, which a browser refuses from disk. */
document.addEventListener("DOMContentLoaded", () => {
  if (DOCUMENTATION_OPTIONS.pagename !== "search") return;
  const REFERENCE = /^book\/(fedlab_|studies)/, A_PAGE = 3, MOST = 30, BEFORE = 80, LENGTH = 240;
  const program = Object.assign(document.createElement("script"), { src: "_static/search-texts.js" });
  const loaded = new Promise(done => program.addEventListener("load", done));
  document.head.append(program);

  const stemmer = new Stemmer();
  const split = text => text.normalize("NFKC").toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const stem = word => {  // what word and stem have in common: privacy, privaci -> privac
    const root = stemmer.stemWord(word);
    let end = 0;
    while (end < word.length && root[end] === word[end]) end++;
    return end > 3 ? word.slice(0, end) : word;
  };
  // Endings that a word of the same sense may have: install, installation; not grade, gradient.
  const ENDINGS = "(?:['’]?s|e[sdr]?|ers|en|ings?|y|ies|i|ed|d|r|rs|t|ions?|ations?|ators?|ors?|al(?:s|ly)?|ives?|able|ability|ity|ness|ments?|at(?:e[sdr]?|ing|ive)|ly|ic|ful|less|iers?|ous|ously)?";
  const ASKING = ("what which who whom whose how why when where can could may do does did is are am i my me we you your it its there "
    + "have has our should would will much many long often tell explain meaning mean means difference between about use using get need want work works vs versus").split(" ");
  const stems = text => ` ${split(text).map(stem).join(" ")} `;
  const pattern = phrases => new RegExp(`(?<![\\p{L}\\p{N}])(?:${phrases.map(phrase => split(phrase)
    .map(word => word.length > 3 ? `${stem(word)}${ENDINGS}(?![\\p{L}\\p{N}])` : `${word}s?(?![\\p{L}\\p{N}])`)
    .join("[\\s_-]+")).join("|")})`, "giu");

  /* The ideas of a query: known phrases with all that means the same, then single words. */
  const ideas = query => {
    let rest = stems(query);
    const found = [], idea = (own, all) => found.push({ own: pattern([own]), any: pattern(all), all });
    const phrases = SEARCH_TEXTS.synonyms.flatMap(group => group.map(phrase => [phrase, group]));
    for (const [phrase, group] of phrases.sort(([a], [b]) => b.length - a.length)) {
      if (!rest.includes(stems(phrase))) continue;
      rest = rest.replace(stems(phrase), "  ");
      idea(phrase, group);
    }
    const words = split(query).filter(word => rest.includes(` ${stem(word)} `));
    const said = words.filter(word => !stopwords.includes(word)), telling = said.filter(word => !ASKING.includes(word));
    const kept = telling.length || found.length ? telling : said;
    for (const word of kept.length || found.length ? kept : words) idea(word, [word]);
    return found;
  };

  /* More for a title than for a text, for a page than for its parts, for the reader's own words, and for short texts on the matter. */
  const count = (text, words) => text.match(words)?.length ?? 0;
  const cover = (text, words) => (text.match(words) ?? []).join("").length / (text.length + 1);
  const worth = ({ own, any }, [anchor, title, text], heading) => {
    const often = 2 * count(text, own) + count(text, any), share = often / (often + 2 + text.length / 400);
    return 14 * Math.min(count(title, own), 1) + 6 * Math.min(count(title, any), 1) + 8 * cover(title, own)
      + (anchor ? 0 : 4 * Math.min(count(title, own), 1))
      + 2 * Math.min(count(heading, any), 1) + 10 * share;
  };
  // The reference comes first for who writes a name of the package, with its case or underscore.
  const place = (page, title, query) => !REFERENCE.test(page) || title === query.trim() && /[_A-Z(]/.test(title) ? 1 : 0.6;
  // A title that is in the query, or holds it; a word of the table of words leads to its entry.
  const asks = (title, query) => split(query).length > 1 && stems(title).includes(stems(query))
    || split(title).length > 2 && stems(query).includes(stems(title)) ? 15 : 0;
  const entry = (page, title, query) => page === "book/glossary" && SEARCH_TEXTS.terms[query.trim().toLowerCase()] === title;
  const search = (wanted, query) => {
    const found = [];
    for (const [page, pieces] of Object.entries(SEARCH_TEXTS.pages)) {
      const heading = pieces[0]?.[1] ?? "";
      for (const piece of pieces) {
        const each = wanted.map(idea => worth(idea, piece, heading));
        const told = entry(page, piece[1], query);
        const here = told ? wanted.length : wanted.filter(({ any }) => count(`${piece[1]} ${piece[2]}`, any)).length;
        if (here) found.push({ page, heading, piece, here, score: told ? Infinity : (asks(piece[1], query) + each.reduce((a, b) => a + b, 0)) * place(page, piece[1], query) });
      }
    }
    const most = Math.max(0, ...found.map(({ here }) => here)), seen = {};
    return found.filter(({ here }) => here === most).sort((a, b) => b.score - a.score)
      .filter(({ page }) => (seen[page] = (seen[page] ?? 0) + 1) <= A_PAGE).slice(0, MOST);
  };

  const make = (name, properties, ...inside) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...inside);
    return made;
  };
  const excerpt = (text, wanted) => {
    const own = wanted.map(idea => text.search(idea.own)), any = wanted.map(idea => text.search(idea.any));
    const at = [...own, ...any].find(place => place >= 0) ?? 0;
    const from = at > BEFORE ? text.indexOf(" ", at - BEFORE) + 1 : 0;
    const to = from + LENGTH < text.length ? text.lastIndexOf(" ", from + LENGTH) : text.length;
    const shown = text.slice(from, Math.max(to, at)), line = make("p", { className: "context" }, from ? "… " : "");
    const words = new RegExp(wanted.map(idea => idea.any.source).join("|"), "giu");
    let last = 0;
    for (const hit of shown.matchAll(words)) {
      line.append(shown.slice(last, hit.index), make("mark", {}, hit[0]));
      last = hit.index + hit[0].length;
    }
    line.append(shown.slice(last), to < text.length ? " …" : "");
    return line;
  };

  Search.query = query => loaded.then(() => {
    const wanted = ideas(query), hits = search(wanted, query), also = wanted.flatMap(({ all }) => all.slice(0, 6));
    Search.stopPulse();
    Search.title.innerText = "Results";
    Search.status.setAttribute("role", "status");
    Search.status.innerText = !hits.length ? "No page has these words. The index and the glossary list the book's own."
      : `${hits.length} places` + (also.length > wanted.length ? `; looked for ${also.join(", ")}` : "");
    for (const { page, heading, piece: [anchor, title, text] } of hits) {
      const link = make("a", { href: `${page}.html${anchor && `#${anchor}`}` }, title === heading ? title : `${title} · ${heading}`);
      Search.output.append(make("li", {}, link, excerpt(text, wanted)));
    }
  });
});
