/* A comparison of scores: dots with intervals, and the line that the best can reach. */
function build(ui) {
  const { model } = ui;
  const [names, kinds, measures, ways, values, ranges, spans] = ["names", "kinds", "measures", "ways", "values", "ranges", "spans"].map((key) => model.get(key));
  const rows = [...names, "ceiling"];
  const [at, atLast] = ["at the line", "with all seeds"];
  const most = spans.length + 1;
  const settled = () => model.get("seeds") >= most; // what is shown is the answer
  const seen = (kind, count) => {
    const m = measures.indexOf(model.get("metric"));
    const way = ways[m];
    const [least, most] = ranges[m].map((end, side) => end ?? (side ? Infinity : -Infinity));
    const all = values[m][kinds.indexOf(kind)].map((row) => row.slice(0, count));
    const scores = all.slice(0, -1);
    const line = all.at(-1).length ? all.at(-1) : scores.reduce((a, b) => (way * total(b) > way * total(a) ? b : a));
    const gaps = all.map((row) => interval(row.map((v, s) => v - line[s]), [least - most, most - least], spans));
    const own = (row) => interval(row, [least, most], spans);
    return { shown: all.map(own), line: own(line), gaps, below: gaps.map(([, low, high]) => (way > 0 ? high < 0 : low > 0)) };
  };
  const has = () => seen(model.get("scenario"), 2).shown.map(([mean]) => Number.isFinite(mean));
  ui.ask({ question: () => {
    const where = `By ${model.get("metric")}, in ${model.get("scenario")}, with all ${most} seeds`;
    const [first, ceiling] = [has()[0], has().at(-1)];
    return !first ? `${where}: who is better is not known here. Choose another scenario.`
      : ceiling ? `${where}: how many of the ${names.length} scores reach the ceiling, that is, are not shown to be worse?`
        : `${where}: how many of the ${names.length} scores cannot be told from the best one?`;
  }, of: "scores", name: () => atLast, min: 0, max: names.length, step: 1, digits: 0, hides: () => (settled() ? ["mean", "low", "high", "minus the line", at, atLast] : [atLast]),
    replay: { key: "seeds", at: (seeds, part) => Math.max(2, Math.round(seeds * part)) } });
  ui.group("w-controls", () => {
    ui.choice({ key: "scenario", label: "scenario", options: kinds.map((kind) => [kind, kind]) });
    ui.choice({ key: "metric", label: "measure", options: measures.map((name) => [name, name]) });
    ui.slider({ key: "seeds", label: "seeds", min: 2, max: most });
  });
  const high = 24 * rows.length;
  const plot = shape("svg", { viewBox: `0 0 380 ${high + 34}`, role: "img", class: "w-chart" });
  let show, facts;
  ui.group("w-sides", () => {
    ui.group("", () => {
      ui.root.append(plot);
      facts = ui.table("How many?", [at, atLast], [{ name: "scores", digits: 0 }], { head: "" });
    });
    show = ui.table("Mean and 95 % interval", rows, ["mean", "low", "high", "minus the line"].map((name) => ({ name, short: name === "minus the line" ? "minus line" : name, digits: 3 })), { head: "score" });
  });
  return () => {
    const [kind, count] = [model.get("scenario"), ui.get("seeds")];
    const { shown, line, gaps, below } = seen(kind, count);
    const known = Number.isFinite(shown[0][0]);
    ["mean", "low", "high"].forEach((name, i) => show(name, shown.map((row) => row[i])));
    show("minus the line", gaps.map(([mean]) => mean));
    const whole = seen(kind, most);
    const [reached, last] = [below, whole.below].map((list) => list.slice(0, -1).filter((is) => !is).length);
    facts("scores", known ? [reached, last] : [NaN, NaN]);
    const hidden = (ui.veiled && settled()) || !known;
    const ends = whole.shown.flat().concat(shown.flat()).filter(Number.isFinite);
    const [from, to] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
    const place = (v) => 116 + (250 * (v - from)) / (to - from || 1);
    const text = (x, y, anchor, said) => shape("text", { x, y, "text-anchor": anchor }, said);
    const dots = hidden ? [] : [
      shape("path", { d: `M${place(line[0])} 4V${high + 4}`, class: "w-now" }),
      ...shown.flatMap(([mean, low, up], i) => (Number.isFinite(mean) ? [
        shape("path", { d: `M${place(low)} ${24 * i + 16}H${place(up)}`, stroke: "currentColor", fill: "none" }),
        shape("circle", { cx: place(mean), cy: 24 * i + 16, r: 5.5, stroke: "var(--client-0)", "stroke-width": 2, fill: below[i] ? "none" : "var(--client-0)" })] : []))];
    plot.replaceChildren(...rows.map((name, i) => text(108, 24 * i + 20, "end", name)), shape("path", { d: `M116 ${high + 6}H366`, class: "w-axis" }),
      ...(hidden ? [] : [text(116, high + 20, "middle", format(from)), text(366, high + 20, "middle", format(to))]), text(241, high + 32, "middle", model.get("metric")), ...dots);
    const told = hidden ? "" : rows.map((name, i) => (Number.isFinite(shown[i][0]) ? `${name} ${format(shown[i][0])}, ${format(shown[i][1])} to ${format(shown[i][2])}` : "")).filter(Boolean).join("; ");
    plot.setAttribute("aria-label", `${model.get("metric")} in ${kind}, ${count} seeds. ${told}`);
    if (!known) return "No number exists for this pair.";
    const way = ways[measures.indexOf(model.get("metric"))];
    const first = names.reduce((a, name, i) => (way * shown[i][0] > way * shown[a][0] ? i : a), 0);
    return `With ${count} seeds the best mean is that of ${names[first]}, ${format(shown[first][0], 3)}; ${reached} of ${names.length} are ${Number.isFinite(shown.at(-1)[0]) ? "at the ceiling" : "not shown to be worse than the best"}. Full dots are at the dashed line, hollow ones on its worse side.`;
  };
}

export default { render: (context) => board(context, "head-to-head-explorer", build) };
