"""Widgets on the chapters' pages, opened from disk: moved by hand, compared with Python."""

import json
import math
import random

import anywidget
import nbformat
import pytest

import chapters
import page_scripts
from fedlab_mini import widgets

HOMES = {
    "02_shapley_theory": widgets.ShapleyExplorer,
    "03_retraining_baselines": widgets.PartitionExplorer,
    "04_cgsv": widgets.CosineExplorer,
    "05_reinforce_frcce": widgets.PolicyExplorer,
    "06_reinforce_fldve": widgets.RoundReplay,
    "07_fedccea": widgets.AAMExplorer,
    "08_sfedavg": widgets.TemperatureExplorer,
    "09_label_standardisation": widgets.LabelRuleExplorer,
}
STATES, MOVES = 22, 70  # so many different settings, after at most so many moves
KEYS = ("ArrowRight", "ArrowLeft", "ArrowUp", "PageUp", "PageDown", "Home", "End")
READ = """(keys) => { const board = document.querySelector(".fedlab-widget");
  const model = board.parentElement.model;
  return { state: Object.fromEntries(keys.map((key) => [key, model.get(key)])),
    shown: [...board.querySelectorAll("data[data-of]")].map((e) =>
      [e.dataset.of, e.dataset.for, e.value, e.textContent]) }; }"""

pytestmark = pytest.mark.browser


def twin(cls, state):
    """The widget in Python at a state of the page, without its constructor."""
    made = cls.__new__(cls)
    anywidget.AnyWidget.__init__(made, **state)
    return made


def settings(cls):
    """Names of the traits that a widget shares with the page."""
    own = set(cls.class_trait_names(sync=True)) - set(anywidget.AnyWidget.class_trait_names())
    return sorted(name for name in own if not name.startswith("_"))


def differences(page, cls) -> list[str]:
    """Numbers on the page that are not what Python computes from the page's settings."""
    read = page.evaluate(READ, settings(cls))
    expected = twin(cls, read["state"]).numbers()
    found, seen = [], set()
    for quantity, name, value, text in read["shown"]:
        seen.add((quantity, name))
        truth = expected[quantity][name]
        if math.isnan(truth):
            same = text == "–"
        else:
            digits = len(text.partition(".")[2])
            same = abs(float(value) - truth) < 1e-6 * max(1, abs(truth))
            same = same and abs(float(text) - truth) <= 0.5 * 10**-digits + 1e-6
        if not same:
            found.append(f"{quantity}, {name}: page {value} ({text}), Python {truth}")
    missing = {(q, n) for q, row in expected.items() for n in row} - seen
    return found + [f"not on the page: {pair}" for pair in sorted(missing)]


def move(page, control, chance: random.Random, pointer: bool) -> None:
    """One action of a reader on one control: a key or a click."""
    kind = control.get_attribute("type") or "select"
    if kind == "checkbox" or (kind == "range" and pointer):
        box = control.bounding_box()
        where = {"x": box["width"] * chance.uniform(0.05, 0.95), "y": box["height"] / 2}
        control.click(position=where)
        return
    control.focus()
    page.keyboard.press(chance.choice(("ArrowDown", "ArrowUp") if kind == "select" else KEYS))


@pytest.mark.parametrize("chapter", HOMES)
def test_numbers_follow_hand_and_keyboard_as_in_python(open_page, site, chapter):
    cls, chance = HOMES[chapter], random.Random(chapter)
    page = open_page(f"{site.as_uri()}/notebooks/{chapter}.html")
    board = page.locator(".fedlab-widget").first
    board.wait_for()
    controls = board.locator("input, select").all()
    start = page.evaluate(READ, settings(cls))
    assert differences(page, cls) == []
    states, left = {json.dumps(start["state"])}, set(range(len(controls)))
    for step in range(MOVES):
        if len(states) > STATES and not left:
            break
        k = chance.choice(sorted(left or range(len(controls))))
        left.discard(k)
        move(page, controls[k], chance, pointer=step % 2 == 1)
        assert differences(page, cls) == [], f"after move {step}"
        states.add(json.dumps(page.evaluate(READ, settings(cls))["state"]))
    assert len(states) > STATES, "the controls hardly change anything"
    board.get_by_role("button", name="Reset").press("Enter")
    assert page.evaluate(READ, settings(cls)) == start
    assert page.faults == []


def test_an_arrow_can_be_dragged(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/04_cgsv.html")
    page.locator(".fedlab-widget").scroll_into_view_if_needed()
    plane, tip = (page.locator(f".fedlab-widget {part}").first for part in (".w-plane", ".w-tip"))
    box, at = plane.bounding_box(), tip.bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 60 / 320, steps=4)
    page.mouse.up()
    x, y = page.evaluate(READ, ["updates"])["state"]["updates"][0]
    assert x == pytest.approx(0, abs=0.02)
    assert y == pytest.approx(1, abs=0.02)
    assert differences(page, widgets.CosineExplorer) == []
    page.mouse.move(box["x"], box["y"])
    assert page.evaluate(READ, ["updates"])["state"]["updates"][0] == [x, y], "it was let go"


