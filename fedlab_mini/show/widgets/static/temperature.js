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

const ROUNDS = 40;

function build(ui) {
  const { model } = ui;
  const n = model.get("relevance").length;
  const bad = new Set(model.get("irrelevant"));
  const names = Array.from({ length: n }, (_, k) => `client ${k}${bad.has(k) ? " (irrelevant)" : ""}`);
  const [low, high] = [model.get("lowest"), model.get("highest")];
  const expectedBad = "irrelevant clients expected";
  ui.ask({ question: () => `${bad.size} of ${n} clients are irrelevant. How many of them are among the ${model.get("drawn")} that are drawn at temperature ${Number(model.get("temperature").toPrecision(3))}, on average?`,
    of: "value", name: () => expectedBad, min: 0, max: Math.max(1, bad.size), step: 0.05, digits: 2,
    hides: ["among those drawn", expectedBad, "share of relevant clients"], replay: {} });
  ui.group("w-controls", () => {
    ui.slider({ key: "temperature", label: "temperature", min: 0.005, max: 10, step: 0.05, log: true });
    ui.slider({ key: "drawn", label: "clients drawn", min: 1, max: n });
  });
  /* Tickets of ROUNDS rounds fall on the clients; a line marks how many are expected. */
  const tickets = shape("svg", { viewBox: "0 0 380 150", role: "img", class: "w-chart" });
  let facts;
  ui.group("w-sides", () => {
    ui.root.append(tickets);
    facts = ui.table("All together", [expectedBad, "the same without relevance", "share of relevant clients"], [{ name: "value", digits: 3 }], { head: "" });
  });
  const show = ui.table("Who is selected?", names, [
    { name: "first draw", digits: 3, bar: true }, { name: "among those drawn", digits: 3, bar: true }, { name: "relevance", short: "relevance φ", digits: 3,
      put: (k) => ui.slider({ key: "relevance", path: [k], label: `relevance of client ${k}`, min: low, max: high, step: (high - low) / 100, digits: 3, bare: true }) }], { tint: colour });
  const next = uniforms(0);
  const luck = Array.from({ length: ROUNDS }, () => names.map(() => -Math.log(-Math.log(next())))); // Gumbel: the m largest are drawn
  return () => {
    const m = Math.min(model.get("drawn"), n);
    const logits = model.get("relevance").map((phi) => phi / model.get("temperature"));
    const p = softmax(logits);
    const chance = inclusion(logits, m);
    const expected = total(chance.filter((_, k) => bad.has(k)));
    show("relevance", model.get("relevance"));
    show("first draw", p, 1);
    show("among those drawn", chance, 1);
    facts("value", [expected, (m * bad.size) / n, 1 - expected / m]);
    const whole = Math.floor(ROUNDS * ui.part);
    const count = new Array(n).fill(0);
    const wide = 372 / n;
    const piece = (k, y, h) => shape("rect", { x: 4 + wide * k, y, width: wide - 4, height: h, fill: colour(k), "fill-opacity": bad.has(k) ? 0.45 : 1, stroke: colour(k) });
    const falling = [];
    luck.slice(0, whole + 1).forEach((row, t) => names.map((_, k) => k).sort((a, b) => logits[b] + row[b] - logits[a] - row[a]).slice(0, m).forEach((k) => {
      if (t < whole) count[k] += 1; else falling.push(piece(k, (132 - 3 * count[k]) * (ROUNDS * ui.part - whole), 3));
    }));
    tickets.replaceChildren(...(ui.veiled ? [] : [...count.map((c, k) => piece(k, 132 - 3 * c, 3 * c)), ...falling,
      ...chance.map((c, k) => shape("path", { d: `M${3 + wide * k} ${132 - 3 * ROUNDS * c}h${wide - 2}`, class: "w-axis", "stroke-width": 2 }))]),
      shape("path", { d: "M2 132H378", class: "w-axis" }), ...names.map((_, k) => shape("text", { x: 2 + wide * (k + 0.5), y: 146, "text-anchor": "middle" }, String(k))));
    tickets.setAttribute("aria-label", `Tickets of ${ROUNDS} rounds${ui.veiled ? "" : `: ${count.map((c, k) => `client ${k} ${c}`).join(", ")}`}`);
    return `With relevance ${format(expected)} irrelevant clients are expected among ${m}, without it ${format((m * bad.size) / n)}. Tickets count how often each client is drawn in ${ROUNDS} rounds, bars how often is expected.`;
  };
}

export default { render: (context) => board(context, "temperature-explorer", build) };
