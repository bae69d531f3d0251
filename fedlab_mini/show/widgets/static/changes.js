/* One thing about one client changes: which share of the pay has each client then? Shares come from stored training runs. */
function build(ui) {
  const { model } = ui;
  const [names, changes, who, scores, shares] = ["names", "changes", "who", "scores", "shares"].map((key) => model.get(key));
  const means = (change, score) => shares[change][score].map((seeds) => total(seeds) / seeds.length);
  const at = () => [changes.indexOf(model.get("change")), scores.indexOf(model.get("score"))];
  ui.ask({ question: () => {
    const [change, score] = at();
    return `By ${scores[score]}, ${names[who[change]]} has a share of ${format(means(0, score)[who[change]])}. What is its share if ${changes[change]}?`;
  }, of: "then", name: () => names[who[at()[0]]], min: 0, max: 1, step: 0.01, digits: 2, hides: ["then", scores[0]],
    replay: { key: "change", at: (change) => change } });
  ui.group("w-controls", () => {
    ui.choice({ key: "change", label: "what changes", options: changes.slice(1).map((name) => [name, name]) });
    ui.choice({ key: "score", label: "score", options: scores.map((name) => [name, name]) });
  });
  const high = 26 * names.length;
  const plot = shape("svg", { viewBox: `0 0 380 ${high + 34}`, role: "img", class: "w-chart" });
  let show;
  ui.group("w-sides", () => {
    ui.group("", () => {
      ui.root.append(plot);
      ui.legend([["before, mean", "currentColor", true], ["then, mean and seeds", "var(--client-0)"]]);
    });
    show = ui.table("Shares, means over seeds", names, ["before", "then", scores[0]].map((name, i) => ({ name, short: i > 1 ? "then, retrained" : name })));
  });
  return () => {
    const [change, score] = at();
    const [before, after, retrained] = [means(0, score), means(change, score), means(change, 0)];
    const then = after.map((share, k) => before[k] + ui.part * (share - before[k]));
    show("before", before);
    show("then", then);
    show(scores[0], retrained);
    const place = (share) => 76 + 290 * share;
    const row = (k) => 26 * k + 16;
    plot.replaceChildren(...names.map((name, k) => shape("text", { x: 68, y: row(k) + 4, "text-anchor": "end" }, name)),
      shape("path", { d: `M76 ${high + 6}H366`, class: "w-axis" }),
      ...[0, 0.5, 1].map((share) => shape("text", { x: place(share), y: high + 20, "text-anchor": "middle" }, format(share, 1))),
      shape("text", { x: 221, y: high + 32, "text-anchor": "middle" }, `share by ${scores[score]}`),
      ...names.flatMap((_, k) => [
        shape("path", { d: `M${place(before[k])} ${row(k) - 10}v20`, stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "4 3" }),
        ...(ui.veiled ? [] : [
          ...(ui.part < 1 ? [] : shares[change][score][k].map((share) => shape("circle", { cx: place(share), cy: row(k), r: 2, fill: "currentColor" }))),
          shape("circle", { cx: place(then[k]), cy: row(k), r: 6, fill: "none", stroke: "var(--client-0)", "stroke-width": 2.5 })])]));
    const told = ui.veiled ? "" : names.map((name, k) => `${name} ${format(before[k])}, then ${format(then[k])}`).join("; ");
    plot.setAttribute("aria-label", `Shares by ${scores[score]} if ${changes[change]}. ${told}`);
    const k = who[change];
    return `If ${changes[change]}, the share of ${names[k]} by ${scores[score]} goes from ${format(before[k])} to ${format(after[k])}; by ${scores[0]} it is then ${format(retrained[k])}.`;
  };
}

export default { render: (context) => board(context, "changes-explorer", build) };
