/* Who holds what: each class is cut among the clients in Dirichlet proportions that follow alpha smoothly. */

/* Logarithm of the gamma function, by Stirling's series after a shift. */
function logGamma(x) {
  let shift = 0;
  for (; x < 12; x++) shift -= Math.log(x);
  const r = 1 / (x * x);
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + (1 / 12 - r * (1 / 360 - r / 1260)) / x;
}

/* Share of a gamma distribution below exp(y): series on the left, continued fraction on the right. */
function below(a, y) {
  const x = Math.exp(y);
  const front = Math.exp(a * y - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = 1; n < 400 && term > sum * 1e-16; n++) sum += term *= x / (a + n);
    return front * sum;
  }
  let b = x + 1 - a, c = 1e300, d = 1 / b, f = d; // Lentz's way to evaluate the fraction
  for (let n = 1; n < 400 && Math.abs(c * d - 1) > 1e-16; n++) {
    b += 2;
    d = 1 / (b - n * (n - a) * d);
    c = b - (n * (n - a)) / c;
    f *= c * d;
  }
  return 1 - front * f;
}

/* Logarithm of the gamma variable that has probability u below it. */
function quantile(a, u) {
  let low = (Math.log(u) + logGamma(a + 1)) / a - 1; // below(a, y) <= exp(a y) / gamma(a + 1)
  let high = Math.log(a + 60 + 12 * Math.sqrt(a));
  for (let k = 0; k < 80; k++) {
    const middle = (low + high) / 2;
    if (below(a, middle) < u) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

/* Whole numbers in these proportions, cut at the rounded running sums. */
function cut(shares, count) {
  let sum = 0;
  const ends = shares.map((share) => Math.floor((sum += share) * count + 0.5));
  ends[ends.length - 1] = count;
  return ends.map((end, k) => end - (k ? ends[k - 1] : 0));
}

function build(ui) {
  const { model } = ui;
  const totals = model.get("totals");
  const classes = model.get("classes");
  const most = model.get("most");
  const few = "classes of which one client holds 9 in 10";
  ui.ask({ question: () => `${classes.length} classes, ${model.get("clients")} clients, alpha ${Number(model.get("alpha").toPrecision(3))}. How many classes lie in one hand, nine tenths or more of them with one client?`,
    of: "value", name: () => few, min: 0, max: classes.length, digits: 0, hides: [...classes.map((name) => `class ${name}`), "classes a client holds", few],
    replay: { key: "alpha", at: (alpha, part) => 100 * (alpha / 100) ** part } });
  ui.group("w-controls", () => {
    ui.slider({ key: "alpha", label: "alpha", min: 0.05, max: 100, step: 0.05, log: true });
    ui.slider({ key: "clients", label: "clients", min: 2, max: most });
    ui.slider({ key: "seed", label: "seed", min: 0, max: 19 });
  });
  const names = Array.from({ length: most }, (_, k) => `client ${k}`);
  const columns = [...classes.map((name) => ({ name: `class ${name}`, short: name, digits: 0, bar: true })), { name: "samples", digits: 0 }];
  /* A bar a class, a piece a client in its colour. */
  const stacks = classes.map((name) => make("div", { class: "w-stack" }, make("b", {}, name), ...names.map((_, k) => make("i", { style: `background:${colour(k)}` }))));
  let facts;
  ui.group("w-sides", () => {
    ui.root.append(make("div", { "aria-hidden": "true" }, "Who holds each class, a colour a client", ...stacks));
    ui.group("", () => {
      facts = ui.table("In short", ["classes a client holds", few, "largest client's share"], [{ name: "value" }], { head: "" });
    });
  });
  const show = ui.table("Samples of each class at each client", names, columns, { tint: colour });
  return () => {
    const K = model.get("clients");
    const draws = Array.from({ length: most * classes.length }, uniforms(model.get("seed")));
    const alpha = ui.get("alpha");
    const counts = totals.map((count, c) => {
      const logs = Array.from({ length: K }, (_, k) => quantile(alpha, draws[c * most + k]));
      const top = Math.max(...logs);
      const weights = logs.map((y) => Math.exp(y - top));
      return cut(weights.map((w) => w / total(weights)), count);
    });
    const sizes = Array.from({ length: K }, (_, k) => total(counts.map((row) => row[k])));
    const pad = (list) => names.map((_, k) => (k < K ? list[k] : 0));
    classes.forEach((name, c) => {
      show(`class ${name}`, pad(counts[c]), totals[c]);
      pad(counts[c]).forEach((count, k) => { stacks[c].children[k + 1].style.flexGrow = ui.veiled ? 0 : count; });
    });
    show("samples", pad(sizes));
    show.rows.forEach((row, k) => { row.hidden = k >= K; });
    const held = sizes.map((_, k) => counts.filter((row) => row[k] > 0).length);
    const alone = counts.filter((row, c) => Math.max(...row) >= 0.9 * totals[c]).length;
    facts("value", [total(held) / K, alone, Math.max(...sizes) / total(totals)]);
    return `With alpha ${Number(alpha.toPrecision(3))}, ${K} clients hold ${format(total(held) / K, 1)} classes each on average; ${alone} of ${classes.length} classes are nearly all in one hand.`;
  };
}

export default { render: (context) => board(context, "partition-explorer", build) };
