/* The six clinics' updates in a plane. Fir does no work: what it sends, what it is paid, and who is named. */
const NAMES = ["Alder", "Birch", "Cedar", "Damson", "Elm", "Fir"];
const FIR = 5;
const OWN = "own arrow";
const SENT = { zeros: "zeros", replay: "the server's last step", "replay, median length": "the server's last step at the median length",
  "copy of Alder": "a copy of Alder's update", disguise: "a disguise", [OWN]: "an arrow of its own" };
/* A detector: its name, the range of its limit, whether a larger limit names fewer, and whether a suspicion exceeds the limit. */
const DETECTORS = [
  { name: "last step", min: 0, max: 0.99, step: 0.01, digits: 2, over: (s, limit) => s > limit },
  { name: "duplicates", min: 0.5, max: 0.99, step: 0.01, digits: 2, over: (s, limit) => s > limit },
  { name: "norms", min: 1.1, max: 5, step: 0.1, digits: 1, over: (s, limit) => s > limit },
  { name: "server's gradient", min: -0.5, max: 0.9, step: 0.05, digits: 2, over: (s, limit) => -s <= limit },
];
const ONE = 100; // a length of 1 in the picture
const [LEFT, RIGHT, LOW, HIGH] = [-1.15, 1.25, -0.9, 1.5]; // where the picture ends

const norm = ([x, y]) => Math.hypot(x, y);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
const scaled = (a, by) => [a[0] * by, a[1] * by];
const sum = (a, b) => [a[0] + b[0], a[1] + b[1]];
const cosine = (a, b) => (norm(a) * norm(b) > 0 ? dot(a, b) / norm(a) / norm(b) : 0);
const angle = ([x, y]) => Math.atan2(y, x);
const polar = (turn, length) => [length * Math.cos(turn), length * Math.sin(turn)];
const median = (list) => [...list].sort((a, b) => a - b)[(list.length - 1) >> 1]; // the lower one of two

/* Shares of the pay: positive parts, equal shares if there are none. */
function pay(scores) {
  const positive = scores.map((s) => Math.max(0, s));
  const all = total(positive);
  return positive.map((s) => (all > 0 ? s / all : 1 / scores.length));
}

