/* How far a reader has come: a section whose end was on the screen for two seconds has a tick in the page's contents,
   and a chapter its count in the list of chapters. Kept in this browser, and sent nowhere. */
document.addEventListener("DOMContentLoaded", () => {
  const STORE = "fedlab-mini: sections read", place = (path) => path.split("/").slice(-2).join("/");
  const load = () => { try { return JSON.parse(localStorage.getItem(STORE)) ?? {}; } catch { return {}; } };
  const save = (all) => { try { localStorage.setItem(STORE, JSON.stringify(all)); } catch { /* not allowed here: nothing is kept */ } };
  const here = place(location.pathname);
  const sections = [...document.querySelectorAll(".bd-article > section > section[id]")];
  const tick = (link, text, name) => {
    let mark = link.querySelector(".read-mark");
    if (!text) { mark?.remove(); return; }
    if (!mark) link.append(mark = Object.assign(document.createElement("span"), { className: "read-mark" }));
    mark.textContent = text;
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", name);
  };
  const show = () => {
    const all = load(), read = new Set(all[here]?.read);
    for (const link of document.querySelectorAll("#pst-page-toc-nav .toc-h2 > a"))
      tick(link, read.has(decodeURIComponent(link.hash.slice(1))) && "✓", "read");
    for (const link of document.querySelectorAll("#pst-primary-sidebar a.internal")) {
      const { read = [], of = 0 } = all[place(link.pathname)] ?? {};
      tick(link, read.length && `${read.length}/${of}`, `${read.length} of ${of} sections read`);
    }
    if (forget) forget.hidden = !Object.keys(all).length;
  };
  const contents = document.getElementById("pst-page-toc-nav");
  const forget = contents && Object.assign(document.createElement("button"), { className: "read-forget", type: "button", textContent: "Forget what I have read" });
  forget?.addEventListener("click", () => { save({}); show(); contents.querySelector("a")?.focus(); });
  contents?.append(forget);
  show();
  if (!/\/notebooks\/[^/]+$/.test(location.pathname)) return;
  const waiting = new Map();
  const seen = new IntersectionObserver((changes) => changes.forEach(({ target, isIntersecting }) => {
    clearTimeout(waiting.get(target));
    if (isIntersecting) waiting.set(target, setTimeout(() => {
      const all = load(), read = new Set(all[here]?.read);
      read.add(target.closest(".bd-article > section > section").id);
      save({ ...all, [here]: { read: [...read], of: sections.length } });
      show();
    }, 2000));
  }));
  for (const section of sections) {
    let end = section;
    while (end.lastElementChild?.matches("section")) end = end.lastElementChild;
    seen.observe(end.lastElementChild ?? end);
  }
});

/* Arrow keys go to the page before and after, while no element has the keys and nothing can scroll sideways. */
document.addEventListener("keydown", (event) => {
  const link = { ArrowLeft: "a.left-prev", ArrowRight: "a.right-next" }[event.key];
  const root = document.scrollingElement, free = [document.body, document.documentElement, null].includes(document.activeElement);
  if (!link || !free || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
  if (root.scrollWidth > root.clientWidth || document.body.classList.contains("on-stage")) return;
  document.querySelector(link)?.click();
});
