/* Three clients that hold numbers, the last of them perhaps twice: who is missed, and who is worth what? */
function build(ui) {
  const { model } = ui;
  const names = ["A", "B", "C", "C again"];
  const tint = (k) => colour(Math.min(k, 2));
  const truth = model.get("truth");
  const full = (1 << names.length) - 1;
  const own = () => {
    const means = ui.get("means");
    return model.get("sizes").concat(model.get("twice") ? model.get("sizes").at(-1) : 0).map((n, k) => ({ n, mean: means[Math.min(k, 2)] }));
  };
  /* The model of every coalition, index = bit mask: the mean of its numbers, 0 for nobody. */
  const models = () => Array.from({ length: full + 1 }, (_, mask) => {
    const inside = own().filter((_, k) => (mask >> k) & 1);
    return total(inside.map(({ n, mean }) => n * mean)) / Math.max(1, total(inside.map(({ n }) => n)));
  });
  ui.ask({ question: () => `${model.get("twice") ? "C joins twice, with the same numbers. How much is one C missed" : "C joins once. How much is it missed"}: what is its leave-one-out value?`,
    of: "leave-one-out", name: () => "C", min: -10, max: 30, step: 0.5, digits: 2, hides: ["leave-one-out", "Shapley value φ"],
    replay: { key: "means", at: (means, part) => means.map((mean) => truth + part * (mean - truth)) } });
  ui.group("w-controls", () => ui.toggle({ key: "twice", label: "C joins twice" }));
  let line, facts;
  ui.group("w-sides", () => {
    line = numberLine(ui, "Means of the clients, models and the true number", 0, 12);
    facts = ui.table("All together", ["model of all", "worth of all"], [{ name: "value" }], { head: "" });
  });
  const show = ui.table("What each is worth", names, [{ name: "n", digits: 0 },
    { name: "mean", digits: 1, put: (k) => (k < 3 ? ui.slider({ key: "means", path: [k], label: `mean of ${names[k]}`, min: 0, max: 12, step: 0.5, digits: 1, bare: true }) : 0) },
    { name: "leave-one-out", bar: true }, { name: "Shapley value φ", short: "Shapley φ", bar: true }], { tint });
  return () => {
    const all = models();
    const worth = all.map((at) => -((at - truth) ** 2));
    const twice = model.get("twice");
    const missed = names.map((_, k) => worth[full] - worth[full ^ (1 << k)]);
    show("n", own().map(({ n }) => n));
    show("mean", own().map(({ mean }) => mean));
    show("leave-one-out", missed);
    show("Shapley value φ", shapley(worth));
    show.rows.at(-1).hidden = !twice;
    facts("value", [all[full], worth[full]]);
    line([...own().slice(0, 3).map(({ mean }, k) => ({ at: mean, name: names[k], tint: colour(k) })), { at: truth, name: "true", up: true }, { at: all[full], name: "all", tint: "var(--accent)", up: true },
      { at: all[full ^ 4], name: twice ? "one C" : "no C", tint: colour(2), up: true, answer: true }]);
    return `The model of all is ${format(all[full])}, with ${twice ? "one C" : "no C"} it is ${format(all[full ^ 4])}; the true number is ${format(truth)}. So ${twice ? "one C" : "C"} is missed by ${format(missed[2])}.`;
  };
}

export default { render: (context) => board(context, "replica-explorer", build) };
