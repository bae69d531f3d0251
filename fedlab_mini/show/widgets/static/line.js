/* A number line. `marks`: { at, name, tint, up: its name stands above the line, answer: hidden while veiled };
 * `ring`: where the guess lies. Names that would touch are stacked. */
function numberLine(ui, label, low, high) {
  const svg = shape("svg", { viewBox: "0 0 380 112", role: "img", class: "w-chart" });
  ui.root.append(svg);
  const place = (v) => 20 + (335 * (clamp(v, low, high) - low)) / (high - low);
  const text = (x, y, said, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, said);
  return (marks, ring) => {
    const seen = marks.filter((mark) => Number.isFinite(mark.at) && !(ui.veiled && mark.answer));
    const ends = { true: [], false: [] }; // above and below: where the last name of each row ends
    const row = ({ at, name, up }) => {
      const half = 4 * name.length;
      const rows = ends[Boolean(up)];
      const free = rows.findIndex((end) => place(at) - half > end);
      const found = free < 0 ? rows.length : free;
      rows[found] = place(at) + half;
      return found;
    };
    svg.replaceChildren(shape("path", { d: "M20 56H355", class: "w-axis" }), text(12, 60, format(low, 0), "end"), text(367, 60, format(high, 0), "start"),
      ...[...seen].sort((a, b) => a.at - b.at).flatMap((mark) => {
        const [x, y] = [place(mark.at), mark.up ? 40 - 17 * row(mark) : 88 + 17 * row(mark)];
        const [tint, edge] = [mark.tint ?? "currentColor", mark.up ? y + 3 : y - 13];
        return [shape("path", { d: `M${x} 56V${edge}`, stroke: tint, "stroke-width": 1.5 }), shape("circle", { cx: x, cy: 56, r: 5, fill: tint, stroke: "currentColor" }), text(x, y, mark.name)];
      }),
      ...(ring === undefined ? [] : [shape("circle", { cx: place(ring), cy: 56, r: 9, class: "w-ring" })]));
    svg.setAttribute("aria-label", `${label}: ${seen.map((mark) => `${mark.name} at ${format(mark.at)}`).join(", ")}`);
  };
}
