"""JupyterLab as `make lab` starts it: a chapter reads right, nothing else asks for attention."""

import contextlib
import re
import subprocess
import sys
import time

import nbformat
import pytest
from helpers import ALL_CASES
from visit import PATIENCE, look, rest

import chapters
import reading

RAW = re.compile(r":::|`{3,}\{|\{[\w:-]+\}`|\{(?:term|cite|eq|ref|numref|doc|glue|prf)\b|\$\$")
CONFIG = "tools/jupyter/jupyter_lab_config.py"
DRAW_ALL = "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
SHOWN = "all => all.map(e => [e.dataset.of, e.dataset.for, Number(e.value)])"

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("one JupyterLab for all")]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab on the book."""
    folder = tmp_path_factory.mktemp("lab")
    chapters.write_atomic(folder / DRAW_ALL, '{"windowingMode": "none"}')
    command = [sys.executable, "-m", "jupyter", "lab", f"--config={CONFIG}", "--no-browser"]
    command += ["--port=0", "--IdentityProvider.token=", "--expose-app-in-browser"]
    own = {"JUPYTER_RUNTIME": "runtime", "JUPYTERLAB_SETTINGS": "settings"}
    own["JUPYTERLAB_WORKSPACES"] = "workspaces"
    env = chapters.own_settings() | {f"{key}_DIR": str(folder / own[key]) for key in own}
    log = folder / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=chapters.ROOT, env=env, stdout=out, stderr=out)
    try:
        for _ in range(1200):
            found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/", log.read_text())
            if found or server.poll() is not None:
                break
            time.sleep(0.1)
        if not found and server.poll() is None:
            raise TimeoutError("JupyterLab has no address yet")
        assert found, log.read_text()[-2000:]
        yield found[0]
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=60)
        server.kill()


@pytest.fixture
def page(browser):
    found = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    found.set_default_timeout(2 * PATIENCE)  # a server and a kernel start
    yield found
    found.close()


@pytest.mark.parametrize(
    "source",
    chapters.numbered() if ALL_CASES else chapters.sources(["04_cgsv"]),
    ids=lambda source: source.stem,
)
def test_a_chapter_reads_right_and_its_explorer_answers_before_any_cell_has_run(lab, page, source):
    """From what the notebook stores, as soon as its kernel is there."""
    stored = nbformat.read(reading.places(source)[0], as_version=4).cells
    page.goto(f"{lab}lab/tree/notebooks/{source.stem}.ipynb?reset")
    listed = page.locator(".jp-DirListing-itemName")
    listed.nth(len(chapters.numbered()) - 1).wait_for()
    shown = [name for name in listed.all_inner_texts() if name[0].isdigit()]
    assert shown == [f"{source.stem}.ipynb" for source in chapters.numbered()]
    texts = sum(cell.cell_type == "markdown" for cell in stored)
    page.wait_for_function(look("ready"), arg=texts)
    page.get_by_text("| Idle").wait_for()
    board = page.locator(".fedlab-widget").first
    board.locator(".w-guess").press("End")
    board.get_by_role("button", name="Reveal").click()
    before = board.locator("data[data-of]").evaluate_all(SHOWN)
    board.locator("input[type=range]:not(.w-guess)").first.press("ArrowLeft")
    rest(page, 500)
    assert board.locator("data[data-of]").evaluate_all(SHOWN) != before
    seen = page.evaluate(look("seen"))
    assert seen["bad"] == RAW.findall(seen["text"]) == []
    assert [key for key in reading.bibliography() if key in seen["text"]] == []
    assert "Solution of exercise" not in seen["text"]
    assert seen["formulas"] > 10
    assert seen["folded"] == sum("jupyter" in cell.metadata for cell in stored)
    for words in ("Jupyter news", "Loading widget"):
        assert page.get_by_text(words).count() == 0
