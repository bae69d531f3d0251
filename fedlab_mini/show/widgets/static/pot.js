/* One pot and four rules that divide it: who gets what, and which promises are kept. */
const RULES = ["Shapley", "marginal", "nucleolus", "by score"];
const PROMISES = ["left over", "worst alone", "worst group", "second name"];

/* The nucleolus of three players. Player i's pay lies between what i has alone and what the other two leave, each moved by
 * the same shortfall; the smallest that leaves room fixes one player or all, and the other two then share in the middle. */
function nucleolus(v) {
  const pot = v[7];
  const own = [v[1], v[2], v[4]];
  const left = [pot - v[6], pot - v[5], pot - v[3]];
  const pairs = own.map((least, i) => (least - left[i]) / 2);
  const all = [(total(own) - pot) / 3, (pot - total(left)) / 3];
  const short = Math.max(...pairs, ...all);
  if (short > Math.max(...pairs) + 1e-9) return all[0] >= all[1] ? own.map((x) => x - all[0]) : left.map((x) => x + all[1]);
  const i = pairs.indexOf(Math.max(...pairs));
  const [j, k] = [0, 1, 2].filter((p) => p !== i);
  const pay = [];
  pay[i] = own[i] - short;
  const low = Math.max(own[j], pot - left[k] - pay[i]);
  const high = Math.min(left[j], pot - pay[i] - own[k]);
  pay[j] = (low + high) / 2;
  pay[k] = pot - pay[i] - pay[j];
  return pay;
}

/* What every rule pays in a game given by its 2^n worths. */
function rules(worth) {
  const n = Math.round(Math.log2(worth.length));
  const players = Array.from({ length: n }, (_, k) => k);
  const pot = worth.at(-1);
  const scores = players.map((k) => Math.max(0, worth[1 << k]));
  const sum = total(scores);
  return [shapley(worth), players.map((k) => pot - worth[(1 << n) - 1 - (1 << k)]),
    n === 3 ? nucleolus(worth) : players.map(() => NaN), scores.map((s) => (pot * (sum > 0 ? s / sum : 1 / n)))];
}

function build(ui) {
  const { model } = ui;
  const names = ["A", "B", "C"];
  const label = (mask) => names.filter((_, k) => (mask >> k) & 1).join(" ");
  ui.ask({ question: () => {
    const v = model.get("worths");
    return `Alone, A earns ${format(v[1], 0)}, B ${format(v[2], 0)}, C ${format(v[4], 0)}; all earn ${format(v[7], 0)}. How much of it does marginal pay leave over?`;
  }, of: "left over", name: () => "marginal", min: -120, max: 120, step: 2, digits: 1, hides: [...names, ...PROMISES],
    replay: { key: "worths", at: (worths, part) => worths.map((w) => w * part) } });
  ui.group("w-controls", () => {
    for (let mask = 1; mask < 8; mask++) ui.slider({ key: "worths", path: [mask], label: `worth of ${label(mask)}`, min: 0, max: 120, step: 2 });
    ui.toggle({ key: "copies", label: "second name repeats A's work" });
  });
  const plot = shape("svg", { viewBox: "0 0 380 116", role: "img", class: "w-chart" });
  let pays;
  ui.group("w-sides", () => {
    ui.group("", () => {
      ui.root.append(plot);
      ui.legend(names.map((name, k) => [name, colour(k)]));
    });
    pays = ui.table("What each rule pays", RULES, names.map((name) => ({ name, digits: 1 })), { head: "rule" });
  });
  const kept = ui.table("Above 0: a promise is broken", RULES, [{ name: "left over", digits: 1 }, { name: "worst alone", short: "less than alone", digits: 1 },
    { name: "worst group", short: "group leaves", digits: 1 }, { name: "second name", short: "second name gains", digits: 1 }], { head: "rule" });
  return () => {
    const v = ui.get("worths");
    const found = rules(v);
    const joined = (mask) => (mask & 6) | Number(model.get("copies") ? (mask & 9) > 0 : (mask & 9) === 9); // bit 3 is A's second name
    const twice = rules(Array.from({ length: 16 }, (_, mask) => v[joined(mask)]));
    names.forEach((name, k) => pays(name, found.map((pay) => pay[k])));
    const short = (pay, mask) => v[mask] - total(names.map((_, k) => ((mask >> k) & 1 ? pay[k] : 0)));
    const promises = found.map((pay, r) => [v[7] - total(pay), Math.max(...[1, 2, 4].map((m) => short(pay, m))),
      Math.max(...[1, 2, 3, 4, 5, 6].map((m) => short(pay, m))), twice[r][0] + twice[r][3] - pay[0]]);
    PROMISES.forEach((name, p) => kept(name, promises.map((of) => of[p])));
    const lit = promises.map((of) => of.map((x, p) => (p ? x <= 1e-9 : Math.abs(x) <= 1e-9)));
    const place = (x) => 78 + clamp(x, 0, 240) * 1.2;
    const bars = ui.veiled ? [] : found.flatMap((pay, r) => {
      let from = 0;
      return pay.map((x, k) => {
        const begin = from;
        from += Math.max(0, x);
        return shape("rect", { x: place(begin), y: 5 + 23 * r, width: Math.max(0, place(from) - place(begin)), height: 15, fill: colour(k) });
      });
    });
    plot.replaceChildren(...RULES.map((name, r) => shape("text", { x: 72, y: 17 + 23 * r, "text-anchor": "end" }, name)), ...bars,
      shape("path", { d: `M${place(v[7])} 2V96`, class: "w-now" }),
      shape("text", { x: place(v[7]), y: 110, "text-anchor": "middle" }, `pot ${format(v[7], 0)}`));
    const count = (r) => lit[r].filter(Boolean).length;
    const said = `Promises kept: ${RULES.map((name, r) => `${name} ${count(r)} of ${r === 2 ? 3 : 4}`).join(", ")}`;
    plot.setAttribute("aria-label", ui.veiled ? `A pot of ${format(v[7], 0)}` : said);
    return `${said}.`;
  };
}

export default { render: (context) => board(context, "pot-explorer", build) };
