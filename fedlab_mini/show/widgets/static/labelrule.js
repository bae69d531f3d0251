/* The rule that renames a group of labels: how often is it right, how often does it do harm? */

/* Chances of 0 ... n successes. */
function binomial(n, p) {
  if (p <= 0 || p >= 1) return Array.from({ length: n + 1 }, (_, k) => (k === (p >= 1 ? n : 0) ? 1 : 0));
  const logs = [0];
  for (let k = 1; k <= n; k++) logs.push(logs[k - 1] + Math.log(k));
  return logs.map((_, k) => Math.exp(logs[n] - logs[k] - logs[n - k] + k * Math.log(p) + (n - k) * Math.log(1 - p)));
}

/* Chance that a group is renamed, when the model sees the class in it with chance q. */
function accept({ group, server, recall, margin, strict }, q) {
  const seen = binomial(group, q);
  const known = binomial(server, recall);
  const tails = seen.slice(); // chance of k or more
  for (let k = group - 1; k >= 0; k--) tails[k] += tails[k + 1];
  return total(known.map((chance, j) => {
    const right = j / server;
    const enough = (k) => (strict ? k / group > right + 1e-12 : k / group >= right - margin - 1e-12);
    let k = Math.max(0, Math.floor(group * (right - (strict ? 0 : margin))) - 2);
    while (k <= group && !enough(k)) k++;
    return k > group ? 0 : chance * tails[k];
  }));
}

function build(ui) {
  const { model } = ui;
  const rule = () => Object.fromEntries(["group", "server", "recall", "margin", "strict"].map((key) => [key, ui.get(key)]));
  const percent = (part) => `${format(100 * part, 0)} %`;
  const asked = () => (model.get("strict") ? "a right repair" : "a false repair");
  const known = 0.95; // the recall that a better model is compared with
  ui.ask({ question: () => (model.get("strict")
    ? `By the strict rule, a model with a recall of ${percent(known)} repairs a right group of ${model.get("group")} with chance ${format(accept({ ...rule(), recall: known }, known))}. With what chance does one with a recall of ${percent(model.get("recall"))}?`
    : `A group of ${model.get("group")} is not this class, but ${percent(model.get("fraction"))} of it looks like it. With what chance is it renamed, wrongly?`),
    of: "chance", name: asked, min: 0, max: 1, step: 0.01, digits: 2, hides: () => [asked()],
    replay: { key: "recall", at: (recall, part) => 0.5 + (recall - 0.5) * part } });
  ui.group("w-controls", () => {
    ui.slider({ key: "group", label: "group's samples", min: 1, max: 200 });
    ui.slider({ key: "server", label: "server's samples", min: 1, max: 200 });
    ui.slider({ key: "recall", label: "recall, right group", min: 0.5, max: 1, step: 0.01, digits: 2 });
    ui.slider({ key: "fraction", label: "looks right, wrong group", min: 0, max: 1, step: 0.01, digits: 2 });
    ui.slider({ key: "margin", label: "margin", min: 0, max: 0.5, step: 0.01, digits: 2 });
    ui.toggle({ key: "strict", label: "strict, as published: no margin" });
  });
  let plot, show;
  ui.group("w-sides", () => {
    plot = ui.chart("Chance of renaming", "margin: chance of renaming", { low: 0, high: 1, pick: true });
    ui.group("", () => {
      show = ui.table("Chance that the group is renamed", ["a right repair", "a false repair"], [{ name: "chance", digits: 3, bar: true }], { head: "", tint: (i) => ["var(--client-0)", "var(--corrupted)"][i] });
      ui.legend([["the group is truly this class", "var(--client-0)"], ["it only looks like it", "var(--corrupted)", true]]);
    });
  });
  const margins = Array.from({ length: 51 }, (_, i) => i / 100);
  return () => {
    const now = rule();
    const [right, wrong] = [now.recall, model.get("fraction")].map((q) => accept(now, q));
    show("chance", [right, wrong], 1);
    const along = (q) => margins.map((margin) => accept({ ...now, margin, strict: false }, q));
    plot([{ y: along(now.recall), colour: "var(--client-0)", name: "right repair" }, { y: along(model.get("fraction")), colour: "var(--corrupted)", dash: "6 3", name: "false repair", answer: !now.strict }],
      now.strict ? undefined : now.margin / 0.5, margins);
    return `${now.strict ? "The strict rule" : `With a margin of ${format(now.margin)} the rule`} repairs a right group with chance ${format(right)} and a wrong one with chance ${format(wrong)}.`;
  };
}

export default { render: (context) => board(context, "label-rule-explorer", build) };
