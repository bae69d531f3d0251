/* A game of two to four players: sliders for the coalitions, a row for every order, the mean below. */

const clean = (x) => (Math.abs(x) < 5e-3 ? 0 : x).toFixed(2);

function orders(players) {
  if (players.length < 2) return [players];
  return players.flatMap((first) =>
    orders(players.filter((p) => p !== first)).map((rest) => [first, ...rest]));
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

function mean(rows, player) {
  return rows.reduce((sum, row) => sum + row[player], 0) / rows.length;
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/* JupyterLab leaves arrow keys to an input only if the input itself carries this mark. */
function slider(id, min, max, step, value) {
  const input = make("input", { type: "range", id, min, max, step, "data-lm-suppress-shortcuts": "true" });
  input.value = value;
  return input;
}

function render({ model, el }) {
  const names = model.get("names");
  const start = model.get("values").slice();
  const [low, high] = [model.get("lowest"), model.get("highest")];
  const players = names.map((_, i) => i);
  const all = orders(players);
  const serial = Math.random().toString(36).slice(2);
  const label = (mask) => players.filter((i) => (mask >> i) & 1).map((i) => names[i]).join(" ");
  const step = high - low > 20 ? 1 : (high - low) / 100;

  const sliders = make("div", { class: "sx-sliders" });
  const inputs = new Map();
  for (let mask = 1; mask < start.length; mask++) {
    const id = `sx-${serial}-${mask}`;
    const input = slider(id, low, high, step, start[mask]);
    const output = make("output", { for: id });
    inputs.set(mask, { input, output });
    sliders.append(make("div", { class: "sx-slider" }, make("label", { for: id }, `worth of ${label(mask)}`), input, output));
    input.addEventListener("input", () => {
      const values = model.get("values").slice();
      values[mask] = Number(input.value);
      model.set("values", values);
      model.save_changes();
    });
  }

  const countId = `sx-${serial}-orders`;
  const count = slider(countId, 1, all.length, 1, all.length);
  const counted = make("output", { for: countId });
  count.addEventListener("input", draw);
  const body = make("tbody");
  const rows = all.map((order) => {
    const cells = players.map(() => make("td"));
    const row = make("tr", {}, make("th", { scope: "row" }, order.map((i) => names[i]).join(", ")), ...cells);
    body.append(row);
    return { order, row, cells };
  });
  const means = players.map(() => ({ text: make("span", { class: "sx-mean" }), bar: make("div", { class: "sx-bar", "aria-hidden": "true" }) }));
  const table = make("table", {},
    make("caption", {}, "What each player adds, order by order"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "order"), ...names.map((name) => make("th", { scope: "col" }, name)))),
    body,
    make("tfoot", {}, make("tr", {}, make("th", { scope: "row" }, "mean"), ...means.map(({ text, bar }) => make("td", {}, text, bar)))));
  const status = make("p", { role: "status" });
  const reset = make("button", { type: "button" }, "Reset");
  reset.addEventListener("click", () => {
    count.value = all.length;
    model.set("values", start.slice());
    model.save_changes();
    draw();
  });

  function draw() {
    const values = model.get("values");
    for (const [mask, { input, output }] of inputs) {
      input.value = values[mask];
      output.textContent = clean(values[mask]);
    }
    const used = Number(count.value);
    const added = rows.map(({ order }) => marginals(values, order));
    rows.forEach(({ row, cells }, k) => {
      row.classList.toggle("sx-out", k >= used);
      cells.forEach((cell, i) => { cell.textContent = clean(added[k][i]); });
    });
    const phi = players.map((i) => mean(added.slice(0, used), i));
    const widest = Math.max(...phi.map(Math.abs), 1e-9);
    means.forEach(({ text, bar }, i) => {
      text.textContent = clean(phi[i]);
      bar.style.width = `${(100 * Math.abs(phi[i])) / widest}%`;
      bar.classList.toggle("sx-negative", phi[i] < 0);
    });
    const sum = clean(phi.reduce((a, b) => a + b, 0));
    const what = used === all.length ? "the Shapley value" : "an estimate of the Shapley value";
    counted.textContent = `${used} of ${all.length}`;
    status.textContent = `The mean over ${used} of ${all.length} orders is ${what}. It sums to ${sum}, what all earn together.`;
  }

  el.classList.add("shapley-explorer");
  el.append(sliders,
    make("div", { class: "sx-slider" }, make("label", { for: countId }, "orders counted"), count, counted),
    make("div", { class: "sx-table", tabindex: "0", role: "region", "aria-label": "Table of orders" }, table),
    status, reset);
  draw();
  model.on("change:values", draw);
  return () => model.off("change:values", draw);
}

export default { render };
