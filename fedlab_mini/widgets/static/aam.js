/* An accuracy approximation model: data sizes in, predicted accuracy and contribution index out. */
function build(ui) {
  const { model } = ui;
  const [quality, slopes, start, full] = ["quality", "slopes", "start", "full"].map((key) => model.get(key));
  const rest = model.get("neutral") ? 0 : 0.5;
  const squash = (x) => (model.get("neutral") ? 2 * sigmoid(x) - 1 : sigmoid(x));
  const marked = new Set(model.get("corrupted"));
  const names = full.map((_, k) => `client ${k}${marked.has(k) ? " (corrupted)" : ""}`);
  /* Accuracy after every round when the same sizes are used in each. */
  const curve = (sizes) => {
    const sum = total(sizes.map((x, k) => x * quality[k]));
    let accuracy = start;
    return slopes.map((a) => (accuracy += a * (squash(sum) - rest)));
  };
  ui.group("w-controls", () => names.forEach((name, k) => ui.slider({ key: "shares", path: [k], label: `data of ${k}`, min: 0, max: 1, step: 0.05, tint: colour(k), text: (s) => `${format(100 * s, 0)} %` })));
  const plot = ui.chart("Predicted accuracy", "round: predicted accuracy");
  ui.legend([["these sizes", "var(--accent)"], ["everybody's whole data", "currentColor", true]]);
  const show = ui.table("What the model says of each client", names, [{ name: "samples used" }, { name: "quality ω", digits: 3 },
    { name: "contribution", digits: 3 }, { name: "index", digits: 3, bar: true }, { name: "loss without", digits: 4 }], { tint: colour });
  const facts = ui.table("Predicted accuracy at the end", ["with these sizes", "with all data", "with no data"], [{ name: "accuracy", digits: 3 }], { head: "" });
  const say = ui.status();
  ui.reset();
  return () => {
    const shares = model.get("shares");
    const sizes = full.map((x, k) => x * shares[k]);
    const value = sizes.map((x, k) => x * quality[k]);
    const positive = value.map((v) => Math.max(0, v));
    const index = positive.map((v) => (total(positive) ? v / total(positive) : 0));
    const now = curve(sizes);
    const all = curve(full);
    const without = sizes.map((_, k) => now.at(-1) - curve(sizes.map((x, j) => (j === k ? 0 : x))).at(-1));
    show("samples used", sizes);
    show("quality ω", quality);
    show("contribution", value);
    show("index", index);
    show("loss without", without);
    facts("accuracy", [now.at(-1), all.at(-1), curve(full.map(() => 0)).at(-1)]);
    plot([{ y: [start, ...all], colour: "currentColor", dash: "5 4", name: "everybody's whole data" }, { y: [start, ...now], colour: "var(--accent)", name: "these sizes" }]);
    const best = index.indexOf(Math.max(...index));
    say(`Predicted accuracy at the end: ${format(now.at(-1), 3)}. Largest index: ${names[best]}.`);
  };
}

export default { render: (context) => board(context, "aam-explorer", build) };
