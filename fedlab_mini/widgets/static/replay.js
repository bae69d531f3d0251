/* A training, round by round: accuracy, and each client's score and weight; clients can be hidden. */
function build(ui) {
  const { model } = ui;
  const real = (row) => row.map((x) => x ?? NaN); // JSON has no NaN
  const accuracy = real(model.get("accuracy"));
  const table = { scores: model.get("scores").map(real), weights: model.get("weights").map(real) };
  const last = table.scores.length;
  const marked = new Set(model.get("corrupted"));
  const names = table.scores[0].map((_, k) => `client ${k}${marked.has(k) ? " (corrupted)" : ""}`);
  const tint = (k) => colour(k);
  ui.watch("shown");
  ui.slider({ key: "round", label: "round", min: 0, max: last });
  ui.choice({ key: "quantity", label: "lines show", options: [["weights", "weights"], ["scores", "scores"]] });
  ui.group("w-checks", () => names.forEach((name, k) => ui.toggle({ key: "shown", path: [k], label: name, tint: tint(k) })));
  const plotAccuracy = ui.chart("Test accuracy", "round: test accuracy");
  const plotClients = ui.chart("Clients", "round: clients that are shown", { low: Math.min(0, ...[...table.scores, ...table.weights].flat().filter(Number.isFinite)) });
  const show = ui.table("In this round", names, [{ name: "score", digits: 3, bar: true }, { name: "weight", digits: 3, bar: true },
    { name: "share of the shown", digits: 3 }], { tint });
  const facts = ui.table("All together", ["test accuracy", "weight of the shown", "mean score of the shown"], [{ name: "value", digits: 3 }], { head: "" });
  const say = ui.status();
  ui.play("round", last);
  ui.reset();
  return () => {
    const t = Math.min(model.get("round"), last);
    const shown = model.get("shown");
    const row = (what) => (t ? table[what][t - 1] : names.map(() => 0));
    const kept = (list) => list.filter((_, k) => shown[k]);
    const [score, weight] = [row("scores"), row("weights")];
    const together = total(kept(weight));
    show("score", score);
    show("weight", weight);
    show("share of the shown", weight.map((w, k) => (shown[k] && together ? w / together : 0)));
    show.rows.forEach((line, k) => { line.hidden = !shown[k]; });
    facts("value", [accuracy[t], together, total(kept(score)) / Math.max(1, kept(score).length)]);
    plotAccuracy([{ y: accuracy, colour: "currentColor", name: "accuracy" }], t / last);
    const lines = names.map((name, k) => ({ y: [0, ...table[model.get("quantity")].map((r) => r[k])], colour: tint(k), dash: marked.has(k) ? "6 3" : undefined, name }));
    plotClients(kept(lines), t / last);
    say(t ? `After round ${t} of ${last} the test accuracy is ${format(accuracy[t], 3)}.` : `Before training the test accuracy is ${format(accuracy[0], 3)}.`);
  };
}

export default { render: (context) => board(context, "round-replay", build) };
