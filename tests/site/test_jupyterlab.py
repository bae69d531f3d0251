"""JupyterLab as `make lab` starts it. Chapters read right, and nothing else asks for attention.

In widgets the kernel sees what a reader does, and the page what the kernel does.
"""

import ast
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from helpers import unless_passed
from jupyter_client import BlockingKernelClient

import chapters
import reading

FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$", re.DOTALL)
RAW = re.compile(r":::|`{3,}\{|\{[\w:-]+\}`|\{(?:term|cite|eq|ref|numref|doc|glue|prf)\b")
MADE = {
    "ShapleyExplorer": (
        "([0, 60, 60, 60, 30, 84, 84, 90])",
        "values",
        [0, 60, 60, 60, 0, 84, 84, 90],
    ),
    "PartitionExplorer": ("([40, 50, 60])", "clients", 3),
    "RoundReplay": ("(history)", "round", 1),
    "CosineExplorer": ("([[1, 0], [0, 1], [0.5, 0.5]])", "updates", [[1, 0], [0, 1], [-1, 0.5]]),
    "PolicyExplorer": ("([1, 0.4, 1.6, 0.8])", "steps", 7),
    "AAMExplorer": ("(model, [1, 1, 1])", "shares", [0.5, 1, 0]),
    "TemperatureExplorer": ("([0.2, 0.1, 0.0], drawn=2)", "drawn", 1),
    "LabelRuleExplorer": ("()", "group", 60),
    "HeadToHeadExplorer": ("(frame)", "seeds", 2),
}
SETUP = """import torch
import fedlab_mini as fm
from fedlab_bench.show.headtohead import HeadToHeadExplorer
from fedlab_mini.show.widgets import *

fed = fm.federation(fm.load("digits"), clients=3, samples=120, seed=0)
net = fm.logistic(64, 10)
local = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
history = fm.train(fed, net, fm.FedAvg(), rounds=4, local=local, seed=0)
one = torch.ones(1, 1)
model = fm.AAM(torch.ones(1, 3), torch.ones(1, 1, 4), 0 * one, one, 0 * one[0])
keys = dict(scenario="alike", metric="seconds")
rows = [dict(seed=s, method=m, value=s * 0.5 + len(m), **keys) for s in range(3) for m in "ab"]
frame = __import__("pandas").DataFrame(rows)
made = {}"""

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("one JupyterLab for all")]


CONFIG = "tools/jupyter/jupyter_lab_config.py"
PLACE = "_build/lab/all.ipynb"
DRAW_ALL = "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
OPEN = """async path => { await jupyterapp.commands.execute("docmanager:open",
  { path, kernelPreference: { shouldStart: false, canStart: false } }); }"""
READY = """count => {
  const panel = jupyterapp.shell.currentWidget?.node;
  const texts = [...panel?.querySelectorAll(".jp-MarkdownCell .jp-MarkdownOutput") ?? []];
  return texts.length === count && texts.every(text => text.firstElementChild)
    && [...panel.querySelectorAll("img")].every(image => image.complete);
}"""
SEEN = """() => {
  const panel = jupyterapp.shell.currentWidget.node;
  const all = (name) => [...panel.querySelectorAll(name)];
  const copies = all(".jp-MarkdownOutput").map(text => text.cloneNode(true));
  const parts = copies.flatMap(copy => [...copy.querySelectorAll("pre, code, mjx-container")]);
  for (const part of parts) part.remove();
  return {
    text: copies.map(copy => copy.textContent).join(" "),
    broken: all("img").filter(image => !image.naturalWidth).map(image => image.src),
    formulas: [all("mjx-container").length, all("mjx-merror, .katex-error").length],
    open: all("details[open]").length,
    folded: all(".jp-InputPlaceholder").length,
    errors: all(".jp-OutputArea-output.jp-mod-error").length,
    cut: all(".jupyter-widgets-disconnected")
      .filter(e => getComputedStyle(e, "::before").content !== "none").length,
    hidden: all(".jp-OutputArea-output").filter(e => e.innerText.startsWith("<Figure")).length,
  };
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab on the book, with one more notebook that shows all widgets."""
    folder = tmp_path_factory.mktemp("lab")
    made = [f'made["{name}"] = {name}{arguments}' for name, (arguments, *_) in MADE.items()]
    cells = [
        "\n".join([SETUP, *made]),
        "display(*made.values())",
    ]  # one cell: Lab draws what is near
    cells = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=chapters.METADATA)
    chapters.write_atomic(chapters.ROOT / PLACE, nbformat.writes(notebook))
    chapters.write_atomic(folder / DRAW_ALL, '{"windowingMode": "none"}')
    command = [sys.executable, "-m", "jupyter", "lab", f"--config={CONFIG}", "--no-browser"]
    command += ["--port=0", "--IdentityProvider.token=", "--expose-app-in-browser"]
    own = {"JUPYTER_RUNTIME": "runtime", "JUPYTERLAB_SETTINGS": "settings"}
    own["JUPYTERLAB_WORKSPACES"] = "workspaces"
    env = {f"{key}_DIR": str(folder / name) for key, name in own.items()}
    log = folder / "log.txt"
    with log.open("w") as out:
        env = chapters.own_settings() | env
        server = subprocess.Popen(command, cwd=chapters.ROOT, env=env, stdout=out, stderr=out)
    try:
        for _ in range(600):
            found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/", log.read_text())
            if found or server.poll() is not None:
                break
            time.sleep(0.1)
        assert found, log.read_text()[-2000:]
        yield found[0], folder / "runtime"
    finally:
        server.terminate()
        server.wait(timeout=20)


