/* Three clients whose replies come in any order: what is each told by a server that scores them by place? */
const ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

function build(ui) {
  const { model } = ui;
  const names = [0, 1, 2].map((k) => `client ${k}`);
  const [most, step, mean] = [400, "the model moves by", "mean score"];
  const asked = (rounds) => (rounds > 1 ? `In later rounds they come in random order. What is the mean of the scores that client 0 is told in ${rounds} rounds?` : "Which score is client 0 told?");
  ui.ask({ question: () => `Replies come in the order ${model.get("order").join(", ")}. The server takes the first for client 0's. ${asked(model.get("rounds"))}`,
    of: "told", name: () => names[0], min: -1, max: 1.5, step: 0.05, digits: 2, hides: ["told"],
    replay: { key: "order", at: (order, part) => (part < 1 ? ORDERS[0] : order) } });
  ui.group("w-controls", () => {
    ui.choice({ key: "order", label: "first round", options: ORDERS.map((order) => [order, order.join(", ")]) });
    ui.slider({ key: "rounds", label: "rounds", min: 1, max: most });
  });
  let plot, facts;
  ui.group("w-sides", () => {
    ui.group("", () => {
      plot = ui.chart("Mean score by place", "rounds: what each client is told", { low: -1, high: 1.5, pick: true });
      ui.legend([["mean score", "currentColor", true]]);
    });
    facts = ui.table("In every order", [step, mean], [{ name: "value", bar: true }], { head: "" });
  });
  const show = ui.table("Scores, by client and by place", names, ["update", "own score", "told"].map((name) => ({ name, bar: true })), { tint: colour });
  const counts = Array.from({ length: most }, (_, t) => t + 1);
  const next = uniforms(0);
  const later = counts.slice(1).map(() => ORDERS[Math.floor(next() * ORDERS.length)]);
  return () => {
    const [order, rounds, updates] = [ui.get("order"), ui.get("rounds"), model.get("updates")];
    const moved = total(order.map((k) => updates[k])) / 3;
    const scores = updates.map((update) => update * moved);
    const average = total(scores) / 3;
    const means = names.map((_, place) => {
      let sum = 0;
      return [order, ...later].map((one, t) => (sum += scores[one[place]]) / (t + 1));
    });
    const given = means.map((line) => line[rounds - 1]);
    show("update", updates, 2);
    show("own score", scores, 2);
    show("told", given, 2);
    facts("value", [moved, average], 2);
    plot([{ y: counts.map(() => average), colour: "currentColor", dash: "5 4", name: "mean score" },
      ...means.map((y, k) => ({ y, colour: colour(k), name: names[k], answer: true }))], (rounds - 1) / (most - 1), counts);
    return `Client 0 is told ${format(given[0])} instead of ${format(scores[0])}. The model moves by ${format(moved)}, in this order as in any other.`;
  };
}

export default { render: (context) => board(context, "mix-up-explorer", build) };