def test_replay_plays_and_pauses(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/06_reinforce_fldve.html")
    play = page.get_by_role("button", name="Play")
    play.press("Enter")
    model = 'document.querySelector(".fedlab-widget").parentElement.model'
    page.wait_for_function(f"{model}.get('round') > 2")
    page.get_by_role("button", name="Pause").press("Enter")
    assert differences(page, widgets.RoundReplay) == []
    assert page.faults == []


def test_quiz_marks_itself_and_explains_every_choice(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/04_cgsv.html")
    notebook = nbformat.read(chapters.NOTEBOOKS / "04_cgsv.ipynb", as_version=4)
    models = notebook.metadata.widgets[chapters.WIDGET_STATE]["state"].values()
    questions = next(m["state"]["questions"] for m in models if "questions" in m["state"])
    for field, question in zip(page.locator(".fedlab-quiz fieldset").all(), questions, strict=True):
        for choice in (*question["choices"], next(c for c in question["choices"] if c["right"])):
            field.get_by_label(choice["text"], exact=True).check()
            assert choice["why"] in field.locator(".q-why").inner_text()
            mark = "right" if choice["right"] else "wrong"
            assert field.locator("[data-mark]").get_attribute("data-mark") == mark
    status = page.locator(".fedlab-quiz > [role=status]")
    assert status.inner_text() == f"{len(questions)} of {len(questions)} right."
    page.get_by_role("button", name="Start again").press("Enter")
    assert status.inner_text().startswith("0 of")
    page.reload()
    page.locator(".fedlab-quiz").wait_for()
    assert page.locator(".fedlab-quiz input:checked").count() == 0
    assert page.faults == []


def test_without_scripts_a_table_stands_there(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/notebooks/04_cgsv.html")
    tables = page.locator(".widget-table")
    assert tables.first.is_visible()
    assert "exact Shapley" in tables.first.inner_text()
    context.close()


def test_with_scripts_the_table_gives_way(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/04_cgsv.html")
    page.locator(".fedlab-widget").wait_for()
    assert not page.locator(".widget-table").first.is_visible()


def test_a_program_that_fails_says_so(open_page, site, tmp_path):
    text = (site / "notebooks" / "04_cgsv.html").read_text(encoding="utf-8")
    assert "const plane = shape(" in text
    page = site / "notebooks" / "broken-widget.html"
    page.write_text(text.replace("const plane = shape(", "const plane = nothing("), "utf-8")
    try:
        opened = open_page(page.as_uri())
        opened.get_by_text("could not start in your browser").wait_for()
        assert opened.locator(".widget-table").first.is_visible()
        assert any("nothing is not defined" in fault for fault in opened.faults)
    finally:
        page.unlink()


HOSTILE = "</SCRIPT ><img src=y onerror=document.title='gone'><!--"
PROGRAMS = {
    "throws": "export default { render() { throw Error('broken'); } };",
    "no program": "this is no JavaScript",
    "waits": "export default { initialize: () => new Promise(() => {}) };",
    "sound": "export default { render({ model, el }) {"
    " el.textContent = `${model.get('name')}${model.get('x')}`; } };",
}


def test_a_broken_widget_says_so_and_harms_no_other(open_page, tmp_path):
    state = {
        name: {"model_module": "anywidget", "state": {"_esm": esm, "name": HOSTILE, "x": math.nan}}
        for name, esm in PROGRAMS.items()
    }
    kind = "application/vnd.jupyter.widget"
    views = "".join(
        f'<div id="{name}"><script type="{kind}-view+json">{{"model_id": "{name}"}}</script></div>'
        for name in PROGRAMS
    )
    stored = page_scripts.harmless(json.dumps({"state": state}))
    host = (chapters.ROOT / "book" / "_static" / "afm-host.js").read_text(encoding="utf-8")
    text = f'<title>here</title>{views}<script type="{kind}-state+json">{stored}</script>'
    path = tmp_path / "page.html"
    path.write_text(f"{text}<script>{host}</script>", encoding="utf-8")
    page = open_page(path.as_uri())
    page.get_by_text("null").wait_for()
    assert page.locator("[id=sound] div").inner_text() == f"{HOSTILE}null"
    for name in ("throws", "no program"):
        assert "could not start" in page.locator(f"[id='{name}'] div").inner_text()
    assert page.locator("img").count() == 0
    assert page.title() == "here"
    assert len(page.faults) == 2
