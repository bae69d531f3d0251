/* Update vectors in the plane: drag their tips, see the cosines and the exact Shapley value follow. */
const norm = ([x, y]) => Math.hypot(x, y);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

/* The game that the cosine stands for: v(S) = cos(sum of S, sum of all), of unit vectors. */
function worths(units) {
  const sum = [total(units.map((u) => u[0])), total(units.map((u) => u[1]))];
  return Array.from({ length: 1 << units.length }, (_, mask) => {
    const inside = units.filter((_, k) => (mask >> k) & 1);
    const part = [total(inside.map((u) => u[0])), total(inside.map((u) => u[1]))];
    return norm(part) < 1e-9 || norm(sum) < 1e-9 ? 0 : dot(part, sum) / norm(part) / norm(sum);
  });
}

function build(ui) {
  const { model } = ui;
  const n = model.get("updates").length;
  const names = Array.from({ length: n }, (_, k) => `client ${k}`);
  const plane = shape("svg", { viewBox: "-160 -160 320 320", class: "w-plane", role: "img", "aria-label": "The update vectors; their tips can be dragged" });
  const edge = 150;
  const one = 100; // a length of 1 on the screen
  const arrows = names.map((_, k) => ({
    line: shape("path", { stroke: colour(k), "stroke-width": 4, fill: "none" }),
    tip: shape("circle", { r: 17, fill: colour(k), class: "w-tip", stroke: "currentColor" }),
    text: shape("text", { "text-anchor": "middle", "font-size": 13, fill: "currentColor" }, String(k)),
  }));
  const aim = shape("path", { stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "5 4", fill: "none" });
  const aimed = shape("text", { "font-size": 14, fill: "currentColor" }, "U");
  const polar = (k) => { const [x, y] = ui.get("updates")[k]; return [Math.atan2(y, x), norm([x, y])]; };
  const turned = ([x, y], by) => [x * Math.cos(by) - y * Math.sin(by), x * Math.sin(by) + y * Math.cos(by)];
  /* What the picture and the lines need of some arrows. */
  const judge = (updates) => {
    const units = updates.map((u) => (norm(u) > 0 ? [u[0] / norm(u), u[1] / norm(u)] : [0, 0]));
    const sum = [total(units.map((u) => u[0])), total(units.map((u) => u[1]))];
    const length = norm(sum);
    const psi = units.map((u) => (length < 1e-9 ? 0 : dot(u, sum) / length));
    return { sum, length, psi, scaled: psi.map((p) => p / total(psi)), phi: shapley(worths(units)) };
  };
  ui.ask({ question: () => `Client 0 has the cosine ${format(judge(model.get("updates")).psi[0])}; scaled, so that all sum to 1, ${format(judge(model.get("updates")).scaled[0])}. What is its exact Shapley value?`,
    of: "exact Shapley", name: () => names[0], min: -1, max: 1, step: 0.02, digits: 2, hides: ["exact Shapley", "largest difference"],
    /* from one common direction, their sum's, to where they point now */
    replay: { key: "updates", at(updates, part) {
      const { sum } = judge(updates);
      const away = (u) => Math.atan2(sum[0] * u[1] - sum[1] * u[0], dot(sum, u));
      return updates.map((u) => turned(u, (part - 1) * away(u)));
    } } });
  plane.append(shape("circle", { r: one, fill: "none", stroke: "currentColor", "stroke-opacity": 0.3 }), aim, aimed,
    ...arrows.flatMap(({ line, tip, text }) => [line, text, tip]));
  arrows.forEach(({ tip }, k) => {
    const move = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plane.getScreenCTM().inverse());
      const far = Math.max(1, Math.abs(at.x) / edge, Math.abs(at.y) / edge);
      const [x, y] = [at.x / far / one, -at.y / far / one];
      if (Math.hypot(x, y) > 0.05) ui.write("updates", [k], [Number(x.toFixed(3)), Number(y.toFixed(3))]);
    };
    tip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      tip.setPointerCapture(event.pointerId);
      tip.addEventListener("pointermove", move);
      const end = () => tip.removeEventListener("pointermove", move);
      tip.addEventListener("pointerup", end, { once: true });
      tip.addEventListener("pointercancel", end, { once: true });
    });
  });
  const point = (k, angle, length) => ui.write("updates", [k], [length * Math.cos(angle), length * Math.sin(angle)]);
  ui.group("w-pairs", () => {
    ui.group("w-controls", () => names.forEach((_, k) => ui.slider({ key: "updates", label: `direction of ${k}`, min: -180, max: 180, tint: colour(k),
      read: () => (polar(k)[0] * 180) / Math.PI, set: (degrees) => point(k, (degrees * Math.PI) / 180, polar(k)[1]), text: (d) => `${format(d, 0)}°` })));
    ui.group("w-controls", () => names.forEach((_, k) => ui.slider({ key: "updates", label: `length of ${k}`, min: 0.1, max: 1.5, step: 0.05, digits: 2, tint: colour(k),
      read: () => polar(k)[1], set: (length) => point(k, polar(k)[0], length) })));
  });
  let plot, show, facts;
  ui.group("w-sides", () => {
    ui.root.append(plane);
    ui.group("", () => {
      plot = ui.chart("Share of client 0 while it turns", "direction of client 0: its share", { low: -1, high: 1, pick: true });
      ui.legend([["exact Shapley value", colour(0)], ["cosine, scaled", "currentColor", true]]);
    });
    show = ui.table("Cosine and Shapley value", names, [{ name: "cosine ψ", bar: true }, { name: "ψ, scaled to sum 1", short: "ψ, scaled" }, { name: "exact Shapley", bar: true }], { tint: colour });
    facts = ui.table("All together", ["length of the mean U", "largest difference"], [{ name: "value" }], { head: "" });
  });
  const around = Array.from({ length: 121 }, (_, i) => 3 * i - 180);
  return () => {
    const updates = ui.get("updates");
    const { sum, length, psi, scaled, phi } = judge(updates);
    updates.forEach(([x, y], k) => {
      const { line, tip, text } = arrows[k];
      line.setAttribute("d", `M0 0L${x * one} ${-y * one}`);
      tip.setAttribute("cx", x * one); tip.setAttribute("cy", -y * one);
      text.setAttribute("x", x * one * 0.6 + 10); text.setAttribute("y", -y * one * 0.6);
    });
    const [ux, uy] = length < 1e-9 ? [0, 0] : [(sum[0] / length) * 145, (-sum[1] / length) * 145];
    aim.setAttribute("d", `M0 0L${ux} ${uy}`);
    aimed.setAttribute("x", ux * 0.9 + 8); aimed.setAttribute("y", uy * 0.9);
    const field = around.map((d) => judge([turned([1, 0], (d * Math.PI) / 180), ...updates.slice(1)]));
    plot([{ y: field.map((f) => f.scaled[0]), colour: "currentColor", dash: "5 4" }, { y: field.map((f) => f.phi[0]), colour: colour(0), wide: 3, answer: true }], polar(0)[0] / (2 * Math.PI) + 0.5, around);
    show("cosine ψ", psi, 1);
    show("ψ, scaled to sum 1", scaled);
    show("exact Shapley", phi, 1);
    const gap = Math.max(...phi.map((p, k) => Math.abs(p - scaled[k])));
    facts("value", [length / n, gap]);
    return length < 1e-9 ? "The updates cancel: nothing can be aligned with their sum." : `The scaled cosines differ from the Shapley value by at most ${format(gap)}.`;
  };
}

export default { render: (context) => board(context, "cosine-explorer", build) };
