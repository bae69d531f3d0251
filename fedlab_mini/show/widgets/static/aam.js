/* An accuracy approximation model: data sizes in, predicted accuracy and contribution index out. */
function build(ui) {
  const { model } = ui;
  const [quality, slopes, start, full] = ["quality", "slopes", "start", "full"].map((key) => model.get(key));
  const marked = new Set(model.get("corrupted"));
  const names = full.map((_, k) => `client ${k}${marked.has(k) ? " (corrupted)" : ""}`);
  /* Accuracy after every round when the same sizes are used in each. */
  const curve = (sizes) => {
    const sum = total(sizes.map((x, k) => x * quality[k]));
    let accuracy = start;
    return slopes.map((a) => (accuracy += a * (sigmoid(sum) - 0.5)));
  };
  const whole = curve(full).at(-1);
  const nothing = curve(full.map(() => 0)).at(-1);
  const indices = (shares) => {
    const value = full.map((x, k) => Math.max(0, x * shares[k] * quality[k]));
    return value.map((v) => (total(value) > 0 ? v / total(value) : 0));
  };
  const best = () => { const index = indices(model.get("shares")); return total(index) ? index.indexOf(Math.max(...index)) : -1; };
  ui.ask({ question: () => (best() < 0 ? "With these sizes no client counts for anything, so nobody has an index. Give somebody data." :
    `All data are worth ${format(whole - nothing, 3)} of accuracy. How much of it is lost without ${names[best()]}, which has the largest index, ${format(indices(model.get("shares"))[best()], 3)}?`),
    of: "loss without", name: () => names[best()], min: 0, max: Math.max(0.1, Number((whole - nothing).toFixed(2))), step: 0.005, digits: 3, hides: ["loss without"],
    replay: { key: "shares", at: (shares, part) => shares.map((share) => share * part) } });
  let plot, facts;
  ui.group("w-sides", () => {
    plot = ui.chart("Predicted accuracy", "round: predicted accuracy", { low: 0, high: Math.max(1, whole) });
    ui.group("", () => {
      facts = ui.table("Predicted accuracy at the end", ["with these sizes", "with all data", "with no data"], [{ name: "accuracy", digits: 3 }], { head: "" });
      ui.legend([["these sizes", "var(--accent)"], ["everybody's whole data", "currentColor", true]]);
    });
  });
  const show = ui.table("What the model says of each client", names, [
    { name: "samples used", put: (k) => ui.slider({ key: "shares", path: [k], label: `data of client ${k}`, min: 0, max: 1, step: 0.05, text: (s) => `${format(100 * s, 0)} %`, bare: true }) },
    { name: "quality ω", short: "ω", digits: 3 }, { name: "contribution", short: "x ω", digits: 3 }, { name: "index", digits: 3, bar: true }, { name: "loss without", digits: 4, bar: true }], { tint: colour });
  return () => {
    const shares = ui.get("shares");
    const sizes = full.map((x, k) => x * shares[k]);
    const index = indices(shares);
    const now = curve(sizes);
    const all = curve(full);
    const without = sizes.map((_, k) => now.at(-1) - curve(sizes.map((x, j) => (j === k ? 0 : x))).at(-1));
    show("samples used", sizes);
    show("quality ω", quality);
    show("contribution", sizes.map((x, k) => x * quality[k]));
    show("index", index);
    show("loss without", without, Math.abs(whole - nothing));
    facts("accuracy", [now.at(-1), whole, nothing]);
    plot([{ y: [start, ...all], colour: "currentColor", dash: "5 4", name: "everybody's whole data" }, { y: [start, ...now], colour: "var(--accent)", name: "these sizes" }]);
    return `Predicted accuracy at the end: ${format(now.at(-1), 3)}. Largest index: ${total(index) ? largest(index, names) : "nobody, since no client counts for anything"}.`;
  };
}

export default { render: (context) => board(context, "aam-explorer", build) };
