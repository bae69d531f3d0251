/* Cards: asks a page's list of questions one by one, and again after days. Progress stays in this browser. */
document.addEventListener("DOMContentLoaded", async () => {
  const list = document.querySelector(".cards");
  if (!list) return;
  const DAYS = [1, 3, 7, 14, 30], KEPT = "fedlab-cards";
  const make = (tag, text = "", more = {}) => Object.assign(document.createElement(tag), { textContent: text }, more);
  const today = () => {
    const now = new Date();
    return Math.floor((now - now.getTimezoneOffset() * 60000) / 86400000);
  };
  let kept = {}, stored = true;
  try {
    kept = JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    stored = false;
  }
  const keep = () => {
    try {
      localStorage.setItem(KEPT, JSON.stringify(kept));
    } catch {
      stored = false;
    }
  };

  await window.MathJax?.startup?.promise;
  const cards = [...list.querySelectorAll("details")].map((box) => ({
    key: box.dataset.card, chapter: box.querySelector("small").textContent,
    front: box.querySelector("summary span"), back: box.querySelector("p"),
  }));
  const chapter = make("select");
  chapter.append(...["All chapters", ...new Set(cards.map((card) => card.chapter))].map((name) => make("option", name)));
  const label = make("label", "Ask about ");
  label.append(chapter);
  const state = make("p", "", { role: "status" }), front = make("div", "", { className: "card-front" });
  const back = make("div", "", { className: "card-back" }), buttons = make("div", "", { className: "card-buttons" });
  const show = make("button", "Show the answer");
  const forget = make("button", "Forget my answers");
  const desk = make("div", "", { className: "card-desk" });
  desk.append(label, state, front, back, buttons, forget);
  const all = make("details");
  all.append(make("summary", `All ${cards.length} cards as a list`));
  list.before(desk, all);
  all.append(list);

  let card = null, turn = 0;
  const again = new Map();  // key: the turn at which it is asked once more
  const due = ({ key }) => (kept[key]?.due ?? today()) <= today();
  const next = () => {
    const open = cards.filter((one) => due(one) && (chapter.selectedIndex === 0 || one.chapter === chapter.value));
    const rank = ({ key }) => (again.has(key) ? (again.get(key) > turn ? 3 : 0) : key in kept ? 1 : 2);
    open.sort((a, b) => rank(a) - rank(b));
    card = open[0];
    const memory = stored ? "" : " This browser keeps nothing, so it forgets them when you leave.";
    state.textContent = (card ? `${card.chapter}. ${open.length} to ask today.` : "Nothing left for today.") + memory;
    front.replaceChildren(...(card ? [card.front.cloneNode(true)] : []));
    back.replaceChildren();
    buttons.replaceChildren(...(card ? [show] : []));
  };
  const rate = (grade) => {
    const box = kept[card.key]?.box ?? 0;
    turn += 1;
    again.delete(card.key);
    if (grade === 0) again.set(card.key, turn + 5);
    kept[card.key] = {
      box: [0, box, Math.min(box + 1, DAYS.length - 1)][grade],
      due: today() + [0, 1, DAYS[box]][grade],
    };
    keep();
    next();
    show.focus();
  };
  const grades = ["Again", "Hard", "Good"].map((name, grade) => make("button", name, { onclick: () => rate(grade) }));
  show.onclick = () => {
    back.append(...card.back.cloneNode(true).childNodes);
    buttons.replaceChildren(...grades);
    grades[2].focus();
  };
  chapter.onchange = next;
  forget.onclick = () => {
    kept = {};
    again.clear();
    keep();
    next();
  };
  document.addEventListener("keydown", (event) => {
    const grade = "123".indexOf(event.key);
    if (grade >= 0 && buttons.contains(grades[0]) && !event.target.closest("input, select")) rate(grade);
  });
  next();
});