@pytest.fixture(scope="module")
def desk(lab, browser):
    """JupyterLab in the browser, nothing open."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{lab[0]}lab?reset")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget", timeout=120_000)
    yield page
    page.close()


def test_a_reader_sees_each_chapter_once_and_no_news(desk):
    listed = desk.locator(".jp-DirListing-itemName")
    listed.nth(len(chapters.numbered()) - 1).wait_for(timeout=60_000)
    shown = [name for name in listed.all_inner_texts() if name[0].isdigit()]
    assert shown == [f"{source.stem}.ipynb" for source in chapters.numbered()]
    assert desk.get_by_text("Jupyter news").count() == 0


@pytest.mark.parametrize("source", chapters.numbered(), ids=lambda source: source.stem)
def test_a_chapter_reads_right(desk, source):
    place = reading.places(source)[0]
    with unless_passed(
        f"jupyterlab/{source.stem}", [place, chapters.ROOT / CONFIG, Path(__file__)]
    ):
        reads_right(desk, source, nbformat.read(place, as_version=4).cells)


def reads_right(desk, source, stored):
    desk.evaluate(OPEN, f"notebooks/{source.stem}.ipynb")
    texts = sum(cell.cell_type == "markdown" for cell in stored)
    desk.wait_for_function(READY, arg=texts, timeout=120_000)
    desk.wait_for_timeout(500)  # formulas
    seen = desk.evaluate(SEEN)
    desk.evaluate("() => jupyterapp.shell.currentWidget.close()")
    assert seen["broken"] == []
    assert RAW.findall(seen["text"]) == []
    assert [key for key in reading.bibliography() if key in seen["text"]] == []
    assert "$$" not in seen["text"]
    assert "Solution of exercise" not in seen["text"]
    written = sum(
        len(FORMULA.findall(cell.source)) for cell in stored if cell.cell_type == "markdown"
    )
    assert seen["formulas"][0] >= min(11, written)
    assert seen["cut"] == 0, "a widget under JupyterLab's sign of a broken link"
    assert seen["formulas"][1] == seen["open"] == seen["errors"] == seen["hidden"] == 0
    assert seen["folded"] == sum("jupyter" in cell.metadata for cell in stored)
    assert desk.get_by_text("Jupyter news").count() == 0


@pytest.fixture(scope="module")
def opened(lab, browser):
    """The notebook in the browser after all cells ran, and a client of its kernel."""
    address, runtime = lab
    page = browser.new_page(viewport={"width": 1200, "height": 4000}, reduced_motion="reduce")
    page.goto(f"{address}lab/tree/{PLACE}")
    page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=120_000)
    page.get_by_text("| Idle").wait_for(timeout=120_000)  # the kernel is there
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Run All Cells")).first.click()
    page.locator(".fedlab-widget").nth(len(MADE) - 1).wait_for(timeout=120_000)
    client = BlockingKernelClient(connection_file=str(next(runtime.glob("kernel-*.json"))))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield page, client
    client.stop_channels()
    page.close()


def ask(client, expression):
    """The value of an expression in the notebook's kernel."""
    reply = client.execute(
        "import json", user_expressions={"x": f"json.dumps({expression})"}, reply=True, timeout=60
    )
    text = reply["content"]["user_expressions"]["x"]["data"]["text/plain"]
    return json.loads(ast.literal_eval(text))


@pytest.mark.parametrize("name", MADE)
def test_kernel_and_page_see_each_other(opened, name):
    page, client = opened
    board = page.locator(".fedlab-widget").nth(list(MADE).index(name))
    _, trait, value = MADE[name]
    board.get_by_role("button", name="Reveal").click()
    control = board.locator("input[type=range]:not(.w-guess)").first
    settings = f"{{k: v for k, v in made['{name}'].get_state().items() if not k.startswith('_')}}"
    before = ask(client, settings)
    control.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    assert ask(client, settings) != before, "the kernel did not hear of the page"
    client.execute(f"made['{name}'].{trait} = {value!r}", reply=True, timeout=60)
    expected = ask(client, f"made['{name}'].numbers()")
    shown = "all => all.map((e) => [e.dataset.of, e.dataset.for, Number(e.value)])"
    for _ in range(40):
        now = board.locator("data[data-of]").evaluate_all(shown)
        if all(abs(v - expected[q][n]) < 1e-6 for q, n, v in now):
            break
        page.wait_for_timeout(100)
    assert [(q, n, v) for q, n, v in now if abs(v - expected[q][n]) >= 1e-6] == []


TO_EXPLORER = """() => {
  const { content } = jupyterapp.shell.currentWidget;
  const place = content.widgets.findIndex(cell => cell.model.type === "code"
    && JSON.stringify(cell.model.toJSON().outputs).includes("widget-view+json"));
  content.scrollToItem(place, "center");
}"""


def test_an_explorer_answers_before_any_cell_has_run(lab, browser):
    """From what the notebook stores, as soon as its kernel is there."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(f"{lab[0]}lab/tree/notebooks/04_cgsv.ipynb?reset")
    page.get_by_text("| Idle").wait_for(timeout=120_000)
    board = page.locator(".fedlab-widget").first
    for _ in range(30):  # until what stands above it has been drawn, it may slip away again
        page.evaluate(TO_EXPLORER)
        page.wait_for_timeout(1000)
        if board.is_visible():
            break
    board.get_by_role("button", name="Reveal").click(timeout=60_000)
    slider = board.locator("input[type=range]:not(.w-guess)").first
    before = board.locator("data[data-of]").evaluate_all("all => all.map(e => e.value)")
    slider.press("ArrowLeft")
    page.wait_for_timeout(300)
    assert board.locator("data[data-of]").evaluate_all("all => all.map(e => e.value)") != before
    assert page.get_by_text("Loading widget").count() == 0
    page.close()
