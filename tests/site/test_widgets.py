"""A widget on a static page: stored state, host script, keyboard; no kernel, no network."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from ipywidgets.embed import embed_data

import fedlab_mini as fm
from fedlab_mini.widgets import ShapleyExplorer

ROOT = Path(__file__).resolve().parents[2]
WORTH = [0, 60, 60, 60, 30, 84, 84, 90]

pytestmark = pytest.mark.browser


def static_page(folder: Path, widget) -> str:
    """Address of a page as the site writes it: view and state as JSON, and the host script."""
    data = embed_data(views=[widget], drop_defaults=False)
    view = json.dumps(data["view_specs"][0])
    state = json.dumps(data["manager_state"]).replace("</", r"<\/")
    kind = "application/vnd.jupyter.widget"
    shutil.copy(ROOT / "book" / "_static" / "afm-host.js", folder)
    page = folder / "widget.html"
    page.write_text(
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>A widget</title>
        <style>@media (prefers-color-scheme: dark) {{ body {{ background: #121212; color: #eee }} }}
        </style><main><h1>A widget</h1><script type="{kind}-view+json">{view}</script></main>
        <script type="{kind}-state+json">{state}</script>
        <script defer src="afm-host.js"></script></html>""",
        encoding="utf-8",
    )
    return page.as_uri()


@pytest.fixture
def explorer(open_page, tmp_path):
    """A function that opens a page with an explorer of a game."""

    def open_explorer(values, **options):
        page = open_page(static_page(tmp_path, ShapleyExplorer(values)), **options)
        page.locator(".shapley-explorer button").wait_for()
        return page

    return open_explorer


def shapley(values) -> list[str]:
    """The Shapley values in Python, as the page prints them."""
    table = torch.tensor(values, dtype=torch.float64)
    game = fm.Game(3, lambda sets: table[(sets * torch.tensor([1, 2, 4])).sum(1)])
    return [f"{value:.2f}" for value in fm.exact(game).values.tolist()]


def means(page) -> list[str]:
    return page.locator(".sx-mean").all_inner_texts()


def test_first_drawing_agrees_with_python(explorer):
    page = explorer(WORTH)
    assert means(page) == shapley(WORTH)
    assert "6 of 6 orders is the Shapley value. It sums to 90.00" in page.inner_text(
        "[role=status]"
    )
    assert page.faults == []


def test_keyboard_moves_bars_and_numbers_as_in_python(explorer):
    page = explorer(WORTH)
    width = "all => all.map(e => e.style.width)"
    before = page.eval_on_selector_all(".sx-bar", width)
    page.get_by_label("worth of A C", exact=True).focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    page.get_by_label("worth of C", exact=True).focus()
    page.keyboard.press("Home")
    values = [0, 60, 60, 60, 0, 78, 84, 90]
    assert means(page) == shapley(values)
    assert page.eval_on_selector_all(".sx-bar", width) != before
    page.get_by_role("button", name="Reset").press("Enter")
    assert means(page) == shapley(WORTH)
    assert page.eval_on_selector_all(".sx-bar", width) == before
    assert page.faults == []


def test_fewer_orders_give_the_mean_of_those(explorer):
    page = explorer(WORTH)
    page.get_by_label("orders counted").press("Home")
    assert means(page) == ["60.00", "0.00", "30.00"]  # A first, then B, then C
    page.get_by_label("orders counted").press("ArrowRight")
    assert means(page) == ["60.00", "3.00", "27.00"]  # with A, C, B as well
    assert "an estimate" in page.inner_text("[role=status]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(explorer, scheme):
    results = Axe().run(explorer(WORTH, scheme=scheme))
    assert [f"{r['id']}: {r['nodes'][0]['html']}" for r in results.response["violations"]] == []


def test_phone_width(explorer):
    page = explorer(WORTH, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_program_that_fails_says_so(open_page, tmp_path):
    address = static_page(tmp_path, ShapleyExplorer(WORTH))
    page = tmp_path / "widget.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("const names = model", "const names = nothing"), encoding="utf-8")
    opened = open_page(address)
    opened.get_by_text("could not start in your browser").wait_for()
    assert any("nothing is not defined" in fault for fault in opened.faults)
