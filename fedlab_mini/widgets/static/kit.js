/* What the book's widgets share: labelled controls, tables of numbers, line charts. No other library.
 *
 * A widget is `board(context, name, build)`. `build(ui)` lays out controls and tables and returns the
 * function that fills them; it runs after every change, whether a reader or the kernel made it.
 */
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const colour = (k) => `var(--client-${k % 10})`;
const total = (list) => list.reduce((a, b) => a + b, 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/* A number as text: no minus before zero, a dash for what does not exist. */
function format(x, digits = 2) {
  if (!Number.isFinite(x)) return "–";
  return (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits);
}

/* The Shapley value of a game given as 2^n worths, index = bit mask of the coalition. */
function shapley(worth) {
  const n = Math.round(Math.log2(worth.length));
  const size = (mask) => (mask ? (mask & 1) + size(mask >> 1) : 0);
  const share = [1 / n]; // s! (n - s - 1)! / n!
  for (let s = 1; s < n; s++) share.push((share[s - 1] * s) / (n - s));
  return Array.from({ length: n }, (_, i) => total(worth.map((v, mask) =>
    (mask >> i) & 1 ? 0 : share[size(mask)] * (worth[mask | (1 << i)] - v))));
}

function board({ model, el }, name, build) {
  const serial = Math.random().toString(36).slice(2);
  const root = make("div", { class: `fedlab-widget ${name}` });
  const first = new Map();
  const syncs = [];
  const stops = [];
  let ids = 0;
  let update = () => {};
  const draw = () => { for (const f of syncs) f(); update(); };
  const watch = (key) => {
    if (first.has(key)) return;
    first.set(key, structuredClone(model.get(key)));
    model.on(`change:${key}`, draw);
  };
  const id = () => `w-${serial}-${++ids}`;
  const read = (key, path) => path.reduce((value, step) => value[step], model.get(key));
  const write = (key, path, value) => {
    let next = value;
    if (path.length) {
      next = structuredClone(model.get(key));
      path.slice(0, -1).reduce((part, step) => part[step], next)[path.at(-1)] = value;
    }
    model.set(key, next);
    model.save_changes();
  };

  const ui = {
    root, model, watch, write,
    /* A box that holds the controls added while `inside` runs. */
    group(kind, inside) {
      const box = make("div", { class: kind });
      const outer = ui.root;
      outer.append(box);
      ui.root = box;
      inside();
      ui.root = outer;
      return box;
    },
    /* A labelled slider for a number of the model, or for what `get` and `set` make of it. */
    slider({ key, path = [], label, min, max, step = 1, digits = 0, log = false, get, set, tint, text }) {
      watch(key);
      const name = id();
      const input = make("input", { type: "range", id: name, min: log ? Math.log10(min) : min,
        max: log ? Math.log10(max) : max, step, "data-lm-suppress-shortcuts": "true" });
      const output = make("output", { for: name });
      const title = make("label", { for: name }, label);
      if (tint) title.prepend(make("span", { class: "w-swatch", style: `background:${tint}`, "aria-hidden": "true" }));
      const now = () => (get ? get() : read(key, path));
      input.addEventListener("input", () => {
        const raw = Number(input.value);
        const value = log ? Number((10 ** raw).toPrecision(3)) : raw;
        if (set) set(value); else write(key, path, value);
      });
      syncs.push(() => {
        const value = now();
        const shown = text ? text(value) : log ? String(Number(value.toPrecision(3))) : format(value, digits);
        input.value = log ? Math.log10(value) : value;
        input.setAttribute("aria-valuetext", shown);
        output.textContent = shown;
      });
      ui.root.append(make("div", { class: "w-control" }, title, input, output));
      return input;
    },
    choice({ key, label, options }) {
      watch(key);
      const name = id();
      const select = make("select", { id: name, "data-lm-suppress-shortcuts": "true" },
        ...options.map(([value, text]) => make("option", { value }, text)));
      select.addEventListener("change", () => {
        const [value] = options.find(([v]) => String(v) === select.value);
        write(key, [], value);
      });
      syncs.push(() => { select.value = model.get(key); });
      ui.root.append(make("div", { class: "w-control" }, make("label", { for: name }, label), select));
    },
    toggle({ key, path = [], label, tint }) {
      watch(key);
      const name = id();
      const input = make("input", { type: "checkbox", id: name, "data-lm-suppress-shortcuts": "true" });
      input.addEventListener("change", () => write(key, path, input.checked));
      syncs.push(() => { input.checked = read(key, path); });
      const title = make("label", { for: name }, label);
      if (tint) title.prepend(make("span", { class: "w-swatch", style: `background:${tint}`, "aria-hidden": "true" }));
      ui.root.append(make("div", { class: "w-check" }, input, title));
    },
    button(label, act) {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", act);
      ui.root.append(button);
      return button;
    },
    /* Counts `key` up to `last`, a step every `pause` milliseconds, until pressed again. */
    play(key, last, pause = 300) {
      let timer = null;
      const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
      const button = ui.button("Play", () => {
        if (timer) return stop();
        if (model.get(key) >= last) write(key, [], 0);
        button.textContent = "Pause";
        timer = setInterval(() => {
          if (model.get(key) >= last || !root.isConnected) stop(); else write(key, [], model.get(key) + 1);
        }, pause);
      });
      stops.push(stop);
    },
    /* A table: a row a name, a column a quantity. Returns `show(column, numbers, text?)`.
     * columns: { name, digits, bar: draw a bar with each number, heat: shade the cell } */
    table(caption, rows, columns, { tint, head = "client" } = {}) {
      const cells = {};
      const body = rows.map((row, i) => {
        const title = make("th", { scope: "row" }, row);
        if (tint) title.prepend(make("span", { class: "w-swatch", style: `background:${tint(i)}`, "aria-hidden": "true" }));
        return make("tr", {}, title, ...columns.map((column) => {
          const number = make("data", { "data-of": column.name, "data-for": row });
          const bar = column.bar && make("div", { class: "w-bar", "aria-hidden": "true" });
          const cell = make("td", {}, number, ...(bar ? [bar] : []));
          (cells[column.name] ??= []).push({ number, bar, cell });
          return cell;
        }));
      });
      const heads = [head, ...columns.map((c) => c.name)].map((text) => make("th", { scope: "col" }, text));
      const lines = body.slice();
      ui.root.append(make("div", { class: "w-table", tabindex: "0", role: "region", "aria-label": caption },
        make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines))));
      const show = (name, numbers, widest) => {
        const { digits = 2, heat } = columns.find((c) => c.name === name);
        const top = widest ?? Math.max(...numbers.filter(Number.isFinite).map(Math.abs), 1e-12);
        cells[name].forEach(({ number, bar, cell }, i) => {
          number.value = String(numbers[i]);
          number.textContent = format(numbers[i], digits);
          const part = Number.isFinite(numbers[i]) ? Math.min(1, Math.abs(numbers[i]) / top) : 0;
          if (bar) bar.style.width = `${100 * part}%`;
          if (bar) bar.classList.toggle("w-negative", numbers[i] < 0);
          if (heat) cell.style.setProperty("--heat", `${Math.round(60 * part)}%`);
        });
      };
      show.rows = body;
      return show;
    },
    /* A line chart; `plot(lines, at)` with lines of { y, colour, dash, name } over 0, 1, ... or `x`. */
    chart(label, xlabel, { low, high } = {}) {
      const svg = shape("svg", { viewBox: "0 0 480 200", role: "img", "aria-label": label, class: "w-chart" });
      ui.root.append(svg);
      return (lines, at, x) => {
        const y = lines.flatMap((line) => line.y).filter(Number.isFinite);
        const [bottom, top] = [low ?? Math.min(...y), high ?? Math.max(...y)];
        const span = top - bottom || 1;
        const count = Math.max(...lines.map((line) => line.y.length)) - 1 || 1;
        const place = (i) => 44 + (424 * (x ? (x[i] - x[0]) / (x.at(-1) - x[0]) : i / count));
        const height = (v) => 168 - (156 * (v - bottom)) / span;
        const text = (tx, ty, anchor, said) => shape("text", { x: tx, y: ty, "text-anchor": anchor }, said);
        const wide = span < 1 ? 2 : span < 20 ? 1 : 0;
        svg.replaceChildren(
          shape("path", { d: "M44 12V168H468", class: "w-axis" }),
          text(40, 18, "end", format(top, wide)), text(40, 170, "end", format(bottom, wide)),
          text(44, 184, "middle", x ? format(x[0]) : "0"), text(468, 184, "end", x ? format(x.at(-1)) : String(count)),
          text(256, 196, "middle", xlabel),
          ...lines.map(({ y: values, colour: stroke, dash, wide: width = 2 }) => shape("polyline", {
            points: values.flatMap((v, i) => (Number.isFinite(v) ? `${place(i).toFixed(1)},${height(v).toFixed(1)}` : [])).join(" "),
            fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dash ?? "none" })),
          ...(at === undefined ? [] : [shape("path", { d: `M${44 + 424 * at} 12V168`, class: "w-now" })]));
        svg.setAttribute("aria-label", `${label}. ${lines.filter((line) => line.name).map((line) => `${line.name} ends at ${format(line.y.at(-1))}`).join(", ")}`);
      };
    },
    /* A sentence that a screen reader speaks when it changes. */
    status() {
      const line = make("p", { role: "status" });
      ui.root.append(line);
      return (text) => { if (line.textContent !== text) line.textContent = text; };
    },
    legend(entries) {
      ui.root.append(make("p", { class: "w-legend" }, ...entries.map(([text, stroke, dash]) => make("span", {},
        make("span", { class: "w-line", style: `border-top:3px ${dash ? "dashed" : "solid"} ${stroke}`, "aria-hidden": "true" }), text))));
    },
    reset() {
      ui.button("Reset", () => {
        for (const [key, value] of first) model.set(key, structuredClone(value));
        model.save_changes();
      });
    },
  };

  update = build(ui) ?? update;
  el.append(root);
  draw();
  return () => {
    for (const stop of stops) stop();
    for (const key of first.keys()) model.off(`change:${key}`, draw);
  };
}
