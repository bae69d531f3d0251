/* A game of two to four players: sliders for the coalitions, a row for every order, the mean below. */
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

function build(ui) {
  const { model } = ui;
  const names = model.get("names");
  const players = names.map((_, i) => i);
  const all = sequences(players);
  const [low, high] = [model.get("lowest"), model.get("highest")];
  const label = (mask) => players.filter((i) => (mask >> i) & 1).map((i) => names[i]).join(" ");
  ui.group("w-controls", () => {
    for (let mask = 1; mask < 1 << names.length; mask++) {
      ui.slider({ key: "values", path: [mask], label: `worth of ${label(mask)}`, min: low, max: high,
        step: high - low > 20 ? 1 : (high - low) / 100, digits: 2 });
    }
  });
  ui.slider({ key: "orders", label: "orders counted", min: 1, max: all.length, text: (k) => `${k} of ${all.length}` });
  const rows = [...all.map((order) => order.map((i) => names[i]).join(", ")), "mean"];
  const show = ui.table("What each player adds, order by order", rows, names.map((name) => ({ name })), { head: "order" });
  show.rows.at(-1).classList.add("w-strong");
  const bars = ui.table("Share of each player", names, [{ name: "share", bar: true }], { head: "player", tint: colour });
  const say = ui.status();
  ui.reset();
  return () => {
    const added = all.map((order) => marginals(model.get("values"), order));
    const used = model.get("orders");
    const phi = players.map((i) => total(added.slice(0, used).map((row) => row[i])) / used);
    names.forEach((name, i) => show(name, [...added.map((row) => row[i]), phi[i]]));
    show.rows.forEach((row, k) => row.classList.toggle("w-off", k >= used && k < all.length));
    bars("share", phi);
    const what = used === all.length ? "the Shapley value" : "an estimate of the Shapley value";
    say(`The mean over ${used} of ${all.length} orders is ${what}. It sums to ${format(total(phi))}, what all earn together.`);
  };
}

export default { render: (context) => board(context, "shapley-explorer", build) };
