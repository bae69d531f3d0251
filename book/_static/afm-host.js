/* Runs the book's interactive figures on a page without a kernel.
 *
 * A notebook stores each widget as JSON: its state, its program (an ES module in `_esm`) and its style
 * (`_css`). This host reads them, gives every program a model with get, set, on, off and save_changes, and
 * lets it draw beside the place where the notebook showed it. The table that stands there for readers
 * without scripts is then hidden. `element.model` lets other scripts of the page read and set its numbers.
 * No other library, no request.
 */
(() => {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const blocks = (type) => [...document.querySelectorAll(`script[type="${type}"]`)];

  function makeModel(state) {
    const data = { ...state };
    const listeners = new Map();
    const of = (name) => listeners.get(name) ?? [];
    return {
      get: (key) => data[key],
      set(key, value) {
        if (Object.is(data[key], value)) return;
        data[key] = value;
        for (const f of [...of(`change:${key}`)]) f(this, value);
      },
      save_changes() { for (const f of [...of("change")]) f(this); },
      send() {},
      on(names, f) { for (const name of names.split(" ")) listeners.set(name, [...of(name), f]); },
      off(names, f) {
        if (!names) { listeners.clear(); return; }
        for (const name of names.split(" ")) listeners.set(name, f ? of(name).filter((g) => g !== f) : []);
      },
    };
  }

  const styled = new Set();
  function addStyle({ _css: css, _anywidget_id: id }) {
    if (!css || styled.has(id)) return;
    styled.add(id);
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  }

  async function load(state) {
    addStyle(state);
    const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
    let program = (await import(url)).default;
    URL.revokeObjectURL(url);
    if (typeof program === "function") program = await program();
    const model = makeModel(state);
    await program.initialize?.({ model });
    return { model, program };
  }

  const loaded = new Map();
  let states;
  async function show(script, el) {
    try {
      const id = JSON.parse(script.textContent).model_id;
      states ??= Object.assign({}, ...blocks(STATE).map((s) => JSON.parse(s.textContent).state));
      if (states[id]?.model_module !== "anywidget") return el.remove();
      if (!loaded.has(id)) loaded.set(id, load(states[id].state));
      const { model, program } = await loaded.get(id);
      el.model = model;
      await program.render?.({ model, el });
      const cell = script.closest(".cell_output") ?? script.parentElement;
      for (const table of cell.querySelectorAll(".widget-table")) (table.closest(".output") ?? table).hidden = true;
    } catch (error) {
      el.textContent = "This interactive figure could not start in your browser.";
      console.error(error);
    }
  }

  for (const script of blocks(VIEW)) {
    const el = document.createElement("div");
    script.after(el);
    show(script, el); // none waits for another
  }
})();
