/* A training run, round by round: accuracy, and each client's score and weight; clients can be hidden. */
function build(ui) {
  const { model } = ui;
  const real = (row) => row.map((x) => x ?? NaN); // JSON has no NaN
  const accuracy = real(model.get("accuracy"));
  const table = { scores: model.get("scores").map(real), weights: model.get("weights").map(real) };
  const last = table.scores.length;
  const scored = model.get("scored"); // "score", or a learned evaluator's "ω"
  const meanScore = `mean ${scored} of the shown`;
  const marked = new Set(model.get("corrupted"));
  const names = table.scores[0].map((_, k) => `client ${k}${marked.has(k) ? " (corrupted)" : ""}`);
  const asked = model.get("asked");
  const flat = table.weights.flat().filter(Number.isFinite);
  ui.ask({ question: () => `What weight does ${names[asked]} have after round ${Math.min(model.get("round"), last)}?`,
    of: "weight", name: () => names[asked], min: Math.floor(20 * Math.min(0, ...flat)) / 20, max: Math.ceil(20 * Math.max(0.01, ...flat)) / 20, step: 0.01, digits: 3,
    hides: ["ω", "mean ω of the shown", "weight", "share of the shown", "weight of the shown"], replay: { key: "round", at: (round, part) => Math.round(round * part) } });
  ui.watch("shown");
  ui.group("w-controls", () => {
    ui.slider({ key: "round", label: "round", min: 0, max: last });
    ui.choice({ key: "quantity", label: "lines show", options: [["weights", "weights w"], ["scores", scored]] });
  });
  ui.group("w-checks", () => names.forEach((name, k) => ui.toggle({ key: "shown", path: [k], label: name, tint: colour(k) })));
  let plotAccuracy, plotClients, show, facts;
  ui.group("w-sides", () => {
    plotClients = ui.chart("Clients", "round: clients that are shown", { low: Math.min(0, ...flat, ...table.scores.flat().filter(Number.isFinite)) });
    plotAccuracy = ui.chart("Test accuracy", "round: test accuracy");
    show = ui.table("In this round", names, [{ name: scored, digits: 3, bar: true }, { name: "weight", short: "weight w", digits: 3, bar: true },
      { name: "share of the shown", short: "share", digits: 3 }], { tint: colour });
    facts = ui.table("All together", ["test accuracy", "weight of the shown", meanScore], [{ name: "value", digits: 3 }], { head: "" });
  });
  return () => {
    const t = Math.min(ui.get("round"), last);
    const shown = model.get("shown");
    const row = (what) => (t ? table[what][t - 1] : names.map(() => 0));
    const kept = (list) => list.filter((_, k) => shown[k]);
    const [score, weight] = [row("scores"), row("weights")];
    const together = total(kept(weight));
    show(scored, score);
    show("weight", weight);
    show("share of the shown", weight.map((w, k) => (shown[k] && together ? w / together : 0)));
    show.rows.forEach((line, k) => { line.hidden = !shown[k]; });
    facts("value", [accuracy[t], together, total(kept(score)) / Math.max(1, kept(score).length)]);
    plotAccuracy([{ y: accuracy, colour: "currentColor", name: "accuracy" }], t / last);
    const quantity = model.get("quantity");
    plotClients(kept(names.map((name, k) => ({ y: [0, ...table[quantity].map((r) => r[k])], colour: colour(k), dash: marked.has(k) ? "6 3" : undefined, name, answer: quantity === "weights" || scored === "ω" }))), t / last);
    return t ? `After round ${t}, accuracy is ${format(accuracy[t], 3)}.` : `Before training, accuracy is ${format(accuracy[0], 3)}.`;
  };
}

export default { render: (context) => board(context, "round-replay", build) };