function build(ui) {
  const { model } = ui;
  const [honest, step, target, sizes] = ["updates", "last_step", "target", "sizes"].map((key) => model.get(key));
  const usual = median(honest.map(norm));
  const attacks = {
    zeros: () => [0, 0],
    replay: () => step,
    "replay, median length": () => scaled(step, usual / norm(step)),
    "copy of Alder": () => honest[0],
    /* as long as the median, and as far from the last step as the median client; of the two sides, the left one */
    disguise: () => polar(angle(step) + Math.acos(median(honest.map((u) => cosine(u, step)))), usual),
    [OWN]: () => model.get("arrow"),
  };
  const sent = () => attacks[ui.get("sends")]();
  const weights = sizes.map((size) => size / total(sizes));
  /* All that is shown, if Fir sends an arrow. */
  const judge = (fir) => {
    const rows = [...honest, fir];
    const whole = rows.reduce((at, row, k) => sum(at, scaled(row, weights[k])), [0, 0]);
    const lengths = rows.map(norm);
    const middle = median(lengths.filter((l) => l > 0));
    const rest = sum(target, scaled(whole, -0.5)); // the Shapley value of a quadratic loss, if the absent are silent
    return { rows, middle,
      scores: [rows.map((row) => cosine(row, whole)), rows.map((row, k) => weights[k] * dot(row, rest)), sizes],
      suspicion: [rows.map((row) => cosine(row, step)), rows.map((row, k) => Math.max(...rows.map((other, j) => (j === k ? -1 : cosine(row, other))))),
        lengths.map((l) => Math.max(l / middle, middle / l)), rows.map((row) => -cosine(row, target))] };
  };
  ui.ask({ question: () => `Fir does no work and sends ${SENT[model.get("sends")]}. How many of the five honest clients does “last step” name if it names Fir?`,
    of: "named with Fir", name: () => "last step", min: 0, max: 5, step: 1, digits: 0, hides: ["named by", "honest named", "named with Fir"],
    replay: { key: "sends", at: (sends) => sends } }); // Fir turns from the last step to what it sends

  const plane = shape("svg", { viewBox: [LEFT, -HIGH, RIGHT - LEFT, HIGH - LOW].map((x) => x * ONE).join(" "), class: "w-plane", role: "group" });
  const zones = shape("g", { fill: "var(--corrupted)", "fill-opacity": 0.16, "fill-rule": "evenodd" });
  const place = ([x, y]) => `${(x * ONE).toFixed(2)} ${(-y * ONE).toFixed(2)}`;
  const arrow = (stroke, attributes = {}) => shape("path", { stroke, "stroke-width": 3, fill: "none", ...attributes });
  /* A line with two short strokes at its tip. */
  const drawn = (at) => {
    const barb = (by) => place(sum(at, polar(angle(at) + by, 0.09)));
    return `M0 0L${place(at)}${norm(at) > 0 ? `M${barb(2.6)}L${place(at)}L${barb(-2.6)}` : ""}`;
  };
  const lines = NAMES.map((_, k) => arrow(colour(k)));
  const letters = NAMES.map((name) => shape("text", { "text-anchor": "middle", "dominant-baseline": "middle", fill: name === "Fir" ? "#fff" : "currentColor" }, name[0]));
  const rings = NAMES.map(() => shape("circle", { r: 10, class: "w-ring" }));
  const tip = shape("circle", { r: 16, fill: colour(FIR), class: "w-tip", stroke: "currentColor", tabindex: 0, role: "slider", "data-lm-suppress-shortcuts": "true",
    "aria-label": "Fir's arrow: left and right turn it, up and down lengthen it", "aria-valuemin": -180, "aria-valuemax": 180 });
  const [goal, from] = [place(target), arrow("currentColor", { "stroke-width": 2, "stroke-dasharray": "5 4", d: drawn(step) })];
  plane.append(zones, shape("path", { d: `M${goal}m-5 -5l10 10m0 -10l-10 10`, stroke: "currentColor", "stroke-width": 2 }),
    shape("text", { x: target[0] * ONE - 9, y: -target[1] * ONE + 4, "text-anchor": "end", fill: "currentColor" }, "lowest loss"), from, ...lines, ...rings, tip, ...letters);

  /* Fir's own arrow, cut where the picture ends. */
  const move = (at) => {
    const far = Math.max(1, at[0] / (at[0] > 0 ? RIGHT : LEFT), at[1] / (at[1] > 0 ? HIGH : LOW));
    ui.write("arrow", [], at.map((x) => Number((x / far).toFixed(3))));
    ui.write("sends", [], OWN);
  };
  const point = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plane.getScreenCTM().inverse());
    move([at.x / ONE, -at.y / ONE]);
  };
  tip.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    tip.focus({ preventScroll: true });
    tip.setPointerCapture(event.pointerId);
    tip.addEventListener("pointermove", point);
    const end = () => tip.removeEventListener("pointermove", point);
    tip.addEventListener("pointerup", end, { once: true });
    tip.addEventListener("pointercancel", end, { once: true });
  });
  /* Without a length an arrow has no direction: it then begins along the last step. */
  const turned = (turn, length) => move(polar(turn, Math.max(length, 0.05)));
  const way = () => angle(norm(sent()) > 0 ? sent() : step);
  tip.addEventListener("keydown", (event) => {
    const [turn, longer] = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [];
    if (turn === undefined) return;
    event.preventDefault();
    turned(way() + (turn * Math.PI) / 36, norm(sent()) + 0.05 * longer);
  });

  let shares, caught;
  ui.group("w-sides", () => {
    ui.group("", () => {
      ui.root.append(plane);
      ui.legend([["last step", "currentColor", true], ["ring, shade: named", "var(--corrupted)"]]);
    });
    ui.group("", () => {
      shares = ui.table("Shares of the pay; detectors that name a client", NAMES, [{ name: "mean cosine", bar: true }, { name: "silent Shapley", bar: true }, { name: "size", bar: true }, { name: "named by", digits: 0 }], { tint: colour });
      ui.group("w-controls", () => {
        ui.choice({ key: "sends", label: "Fir sends", options: Object.keys(SENT).map((name) => [name, name]) });
        ui.slider({ key: "arrow", label: "direction", min: -180, max: 180, step: 5, read: () => (way() * 180) / Math.PI, set: (turn) => turned((turn * Math.PI) / 180, norm(sent())), text: (turn) => `${format(turn, 0)}°` });
        ui.slider({ key: "arrow", label: "length", min: 0.05, max: 1.4, step: 0.05, digits: 2, read: () => norm(sent()), set: (length) => turned(way(), length) });
      });
    });
  });
  caught = ui.table("Honest clients, of five, that each detector names", DETECTORS.map(({ name }) => name), [
    { name: "limit", put: (k) => { const { name, min, max, step, digits } = DETECTORS[k]; ui.slider({ key: "limits", path: [k], label: `limit of ${name}`, min, max, step, digits, bare: true }); } },
    { name: "honest named", short: "now", digits: 0 }, { name: "named with Fir", short: "if Fir is", digits: 0 }], { head: "detector" });
  DETECTORS.forEach(({ name }, k) => caught.rows[k].firstChild.replaceChildren(ui.group("", () => ui.toggle({ key: "watched", path: [k], label: name }))));

  const edge = 3; // beyond the picture
  const wedge = (at, half) => `M0 0L${place(polar(angle(at) - half, edge))}A${edge * ONE} ${edge * ONE} 0 ${Number(half > Math.PI / 2)} 0 ${place(polar(angle(at) + half, edge))}Z`;
  const disc = (r) => `M${r * ONE} 0A${r * ONE} ${r * ONE} 0 1 0 ${-r * ONE} 0A${r * ONE} ${r * ONE} 0 1 0 ${r * ONE} 0Z`;
  /* Where Fir would be named. */
  const zone = [
    (limit) => wedge(step, Math.acos(limit)),
    (limit) => honest.map((u) => wedge(u, Math.acos(limit))).join(""),
    (limit, { middle }) => disc(edge) + disc(middle * limit) + disc(middle / limit),
    (limit) => wedge(scaled(target, -1), Math.PI - Math.acos(limit)),
  ];
  return () => {
    const [limits, watched] = [ui.get("limits"), ui.get("watched")];
    const fir = sum(scaled(step, 1 - ui.part), scaled(sent(), ui.part));
    const found = judge(fir);
    const named = DETECTORS.map(({ over }, d) => found.suspicion[d].map((s) => watched[d] && over(s, limits[d])));
    const count = (list) => list.filter(Boolean).length;
    const by = NAMES.map((_, k) => count(named.map((of) => of[k])));
    const paid = found.scores.map(pay);
    ["mean cosine", "silent Shapley", "size"].forEach((name, s) => shares(name, paid[s]));
    shares("named by", by);
    caught("limit", limits);
    caught("honest named", named.map((of, d) => (watched[d] ? count(of.slice(0, FIR)) : NaN)));
    /* A disguise is as suspicious as one of the others, up to rounding. */
    caught("named with Fir", found.suspicion.map((of) => count(of.slice(0, FIR).map((s) => s >= of[FIR] - 1e-9))));
    zones.replaceChildren(...(ui.veiled ? [] : zone.flatMap((of, d) => (watched[d] ? [shape("path", { d: of(limits[d], found) })] : []))));
    found.rows.forEach((row, k) => {
      const [x, y] = [row[0] * ONE, -row[1] * ONE];
      lines[k].setAttribute("d", drawn(row));
      rings[k].setAttribute("cx", x); rings[k].setAttribute("cy", y);
      rings[k].style.display = by[k] && !ui.veiled ? "" : "none";
      const [lx, ly] = k === FIR ? [x, y] : [x + (16 * row[0]) / norm(row), y - (16 * row[1]) / norm(row)];
      letters[k].setAttribute("x", lx); letters[k].setAttribute("y", ly);
    });
    tip.setAttribute("cx", fir[0] * ONE); tip.setAttribute("cy", -fir[1] * ONE);
    const [turn, length] = [format((angle(fir) * 180) / Math.PI, 0), format(norm(fir))];
    tip.setAttribute("aria-valuenow", turn);
    tip.setAttribute("aria-valuetext", `direction ${turn}°, length ${length}`);
    const who = NAMES.filter((_, k) => by[k]).join(", ") || "nobody";
    plane.setAttribute("aria-label", `The updates of the six clinics as arrows. Fir's has the direction ${turn}° and the length ${length}. ${ui.veiled ? "" : `Named: ${who}.`}`);
    return `By mean cosine Fir is paid ${format(paid[0][FIR])}, Birch ${format(paid[0][1])}. Named: ${who}.`;
  };
}

export default { render: (context) => board(context, "attacker-explorer", build) };
