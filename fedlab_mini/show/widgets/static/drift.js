/* Two clients with quadratic losses and one number as a model: FedAvg's point of rest on a number line. */
function build(ui) {
  const { model } = ui;
  const names = ["client 1", "client 2"];
  const [best, rest, apart] = ["best model θ*", "FedAvg rests at θ_E", "distance"];
  const low = ["₁", "₂"];
  const [most, edge] = [200, 12]; // the middle of the scale must not be the answer
  const mean = (weights) => total(weights.map((w, k) => w * model.get("optima")[k])) / total(weights);
  /* Which part of the way to its own optimum each client goes in a round. */
  const parts = (steps) => model.get("curvatures").map((a) => 1 - (1 - model.get("rate") * a) ** steps);
  ui.ask({ question: () => `The model that is best for both lies at ${format(mean(model.get("curvatures")))}. Where does FedAvg come to rest with ${model.get("steps")} local steps a round?`,
    of: "value", name: () => rest, min: 0, max: edge, step: 0.1, digits: 2, hides: ["part of the way", rest, apart],
    replay: { key: "steps", at: (steps, part) => Math.max(1, Math.round(steps * part)) } });
  ui.group("w-controls", () => {
    names.forEach((name, k) => ui.slider({ key: "curvatures", path: [k], label: `curvature a${low[k]}`, min: 0.5, max: 5, step: 0.5, digits: 1, tint: colour(k) }));
    names.forEach((name, k) => ui.slider({ key: "optima", path: [k], label: `optimum c${low[k]}`, min: 0, max: edge, step: 0.5, digits: 1, tint: colour(k) }));
    ui.slider({ key: "rate", label: "learning rate η", min: 0.01, max: 0.2, step: 0.01, digits: 2 });
    ui.slider({ key: "steps", label: "local steps E", min: 1, max: most });
  });
  let line, plot, show, facts;
  ui.group("w-sides", () => {
    ui.group("", () => {
      line = numberLine(ui, "Optima, best model and point of rest", 0, edge);
      facts = ui.table("On the line", [best, rest, apart], [{ name: "value" }], { head: "" });
    });
    ui.group("", () => {
      plot = ui.chart("Where FedAvg rests", "local steps E: where FedAvg rests", { low: 0, high: edge, pick: true });
      ui.legend([["FedAvg", "var(--accent)"], ["best model", "currentColor", true]]);
      show = ui.table("To its own optimum, in a round", names, [{ name: "part of the way", digits: 3, bar: true }], { tint: colour });
    });
  });
  const counts = Array.from({ length: most }, (_, i) => i + 1);
  return () => {
    const optima = model.get("optima");
    const steps = ui.get("steps");
    const gone = parts(steps);
    const [star, end] = [mean(model.get("curvatures")), mean(gone)]; // at rest the two ways cancel
    line([...optima.map((at, k) => ({ at, name: `c${low[k]}`, tint: colour(k) })),
      { at: star, name: "best", up: true }, { at: end, name: "FedAvg", tint: "var(--accent)", up: true, answer: true }], ui.guessed);
    plot([{ y: counts.map(() => star), colour: "currentColor", dash: "5 4", name: "best model" },
      { y: counts.map((E) => mean(parts(E))), colour: "var(--accent)", wide: 3, name: "FedAvg", answer: true }], (steps - 1) / (most - 1), counts);
    show("part of the way", gone, 1);
    facts("value", [star, end, Math.abs(end - star)]);
    return `With ${steps} local steps the clients go ${gone.map((part) => format(100 * part, 0)).join(" and ")} % of the way to their own optima, and FedAvg rests ${format(Math.abs(end - star))} from the best model.`;
  };
}

export default { render: (context) => board(context, "drift-explorer", build) };
