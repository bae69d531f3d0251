"""The widgets in JupyterLab: the kernel sees what a reader does, the page what the kernel does."""

import ast
import json
import re
import subprocess
import sys
import time

import nbformat
import pytest
from jupyter_client import BlockingKernelClient

import chapters

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
}
SETUP = """import torch
import fedlab_mini as fm
from fedlab_mini.widgets import *

fed = fm.federation(fm.load("digits"), clients=3, samples=120, seed=0)
net = fm.logistic(64, 10)
local = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
history = fm.train(fed, net, fm.FedAvg(), rounds=4, local=local, seed=0)
one = torch.ones(1, 1)
model = fm.AAM(torch.ones(1, 3), torch.ones(1, 1, 4), 0 * one, one, 0 * one[0])
made = {}"""

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("one JupyterLab for all")]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab on a folder with one notebook that shows all widgets."""
    folder = tmp_path_factory.mktemp("lab")
    made = [f'made["{name}"] = {name}{arguments}' for name, (arguments, *_) in MADE.items()]
    cells = [
        "\n".join([SETUP, *made]),
        "display(*made.values())",
    ]  # one cell: Lab draws what is near
    cells = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=chapters.METADATA)
    nbformat.write(notebook, folder / "all.ipynb")
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--port=0", "--allow-root"]
    command += ["--IdentityProvider.token=", "--ServerApp.password="]
    env = chapters.own_settings() | {"JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    log = folder / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=out)
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
def opened(lab, browser):
    """The notebook in the browser after all cells ran, and a client of its kernel."""
    address, runtime = lab
    page = browser.new_page(viewport={"width": 1200, "height": 4000}, reduced_motion="reduce")
    page.goto(f"{address}lab/tree/all.ipynb")
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
    control = board.locator("input[type=range]").first
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
