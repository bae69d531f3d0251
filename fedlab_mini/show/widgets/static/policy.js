/* A policy that learns by trial and error whom to select; every choice of the rule can be changed. */

/* Expected loss when every client is selected by its own coin. */
const expected = (losses, omega) => total(losses.map((loss, mask) =>
  loss * omega.reduce((p, w, k) => p * ((mask >> k) & 1 ? w : 1 - w), 1)));

/* Probabilities before each step and after the last: [steps + 1][n]. */
function learn(losses, n, steps, { sign, baseline, rate, seed }) {
  const next = uniforms(seed);
  const logits = new Array(n).fill(0);
  const path = [logits.map(sigmoid)];
  let moving = losses[0];
  for (let t = 0; t < steps; t++) {
    const omega = path[t];
    const chosen = omega.map((w) => (next() < w ? 1 : 0));
    const mask = total(chosen.map((c, k) => c << k));
    const loss = losses[mask];
    const b = { none: 0, moving, aggregate: losses.at(-1) }[baseline];
    const reward = mask ? sign * (b - loss) : 0; // nobody selected: nothing is learned
    moving += (loss - moving) / 20;
    omega.forEach((w, k) => { logits[k] += rate * reward * (chosen[k] - w); });
    path.push(logits.map(sigmoid));
  }
  return path;
}

function build(ui) {
  const { model } = ui;
  const losses = model.get("losses");
  const names = model.get("names");
  const marked = new Set(model.get("corrupted"));
  const last = model.get("longest");
  const asked = Math.max(0, names.findIndex((_, k) => !marked.has(k)));
  ui.ask({ question: () => `The rule learns for ${model.get("steps")} steps ${{ none: "without a baseline", moving: "with a moving average as baseline", aggregate: "with the loss of all clients as baseline" }[model.get("baseline")]}. How likely is ${marked.size ? "clean " : ""}${names[asked]} to be selected then?`,
    of: "probability", name: () => names[asked], min: 0, max: 1, step: 0.01, digits: 2, hides: ["probability", "of these probabilities"],
    replay: { key: "steps", at: (steps, part) => Math.round(steps * part) } });
  ui.group("w-controls", () => {
    ui.choice({ key: "sign", label: "reward", options: [[1, "loss falls (ours)"], [-1, "loss rises (as published)"]] });
    ui.choice({ key: "baseline", label: "baseline", options: [["none", "none"], ["moving", "moving average"], ["aggregate", "loss of everybody"]] });
    ui.slider({ key: "rate", label: "learning rate", min: 0.001, max: 100, step: 0.05, log: true });
    ui.slider({ key: "seed", label: "run", min: 0, max: 19 });
    ui.slider({ key: "steps", label: "steps", min: 0, max: last });
  });
  let plot, show, facts;
  ui.group("w-sides", () => {
    ui.group("", () => {
      plot = ui.chart("Selection probability", "step: probability to be selected", { low: 0, high: 1, pick: true });
      facts = ui.table("Expected validation loss", ["of these probabilities", "of one half each", "of everybody"], [{ name: "loss", digits: 4 }], { head: "" });
    });
    show = ui.table("After these steps", names, [{ name: "probability", short: "probability ω", digits: 3, bar: true }], { tint: colour });
  });
  return () => {
    const rule = Object.fromEntries(["sign", "baseline", "rate", "seed"].map((key) => [key, model.get(key)]));
    const path = learn(losses, names.length, last, rule);
    const steps = Math.min(ui.get("steps"), last);
    const omega = path[steps];
    show("probability", omega, 1);
    const now = expected(losses, omega);
    const half = expected(losses, omega.map(() => 0.5));
    facts("loss", [now, half, losses.at(-1)]);
    plot(names.map((name, k) => ({ y: path.map((row, t) => (t <= steps ? row[k] : NaN)), colour: colour(k), dash: marked.has(k) ? "6 3" : undefined, name, answer: true })), steps / last);
    return `After ${steps} steps the expected loss is ${format(now, 4)}, ${now < half ? "lower" : "not lower"} than at the start; most likely to be selected: ${largest(omega, names)}.`;
  };
}

export default { render: (context) => board(context, "policy-explorer", build) };
