/* One difference a seed: the interval of their mean, the band in which the claim is true, and the verdict. */
function build(ui) {
  const { model } = ui;
  const [pattern, spans] = [[1, -1, 0, -2, 2], model.get("spans")]; // the chapter's five differences, as steps
  const [most, edge, answer] = [spans.length + 1, 0.25, "to decide"];
  const found = (count) => {
    const steps = Array.from({ length: count }, (_, k) => pattern[k % pattern.length]);
    const middle = total(steps) / count;
    const width = Math.sqrt(total(steps.map((step) => (step - middle) ** 2)) / count);
    return interval(steps.map((step) => model.get("mean") + (model.get("spread") * (step - middle)) / width), [-1, 1], spans);
  };
  const open = ["not shown", "not shown to differ"];
  const judged = ([, low, high]) => {
    const [bound, equal] = [model.get("bound"), model.get("equal")];
    if (low <= bound && bound <= high) return open[Number(equal)];
    return low > bound && !equal ? "holds" : "does not hold";
  };
  const claim = () => {
    const bound = model.get("bound");
    if (model.get("equal")) return bound ? `A is exactly ${format(Math.abs(bound))} ${bound < 0 ? "behind" : "ahead of"} B` : "A and B are equal";
    if (bound < 0) return `A is less than ${format(-bound)} behind B`;
    return bound ? `A is more than ${format(bound)} ahead of B` : "A is better than B";
  };
  const more = () => ui.get("seeds") > pattern.length; // they would show whether they are enough
  const hides = () => (more() ? ["low", "high", answer] : [answer]);
  ui.ask({ question: () => `Over ${model.get("seeds")} seeds A is, on average, ${format(Math.abs(model.get("mean")), 3)} ${model.get("mean") < 0 ? "behind" : "ahead of"} B. The claim: ${claim()}. How many seeds with this mean and spread would decide the claim?`,
    of: "seeds", name: () => answer, min: 2, max: most, step: 1, digits: 0, hides,
    replay: { key: "seeds", at: (seeds, part) => Math.max(2, Math.round(seeds * part)) } });
  ui.group("w-controls", () => {
    ui.slider({ key: "mean", label: "mean", min: -0.1, max: 0.1, step: 0.005, digits: 3 });
    ui.slider({ key: "spread", label: "spread", min: 0.002, max: 0.1, step: 0.002, digits: 3 });
    ui.slider({ key: "seeds", label: "seeds", min: 2, max: most });
    ui.slider({ key: "bound", label: "bound", min: -0.2, max: 0.2, step: 0.01, digits: 2 });
    ui.toggle({ key: "equal", label: "exactly the bound" });
  });
  const plot = shape("svg", { viewBox: "0 0 380 96", role: "img", class: "w-chart" });
  let show, facts;
  ui.group("w-sides", () => {
    ui.root.append(plot);
    ui.group("", () => {
      show = ui.table("95 % interval", ["low", "high"], [{ name: "A minus B", digits: 3 }], { head: "" });
      facts = ui.table("How many?", [answer], [{ name: "seeds", digits: 0 }], { head: "" });
    });
  });
  const place = (v) => 20 + (340 * (clamp(v, -edge, edge) + edge)) / (2 * edge);
  const text = (x, y, said, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, said);
  const counts = Array.from({ length: most - 1 }, (_, k) => k + 2);
  return () => {
    const [mean, low, high] = found(ui.get("seeds"));
    const verdict = judged([mean, low, high]);
    show("A minus B", [low, high]);
    facts("seeds", [counts.find((count) => !open.includes(judged(found(count)))) ?? NaN]);
    const veiled = ui.veiled && more();
    const from = place(model.get("bound"));
    const width = model.get("equal") ? 1.5 : 360 - from;
    plot.replaceChildren(
      shape("rect", { x: from, y: 20, width, height: 44, fill: "var(--accent)", opacity: 0.3 }),
      text(190, 14, `coloured: ${claim()}`),
      shape("path", { d: `M20 64H360M190 64V69M${from} 20V64`, class: "w-axis" }),
      ...[-edge, 0, edge].map((v) => text(place(v), 82, format(v))),
      ...(veiled ? [] : [shape("path", { d: `M${place(low)} 42H${place(high)}`, stroke: "currentColor", "stroke-width": 3, fill: "none" })]),
      shape("circle", { cx: place(mean), cy: 42, r: 5, fill: "currentColor" }));
    const said = `With ${ui.get("seeds")} seeds the interval is [${format(low, 3)}, ${format(high, 3)}]. ${claim()}: ${verdict}.`;
    plot.setAttribute("aria-label", veiled ? `Claim: ${claim()}. Mean ${format(mean, 3)}` : said);
    return said;
  };
}

export default { render: (context) => board(context, "verdict-explorer", build) };
