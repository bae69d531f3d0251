/* A game of two to four players: sliders for the coalitions, a row for every ordering, the mean below. */
function sequences(players) {
  if (players.length < 2) return [players];
  return players.flatMap((first) => sequences(players.filter((p) => p !== first)).map((rest) => [first, ...rest]));
}

/* What each player adds when the players come in this order; indexed by player. */
function marginals(values, order) {
  const added = [];
  let mask = 0;
  for (const player of order) {
    added[player] = values[mask | (1 << player)] - values[mask];
    mask |= 1 << player;
  }
  return added;
}

/* Every ordering is a way up: coalitions by size to the right, by worth upwards. A line is as wide as many counted orderings take
 * it, and has the colour of the player who joins. Beside it what the shares add up to; the guess is an outline. */
function lattice(ui, names, low, high) {
  const n = names.length;
  const svg = shape("svg", { viewBox: "0 0 380 200", class: "w-chart", role: "img", "aria-label": "Coalitions by size and worth; lines show who joins; shares add up to the worth of all" });
  ui.root.append(svg);
  const height = (v) => Math.min(198, 180 - (166 * (v - low)) / (high - low)); // a guess may be out of scale
  const members = (mask) => names.filter((_, i) => (mask >> i) & 1);
  const spot = Array.from({ length: 1 << n }, (_, mask) => {
    const size = members(mask).length;
    const alike = Array.from({ length: 1 << n }, (_, m) => m).filter((m) => members(m).length === size);
    return 14 + (246 * size) / n + (54 * (2 * alike.indexOf(mask) + 1 - alike.length)) / (2 * alike.length); // worths may be equal
  });
  const box = (k, from, to, attributes) => shape("rect", { x: 296 + (76 / n) * k, width: 70 / n, y: Math.min(height(from), height(to)), height: Math.max(1, Math.abs(height(from) - height(to))), ...attributes });
  return (values, orders, phi, guess) => {
    const travels = new Map();
    for (const order of orders) {
      let mask = 0;
      for (const i of order) {
        const key = [mask, mask | (1 << i), i].join();
        travels.set(key, (travels.get(key) ?? 0) + 1);
        mask |= 1 << i;
      }
    }
    let sum = 0;
    const top = values.at(-1);
    svg.replaceChildren(shape("path", { d: `M4 ${height(0)}H372`, class: "w-now" }),
      ...[...travels].map(([key, count]) => {
        const [from, to, i] = key.split(",");
        return shape("path", { d: `M${spot[from]} ${height(values[from])}L${spot[to]} ${height(values[to])}`, stroke: colour(i), "stroke-width": 1 + (9 * count) / orders.length, "stroke-opacity": 0.85 });
      }),
      ...values.map((v, mask) => shape("circle", { cx: spot[mask], cy: height(v), r: 4, fill: "currentColor" })),
      ...values.map((v, mask) => shape("text", { x: spot[mask], y: height(v) - 9, "text-anchor": "middle" }, mask ? members(mask).join("") : "")),
      ...(ui.veiled ? [] : phi.map((share, k) => box(k, sum, sum += share, { fill: colour(k), "fill-opacity": share < 0 ? 0.4 : 1, stroke: colour(k) }))),
      ...(guess === undefined ? [] : [box(n - 1, top - guess, top, { class: "w-ring", "stroke-dasharray": "4 3" })]),
      ...names.map((name, k) => shape("text", { x: 296 + (76 / n) * (k + 0.45), y: 197, "text-anchor": "middle" }, name)));
  };
}

function build(ui) {
  const { model } = ui;
  const names = model.get("names");
  const players = names.map((_, i) => i);
  const all = sequences(players);
  const [low, high] = [model.get("lowest"), model.get("highest")];
  const label = (mask) => players.filter((i) => (mask >> i) & 1).map((i) => names[i]).join(" ");
  const step = high - low > 20 ? 1 : (high - low) / 100;
  const last = names.at(-1);
  const worth = (mask) => format(model.get("values").at(mask), Number.isInteger(model.get("values").at(mask)) ? 0 : 2);
  ui.ask({ question: () => `${last} alone is worth ${worth(1 << (names.length - 1))}, all together ${worth(-1)}. What is the share of ${last}, the Shapley value? Can it be negative?`,
    of: "share", name: () => last, min: low - (high - low) / 2, max: high, step, digits: step === 1 ? 0 : 2, hides: ["share", ...names],
    replay: { key: "orders", at: (orders, part) => Math.max(1, Math.ceil(orders * part)) } });
  ui.group("w-controls", () => {
    for (let mask = 1; mask < 1 << names.length; mask++) {
      ui.slider({ key: "values", path: [mask], label: `worth of ${label(mask)}`, min: low, max: high, step, digits: 2 });
    }
    ui.slider({ key: "orders", label: "orderings counted", min: 1, max: all.length, text: (k) => `${k} of ${all.length}` });
  });
  const rows = [...all.map((order) => order.map((i) => names[i]).join(", ")), "mean"];
  let picture, show, bars;
  ui.group("w-sides", () => {
    ui.group("", () => {
      picture = lattice(ui, names, Math.min(low, 0), high);
      bars = ui.table("Share of each player", names, [{ name: "share", short: "share φ", bar: true }], { head: "player", tint: colour });
    });
    ui.group("", () => { show = ui.table("What each player adds, ordering by ordering", rows, names.map((name) => ({ name })), { head: "ordering" }); });
  });
  show.rows.at(-1).classList.add("w-strong");
  return () => {
    const values = model.get("values");
    const added = all.map((order) => marginals(values, order));
    const used = ui.get("orders");
    const phi = players.map((i) => total(added.slice(0, used).map((row) => row[i])) / used);
    picture(values, all.slice(0, used), phi, ui.guessed);
    names.forEach((name, i) => show(name, [...added.map((row) => row[i]), phi[i]]));
    show.rows.forEach((row, k) => row.classList.toggle("w-off", k >= used && k < all.length));
    bars("share", phi);
    const what = used === all.length ? "the Shapley value" : "an estimate of the Shapley value";
    return `The mean over ${used} of ${all.length} orderings is ${what}. It sums to ${format(total(phi))}, what all earn together.`;
  };
}

export default { render: (context) => board(context, "shapley-explorer", build) };
