/* Above the ledger of the papers: choices of paper, verdict and protocol, each with the number of its rows, and how many
   rows are shown. Without this script, and in JupyterLab, the table stands there as a whole. */
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.ledger");
  if (!table) return;
  const rows = [...table.tBodies[0].rows], chosen = {}, bar = document.createElement("div");
  const told = Object.assign(document.createElement("p"), { className: "ledger-count" });
  told.setAttribute("role", "status");
  const fits = (row, but) => Object.entries(chosen).every(([key, value]) => key === but || !value || row.dataset[key] === value);
  const show = () => {
    for (const row of rows) row.hidden = !fits(row);
    const count = rows.filter((row) => !row.hidden).length;
    told.textContent = `${count} of ${rows.length} rows`;
    for (const select of bar.querySelectorAll("select")) {
      for (const option of select.options) {
        const own = rows.filter((row) => fits(row, select.name) && (!option.value || row.dataset[select.name] === option.value));
        option.textContent = `${option.value || "all"} (${own.length})`;
      }
    }
  };
  bar.className = "ledger-choices";
  for (const [key, name] of [["paper", "Paper"], ["verdict", "Verdict"], ["distance", "Protocol"]]) {
    const label = document.createElement("label"), select = Object.assign(document.createElement("select"), { name: key });
    for (const value of ["", ...new Set(rows.map((row) => row.dataset[key]))]) select.add(new Option(value, value));
    select.addEventListener("change", () => { chosen[key] = select.value; show(); });
    label.append(`${name} `, select);
    bar.append(label);
  }
  bar.append(told);
  table.before(bar);
  show();
});
