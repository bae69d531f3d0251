/* What the book's explorers share: a question to guess at, controls, tables, line charts, a replay. No other library.
 *
 * An explorer is `board(context, name, build)`. `build(ui)` asks its question, lays out controls and pictures and
 * returns the function that fills them and gives a sentence on what is seen. It runs after every change, whether a
 * reader or the kernel made it, and in every frame of a replay: so it reads settings with `ui.get`.
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
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/* A number as text: no minus before zero, a dash for what does not exist. */
function format(x, digits = 2) {
  if (!Number.isFinite(x)) return "–";
  return (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits);
}

/* Who has the most: names, unless all have the same. */
function largest(list, names) {
  const found = names.filter((_, k) => list[k] > Math.max(...list) - 1e-9);
  return found.length < names.length ? found.join(", ") : "nobody, all are equal";
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
  const line = make("p", { role: "status", id: `w-${serial}` });
  const first = new Map();
  const syncs = [];
  const values = new Map(); // what tables hold, veiled or not
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let ids = 0;
  let update = () => {};
  let asked; // the question
  let guess; // nothing until the reader commits; stored nowhere
  let veiled = false;
  let moved; // the setting that a replay moves, and how
  let part = 1; // of the replay, 1 for the present state
  let timer = 0;
  let said = "";
  let spoken = 0;
  let waiting;

  /* A screen reader hears the newest sentence, at most one a second, and none from a replay before its end. */
  const speak = () => {
    clearTimeout(waiting);
    const rest = spoken + 1000 - Date.now();
    if (line.textContent === said) return;
    if (rest > 0) { waiting = setTimeout(speak, rest); return; }
    line.textContent = said;
    spoken = Date.now();
  };
  const draw = () => {
    for (const f of syncs) f();
    const seen = update() ?? "";
    const verdict = asked?.settle() ?? "";
    if (timer) return;
    said = veiled ? "Commit to a guess, then reveal." : `${verdict} ${seen}`.trim();
    speak();
  };
  const watch = (key) => {
    if (!key || first.has(key)) return;
    first.set(key, structuredClone(model.get(key)));
    model.on(`change:${key}`, draw);
  };
  const id = () => `w-${serial}-${++ids}`;
  const get = (key) => (part < 1 && key === moved?.key ? moved.at(model.get(key), part) : model.get(key));
  const write = (key, path, value) => {
    halt(1);
    let next = value;
    if (path.length) {
      next = structuredClone(model.get(key));
      path.slice(0, -1).reduce((inner, step) => inner[step], next)[path.at(-1)] = value;
    }
    model.set(key, next);
    model.save_changes();
  };
  const halt = (where) => {
    clearInterval(timer);
    timer = 0;
    part = where;
  };
  const titled = (name, text, tint) => {
    const [, word, rest] = text.match(/^(client )?(.*)$/); // a narrow screen has no room for the word
    const title = make(name ? "label" : "span", name ? { for: name } : {}, rest);
    if (word) title.prepend(make("span", { class: "w-word" }, word));
    if (tint) title.prepend(make("span", { class: "w-swatch", style: `background:${tint}`, "aria-hidden": "true" }));
    return title;
  };

  const ui = {
    root, model, get, watch, write,
    get part() { return part; },
    get veiled() { return veiled; },
    get guessed() { return guess; },
    /* A box that holds the controls and pictures that `inside` makes. */
    group(kind, inside) {
      const box = make("div", { class: kind });
      const outer = ui.root;
      outer.append(box);
      ui.root = box;
      inside();
      ui.root = outer;
      return box;
    },
    /* A labelled slider for a number of the model, or for what `read` and `set` make of it. `bare`, in a table: the label is only heard, the number is the table's. */
    slider({ key, path = [], label, min, max, step = 1, digits = 0, log, read, set, tint, text, bare }) {
      watch(key);
      const name = id();
      const [low, high] = log ? [Math.log10(min), Math.log10(max)] : [min, max];
      const input = make("input", { type: "range", id: name, min: low, max: high, step, "data-lm-suppress-shortcuts": "true" });
      if (bare) input.setAttribute("aria-label", label);
      const output = make("span", { class: "w-now-at", "aria-hidden": "true" });
      input.addEventListener("input", () => {
        const raw = Number(input.value);
        const value = log ? Number((10 ** raw).toPrecision(3)) : raw;
        if (set) set(value); else write(key, path, value);
      });
      syncs.push(() => {
        const value = read ? read() : path.reduce((inner, step) => inner[step], get(key));
        const shown = text ? text(value) : log ? String(Number(value.toPrecision(3))) : format(value, digits);
        input.value = log ? Math.log10(value) : value;
        input.setAttribute("aria-valuetext", shown);
        output.textContent = shown;
      });
      const units = Math.round((high - low) / step);
      ui.root.append(make("div", { class: `w-control${bare ? " w-bare" : units > 130 ? " w-wide" : ""}`, style: `--units:${units}px` },
        ...(bare ? [input] : [titled(name, label, tint), input, output])));
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
      ui.root.append(make("div", { class: "w-control" }, titled(name, label), select));
    },
    toggle({ key, path = [], label, tint }) {
      watch(key);
      const name = id();
      const input = make("input", { type: "checkbox", id: name, "data-lm-suppress-shortcuts": "true" });
      input.addEventListener("change", () => write(key, path, input.checked));
      syncs.push(() => { input.checked = path.reduce((inner, step) => inner[step], model.get(key)); });
      ui.root.append(make("div", { class: "w-check" }, input, titled(name, label, tint)));
    },
    button(label, act) {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", act);
      ui.root.append(button);
      return button;
    },
    /* The question, in words that may follow the settings; the answer is the number that the table column `of` has
     * in the row `name()`. Until it is revealed, which takes a guess, columns and rows in `hides`, a list or a function
     * that gives it, show a question mark, and no line of a chart that is an `answer` is drawn. `replay: { key, at(value, part) }`: where a setting stands at a part of the
     * way that ends in the present state. */
    ask({ question, of, name = () => of, min, max, step, digits, hides, replay }) {
      const text = make("p", { class: "w-question" });
      const mark = make("i", { class: "w-truth", "aria-hidden": "true" });
      moved = replay;
      veiled = !matchMedia("print").matches;
      ui.group("w-ask", () => {
        ui.root.append(text);
        const input = ui.slider({ label: "your guess", min, max, step, digits, read: () => guess ?? (min + max) / 2, set: ui.guess,
          text: (value) => (guess === undefined ? "none yet" : format(value, digits)) });
        input.className = "w-guess";
        const scale = make("span", { class: "w-scale" });
        input.replaceWith(scale);
        scale.append(input, mark);
        ui.group("w-buttons", () => {
          const reveal = ui.button("", () => {
            halt(1);
            veiled = !veiled;
            if (veiled) guess = undefined;
            draw();
            if (veiled) input.focus(); // the button has just gone off
          });
          const again = ui.button("", () => {
            const running = timer;
            if (running) halt(part);
            else if (still.matches) part = part < 1 ? 1 : 0;
            else {
              let last = Date.now();
              if (part === 1) part = 0;
              timer = setInterval(() => {
                const now = Date.now();
                part = Math.min(1, part + Math.min(100, now - last) / 3000); // a slow machine skips nothing
                last = now;
                if (part === 1 || !root.isConnected) halt(1);
                draw();
              }, 50);
            }
            draw();
          });
          ui.button("Reset", () => {
            halt(1);
            for (const [key, value] of first) model.set(key, structuredClone(value));
            model.save_changes();
            draw();
          });
          syncs.push(() => {
            reveal.textContent = veiled ? "Reveal" : "Guess again";
            reveal.disabled = veiled && guess === undefined;
            reveal.setAttribute("aria-describedby", reveal.disabled ? line.id : ""); // it says why
            again.textContent = timer ? "Pause" : part === 1 ? "Replay" : still.matches ? "To the end" : "Go on";
            again.disabled = veiled;
          });
        });
      });
      root.append(line);
      const hidden = () => (typeof hides === "function" ? hides() : hides);
      asked = { hides: (...names) => names.some((one) => hidden().includes(one)), settle() {
        const truth = values.get(`${of}/${name()}`);
        text.textContent = question();
        const known = !veiled && Number.isFinite(truth);
        const at = known ? truth : guess ?? (min + max) / 2; // it sets out from the guess
        mark.style.visibility = veiled ? "hidden" : "";
        mark.style.setProperty("--at", clamp((at - min) / (max - min), 0, 1));
        if (!known) return "";
        const far = format(Math.abs(guess - truth), digits);
        return `The answer is ${format(truth, digits)}${guess === undefined ? "" : Number(far) ? `, your guess was ${far} too ${guess > truth ? "high" : "low"}` : ", as you guessed"}.`;
      } };
    },
    guess(value) {
      guess = value;
      draw();
    },
    /* A table: a row a name, a column a quantity. Returns `show(column, numbers, widest?)`.
     * columns: { name, short: its heading, digits, bar: underline it by size, put(i): a control in the cell } */
    table(caption, rows, columns, { tint, head = "client" } = {}) {
      const cells = {};
      const body = rows.map((row, i) => {
        return make("tr", tint ? { style: `--tint:${tint(i)}` } : {}, make("th", { scope: "row" }, titled(0, row, tint?.(i))), ...columns.map((column) => {
          const number = make("data", { "data-of": column.name, "data-for": row });
          const cell = make("td", column.bar ? { class: "w-bar" } : {}, number);
          if (column.put) cell.append(ui.group("w-put", () => { ui.root.append(number); column.put(i); }));
          (cells[column.name] ??= []).push({ number, cell });
          return cell;
        }));
      });
      const heads = [head, ...columns.map((c) => c.short ?? c.name)].map((text) => make("th", { scope: "col" }, text));
      ui.root.append(make("div", { class: "w-table", tabindex: "0", role: "region", "aria-label": caption },
        make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body))));
      const show = (name, numbers, widest) => {
        const { digits = 2 } = columns.find((c) => c.name === name);
        const top = widest ?? Math.max(...numbers.filter(Number.isFinite).map(Math.abs), 1e-12);
        cells[name].forEach(({ number, cell }, i) => {
          values.set(`${name}/${rows[i]}`, numbers[i]);
          const hidden = veiled && asked.hides(name, rows[i]);
          number.value = hidden ? "" : String(numbers[i]);
          number.textContent = hidden ? "?" : format(numbers[i], digits);
          const size = !hidden && Number.isFinite(numbers[i]) ? Math.min(1, Math.abs(numbers[i]) / top) : 0;
          cell.style.setProperty("--part", `${100 * size}%`);
          cell.classList.toggle("w-negative", numbers[i] < 0);
        });
      };
      show.rows = body;
      return show;
    },
    /* A line chart; `plot(lines, at)` with lines of { y, colour, dash, name, answer } over 0, 1, ... or `x`. With `pick`
     * it shows the guess as a ring at `at`, and a reader sets it by pointing. */
    chart(label, xlabel, { low, high, pick } = {}) {
      const svg = shape("svg", { viewBox: "0 0 380 160", role: "img", "aria-label": label, class: `w-chart${pick ? " w-pick" : ""}` });
      ui.root.append(svg);
      if (pick) {
        const point = (event) => {
          if (!event.buttons) return;
          const { y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
          ui.guess(Number(clamp(low + ((128 - y) * (high - low)) / 116, low, high).toFixed(3)));
        };
        svg.addEventListener("pointerdown", point);
        svg.addEventListener("pointermove", point);
      }
      return (all, at, x) => {
        const lines = all.filter((line) => !(veiled && line.answer));
        const y = lines.flatMap((line) => line.y).filter(Number.isFinite);
        const [bottom, top] = [low ?? Math.min(...y), high ?? Math.max(...y)];
        const span = top - bottom || 1;
        const count = Math.max(...all.map((line) => line.y.length)) - 1 || 1;
        const place = (i) => 36 + 336 * (x ? (x[i] - x[0]) / (x.at(-1) - x[0]) : i / count);
        const height = (v) => 128 - (116 * (v - bottom)) / span;
        const text = (tx, ty, anchor, said) => shape("text", { x: tx, y: ty, "text-anchor": anchor }, said);
        const wide = span < 1 ? 2 : span < 20 ? 1 : 0;
        const end = (v) => (Number.isInteger(v) ? String(v) : format(v));
        svg.replaceChildren(
          shape("path", { d: "M36 12V128H372", class: "w-axis" }),
          text(32, 18, "end", format(top, wide)), text(32, 130, "end", format(bottom, wide)),
          text(36, 143, "middle", end(x ? x[0] : 0)), text(372, 143, "end", end(x ? x.at(-1) : count)),
          text(204, 156, "middle", xlabel),
          ...lines.map(({ y: series, colour: stroke, dash, wide: width = 2 }) => shape("polyline", {
            points: series.flatMap((v, i) => (Number.isFinite(v) ? `${place(i).toFixed(1)},${height(clamp(v, bottom, top)).toFixed(1)}` : [])).join(" "),
            fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dash ?? "none" })),
          ...(at === undefined ? [] : [shape("path", { d: `M${36 + 336 * at} 12V128`, class: "w-now" })]),
          ...(pick && guess !== undefined && at !== undefined ? [shape("circle", { cx: 36 + 336 * at, cy: height(guess), r: 6, class: "w-ring" })] : []));
        svg.setAttribute("aria-label", `${label}. ${lines.filter((line) => line.name).map((line) => `${line.name} ends at ${format(line.y.at(-1))}`).join(", ")}`);
      };
    },
    legend(entries) {
      ui.root.append(make("p", { class: "w-legend" }, ...entries.map(([text, stroke, dash]) => make("span", {},
        make("span", { class: "w-line", style: `border-top:3px ${dash ? "dashed" : "solid"} ${stroke}`, "aria-hidden": "true" }), text))));
    },
  };

  update = build(ui);
  draw();
  spoken = 0; // an answer may follow at once
  el.append(root);
  return () => {
    halt(1);
    clearTimeout(waiting);
    for (const key of first.keys()) model.off(`change:${key}`, draw);
  };
}
