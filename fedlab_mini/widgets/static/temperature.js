/* Relevances and a temperature: who is likely to be among the m clients drawn one after another? */
function softmax(list) {
  const top = Math.max(...list);
  const weights = list.map((x) => Math.exp(x - top));
  return weights.map((w) => w / total(weights));
}

/* Chance of each client to be among m drawn, each from the softmax of the rest: all sets, smaller first. */
function inclusion(logits, m) {
  const n = logits.length;
  const chance = new Float64Array(1 << n);
  const found = new Array(n).fill(0);
  chance[0] = 1;
  for (let set = 0; set < chance.length; set++) {
    const inside = logits.map((_, k) => (set >> k) & 1);
    const size = total(inside);
    if (size === m) inside.forEach((is, k) => { found[k] += is * chance[set]; });
    if (size >= m || !chance[set]) continue;
    const next = softmax(logits.map((x, k) => (inside[k] ? -Infinity : x)));
    next.forEach((p, k) => { if (p) chance[set | (1 << k)] += chance[set] * p; });
  }
  return found;
}

function build(ui) {
  const { model } = ui;
  const n = model.get("relevance").length;
  const bad = new Set(model.get("irrelevant"));
  const names = Array.from({ length: n }, (_, k) => `client ${k}${bad.has(k) ? " (irrelevant)" : ""}`);
  const [low, high] = [model.get("lowest"), model.get("highest")];
  ui.group("w-controls", () => {
    ui.slider({ key: "temperature", label: "temperature", min: 0.005, max: 10, step: 0.05, log: true });
    ui.slider({ key: "drawn", label: "clients drawn", min: 1, max: n });
  });
  ui.group("w-controls", () => names.forEach((_, k) => ui.slider({ key: "relevance", path: [k], label: `relevance of ${k}`, min: low, max: high, step: (high - low) / 100, digits: 3, tint: colour(k) })));
  const show = ui.table("Who is selected?", names, [{ name: "first draw", digits: 3 }, { name: "among those drawn", digits: 3, bar: true }], { tint: colour });
  const facts = ui.table("All together", ["irrelevant clients expected", "the same without relevance", "share of relevant clients"], [{ name: "value", digits: 3 }], { head: "" });
  const say = ui.status();
  ui.reset();
  return () => {
    const m = Math.min(model.get("drawn"), n);
    const logits = model.get("relevance").map((phi) => phi / model.get("temperature"));
    const p = softmax(logits);
    const chance = inclusion(logits, m);
    const expected = total(chance.filter((_, k) => bad.has(k)));
    show("first draw", p, 1);
    show("among those drawn", chance, 1);
    facts("value", [expected, (m * bad.size) / n, 1 - expected / m]);
    say(`Among ${m} drawn, ${format(expected)} irrelevant clients are expected; ${format((m * bad.size) / n)} if relevance did not count.`);
  };
}

export default { render: (context) => board(context, "temperature-explorer", build) };
