/* A quiz that marks itself: a choice shows at once whether it is right, and why. Nothing is stored. */
const node = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

function render({ model, el }) {
  const serial = Math.random().toString(36).slice(2);
  const questions = model.get("questions");
  const solved = new Set();
  const root = node("div", { class: "fedlab-quiz" });
  const score = node("p", { role: "status" });
  const count = () => { score.textContent = `${solved.size} of ${questions.length} right.`; };
  questions.forEach(({ text, choices }, i) => {
    const answer = node("p", { role: "status", class: "q-why" });
    const set = node("fieldset", {}, node("legend", {}, `${i + 1}. ${text}`));
    choices.forEach((choice, j) => {
      const id = `q-${serial}-${i}-${j}`;
      const input = node("input", { type: "radio", name: `q-${serial}-${i}`, id, "data-lm-suppress-shortcuts": "true" });
      const line = node("div", { class: "q-choice" }, input, node("label", { for: id }, choice.text));
      input.addEventListener("change", () => {
        for (const other of set.querySelectorAll(".q-choice")) other.removeAttribute("data-mark");
        line.setAttribute("data-mark", choice.right ? "right" : "wrong");
        answer.textContent = `${choice.right ? "Right." : "Not quite."} ${choice.why}`;
        if (choice.right) solved.add(i); else solved.delete(i);
        count();
      });
      set.append(line);
    });
    set.append(answer);
    root.append(set);
  });
  const again = node("button", { type: "button" }, "Start again");
  again.addEventListener("click", () => {
    solved.clear();
    for (const input of root.querySelectorAll("input")) input.checked = false;
    for (const line of root.querySelectorAll("[data-mark]")) line.removeAttribute("data-mark");
    for (const answer of root.querySelectorAll(".q-why")) answer.textContent = "";
    count();
  });
  root.append(score, again);
  count();
  el.append(root);
}

export default { render };
