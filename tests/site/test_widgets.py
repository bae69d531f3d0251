"""Widgets on the chapters' pages, opened from disk: moved by hand, compared with Python."""

import itertools
import json
import math
import os
import re
from pathlib import Path

import anywidget
import nbformat
import pytest
from visit import DESK, HEIGHT, PHONE, axe, look, rest, wear

import chapters
import page_scripts
from fedlab_bench.show.headtohead import HeadToHeadExplorer
from fedlab_mini.judge.evidence import interval
from fedlab_mini.show import widgets
from fedlab_mini.show.widgets.base import STATIC
from studies.results import WORDS

FEW_HANDS = "classes of which one client holds 9 in 10"
HOMES = [  # the chapter, which of its widgets, and the number that it asks for
    ("01_federated_averaging", 0, widgets.DriftExplorer, "value", "FedAvg rests at θ_E"),
    ("02_shapley_theory", 0, widgets.ShapleyExplorer, "share", "C"),
    ("03_retraining_baselines", 0, widgets.ReplicaExplorer, "leave-one-out", "C"),
    ("01_federated_averaging", 1, widgets.PartitionExplorer, "value", FEW_HANDS),
    ("04_cgsv", 0, widgets.CosineExplorer, "exact Shapley", "client 0"),
    ("05_reinforce_frcce", 0, widgets.PolicyExplorer, "probability", "client 0"),
    ("06_reinforce_fldve", 0, widgets.RoundReplay, "weight", "client 2 (corrupted)"),
    ("07_fedccea", 0, widgets.AAMExplorer, "loss without", "client 6"),
    ("08_sfedavg", 0, widgets.TemperatureExplorer, "value", "irrelevant clients expected"),
    ("09_label_standardisation", 0, widgets.LabelRuleExplorer, "chance", "a right repair"),
    ("10_head_to_head", 0, HeadToHeadExplorer, "scores", "with all seeds"),
    ("10_head_to_head", 1, widgets.ChangesExplorer, "then", "Alder"),
    ("11_out_of_the_notebook", 0, widgets.MixUpExplorer, "told", "client 0"),
    ("12_replication", 0, widgets.VerdictExplorer, "seeds", "to decide"),
    ("13_adversaries", 0, widgets.AttackerExplorer, "named with Fir", "last step"),
    ("14_payments", 0, widgets.PotExplorer, "left over", "marginal"),
]
KEYS = {"checkbox": ["Space"], "range": ["End", "ArrowLeft"], "select": ["ArrowDown", "ArrowUp"]}
LOOK = """e => e.innerHTML.replaceAll(' class=""', "")
  + [...e.querySelectorAll("input")].map(i => i.value)"""

TOC = re.compile('(<li class="toc-h[^>]*><a [^>]*href="#)[^"]+')  # leads to headings
ARTICLE = "(.*<article[^>]*>)(.*)(</article>.*)"
WIDGET = re.compile(
    r'<div class="cell_output[^>]*>\s*<script type="[^"]*widget-view\+json">.*?(</div>\s*){3}',
    re.DOTALL,
)

pytestmark = pytest.mark.browser


@pytest.fixture
def explorer(open_page, site):
    """A function that opens a chapter's page with its explorer alone, as the rest takes long."""
    made = []

    def open_one(chapter, place):
        text = (site / "notebooks" / f"{chapter}.html").read_text(encoding="utf-8")
        head, article, foot = re.fullmatch(ARTICLE, TOC.sub(r"\1", text), re.DOTALL).groups()
        made.append(site / "notebooks" / f"{chapter}-{os.getpid()}.html")
        found = [match[0] for match in WIDGET.finditer(article)]
        made[-1].write_text(head + found[place] + foot, encoding="utf-8")
        page = open_page(made[-1].as_uri())
        board = page.locator(".fedlab-widget").first
        board.wait_for()
        return page, board, lambda name: board.get_by_role("button", name=name, exact=True)

    yield open_one
    for path in made:
        path.unlink()


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
    read = page.evaluate(look("readState"), settings(cls))
    expected = twin(cls, read["state"]).numbers()
    found, seen = [], set()
    for quantity, name, value, text in read["shown"]:
        seen.add((quantity, name))
        truth = expected[quantity][name]
        if not math.isfinite(truth):
            same = text == "–"
        else:
            digits = len(text.partition(".")[2])
            same = abs(float(value) - truth) < 1e-6 * max(1, abs(truth))
            same = same and abs(float(text) - truth) <= 0.5 * 10**-digits + 1e-6
        if not same:
            found.append(f"{quantity}, {name}: page {value} ({text}), Python {truth}")
    missing = {(q, n) for q, row in expected.items() for n in row} - seen
    return found + [f"not on the page: {pair}" for pair in sorted(missing)]


@pytest.mark.parametrize(("chapter", "place", "cls", "quantity", "name"), HOMES)
def test_an_explorer_is_all_that_it_promises(explorer, chapter, place, cls, quantity, name):
    """Opened once for all of this; every check leaves it revealed, in its first settings."""
    opened = explorer(chapter, place)
    a_guess_comes_before_the_truth(*opened, cls, quantity, name)
    nothing_is_cramped_hidden_or_hard_to_read(*opened)
    a_replay_moves_and_ends_in_the_present(*opened)
    numbers_follow_hand_and_keyboard_as_in_python(*opened, cls)
    assert opened[0].faults == []


def numbers_follow_hand_and_keyboard_as_in_python(page, board, button, cls):
    """Every control by two keys or, where it takes one, by a click as well."""
    states = set()

    def state():
        return page.evaluate(look("readState"), settings(cls))

    start = state()
    assert differences(page, cls) == []
    controls = board.locator("input:not(.w-guess), select").all()
    for control in controls:
        kind = control.get_attribute("type") or "select"
        moves = [lambda control=control, key=key: control.press(key) for key in KEYS[kind]]
        moves += [] if kind == "select" else [lambda control=control: click(control)]
        for move in moves:
            move()
            assert differences(page, cls) == []
            states.add(json.dumps(state()["state"]))
    assert len(states) > len(controls), "the controls hardly change anything"
    last = state()
    button("Reset").press("Enter")
    assert state() == start
    page.evaluate(look("setState"), last["state"])  # as a kernel does
    assert state() == last


def click(control):
    """Where a fifth of it lies to its left."""
    box = control.bounding_box()
    control.click(position={"x": box["width"] / 5, "y": box["height"] / 2})


def a_guess_comes_before_the_truth(page, board, button, cls, quantity, name):
    state = page.evaluate(look("readState"), settings(cls))["state"]
    truth = twin(cls, state).numbers()[quantity][name]
    asked = board.locator(f"data[data-of='{quantity}'][data-for='{name}']")
    guess, mark = board.locator(".w-guess"), board.locator(".w-truth")

    def veiled():
        assert [asked.text_content(), asked.get_attribute("value")] == ["?", ""]
        assert board.locator("[role=status]").inner_text() == "Commit to a guess, then reveal."
        assert not mark.is_visible()
        assert button("Replay").is_disabled()

    def refuses():
        assert button("Reveal").is_disabled()
        why = button("Reveal").get_attribute("aria-describedby")
        assert board.locator(f"#{why}[role=status]").count() == 1

    veiled()
    refuses()
    guess.press("ArrowRight")
    guess.press("End")
    veiled()
    button("Reveal").press("Enter")
    low, high = (float(guess.get_attribute(end)) for end in ("min", "max"))
    far = float(guess.input_value()) - truth
    digits = len(board.locator(".w-ask .w-now-at").inner_text().partition(".")[2])
    said = board.locator("[role=status]").inner_text()
    assert f"The answer is {truth:.{digits}f}, your guess was {far:.{digits}f} too high" in said
    scale, at = guess.bounding_box(), mark.bounding_box()
    place = (at["x"] + at["width"] / 2 - scale["x"] - 8) / (scale["width"] - 16)
    assert place == pytest.approx((truth - low) / (high - low), abs=0.02)
    assert float(asked.get_attribute("value")) == pytest.approx(truth)
    button("Guess again").press("Enter")
    rest(page, 1000)  # for the screen reader's ease
    veiled()
    refuses()
    assert guess.evaluate("e => e === document.activeElement"), "the keyboard is lost"


def nothing_is_cramped_hidden_or_hard_to_read(page, board, button):
    board.locator(".w-guess").press("End")
    for press in ("Reset", "Reveal"):
        button(press).press("Enter")
        rest(page, 1000)  # the answer follows, for the screen reader's ease
        for scheme, width in (("light", PHONE), ("dark", DESK)):
            wear(page, scheme, width, 720)
            assert board.evaluate(look("cramped")) == [], f"{width} px, after {press}"
            assert page.evaluate(look("contrast"), scheme) == [], scheme
    assert axe(page) == []
    wear(page, "light", DESK, HEIGHT)


def a_replay_moves_and_ends_in_the_present(page, board, button):
    """Without motion it is a step; with it, it moves by itself until it is there."""
    rest(page, 1000)  # the answer comes to rest, and is said
    present = board.evaluate(LOOK)
    button("Replay").press("Enter")
    rest(page, 300)
    step = board.evaluate(LOOK)
    rest(page, 300)
    assert board.evaluate(LOOK) == step != present
    button("To the end").press("Enter")
    rest(page, 1000)
    assert board.evaluate(LOOK) == present
    page.emulate_media(reduced_motion="no-preference")
    button("Replay").press("Enter")
    button("Pause").press("Enter")
    rest(page, 1000)  # what is said comes once a second
    paused = board.evaluate(LOOK)
    rest(page, 300)
    assert board.evaluate(LOOK) == paused != present
    button("Go on").press("Enter")
    button("Replay").wait_for()
    rest(page, 1000)
    assert board.evaluate(LOOK) == present
    page.emulate_media(reduced_motion="reduce")


def test_an_arrow_can_be_dragged_and_a_quiz_marks_itself(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/04_cgsv.html")
    page.locator(".fedlab-widget .w-guess").press("End")
    page.locator(".fedlab-widget").get_by_role("button", name="Reveal").click()
    page.locator(".w-plane").scroll_into_view_if_needed()
    plane, tip = (page.locator(f".fedlab-widget {part}").first for part in (".w-plane", ".w-tip"))
    box, at = plane.bounding_box(), tip.bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 60 / 320, steps=4)
    page.mouse.up()
    read = page.evaluate(look("readState"), ["updates"])
    assert read["state"]["updates"][0] == pytest.approx([0, 1], abs=0.02)
    assert differences(page, widgets.CosineExplorer) == []
    page.mouse.move(box["x"], box["y"])
    assert page.evaluate(look("readState"), ["updates"]) == read, "it was let go"
    assert not page.locator(".widget-table").first.is_visible()
    a_quiz_marks_itself_and_explains_every_choice(page)
    assert page.faults == []


def a_quiz_marks_itself_and_explains_every_choice(page):
    notebook = nbformat.read(chapters.NOTEBOOKS / "04_cgsv.ipynb", as_version=4)
    models = notebook.metadata.widgets[chapters.WIDGET_STATE]["state"].values()
    questions = next(m["state"]["questions"] for m in models if "questions" in m["state"])
    for field, question in zip(page.locator(".fedlab-quiz fieldset").all(), questions, strict=True):
        for choice in sorted(question["choices"], key=lambda c: c["right"]):
            field.get_by_label(choice["text"], exact=True).check()
            assert choice["why"] in field.locator(".q-why").inner_text()
            mark = "right" if choice["right"] else "wrong"
            assert field.locator("[data-mark]").get_attribute("data-mark") == mark
    status = page.locator(".fedlab-quiz > [role=status]")
    assert status.inner_text() == f"{len(questions)} of {len(questions)} right."
    page.get_by_role("button", name="Start again").press("Enter")
    assert status.inner_text().startswith("0 of")
    assert page.locator(".fedlab-quiz input:checked").count() == 0


def test_without_scripts_a_table_stands_there(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/notebooks/04_cgsv.html")
    table = page.locator(".widget-table").first
    assert table.is_visible()
    assert "exact Shapley" in table.inner_text()
    context.close()


def test_the_verdict_is_pythons_on_a_grid(open_page, tmp_path):
    """The rule of intervals stands twice, in Python and in interval.js."""
    spreads, seeds = (0.002, 0.01 * math.sqrt(2), 0.2), (2, 5, 8, 60)
    bounds, kinds = (-0.1, 0.0, 0.2), (False, True)
    grid = [*itertools.product((-0.2, 0.02), spreads, seeds, bounds, kinds), (1, 0, 5, 0, False)]
    kept = widgets.VerdictExplorer()
    page = revealed(open_page, tmp_path, kept.get_state())
    heard = set()
    for setting in grid:
        state = dict(zip(("mean", "spread", "seeds", "bound", "equal"), setting, strict=True))
        page.evaluate(look("setState"), state)
        assert differences(page, widgets.VerdictExplorer) == [], state
        verdict = twin(widgets.VerdictExplorer, {**state, "spans": kept.spans}).judged(setting[2])
        assert page.locator(".w-chart").get_attribute("aria-label").endswith(f": {verdict}."), state
        heard.add(verdict)
    assert heard == set(WORDS)
    rule = "\n".join((STATIC / f"{name}.js").read_text() for name in ("kit", "interval"))
    asked = f"([x, spans]) => {{ {rule}; return interval(x, [-1, 1], spans); }}"
    for ends in range(11):  # of ten seeds so many sit at an end, where the rule changes
        values = [1.0] * ends + [0.3, -0.2, 0.1, 0.0, -0.9, 0.5, 0.2, 0.25, -0.1, 0.7][ends:]
        told = page.evaluate(asked, [values, kept.spans])
        assert told == pytest.approx(interval(values, low=-1, high=1)[:3], abs=1e-9), ends
    assert page.faults == []


def test_fir_is_moved_by_attack_key_and_hand(open_page, tmp_path):
    cls = widgets.AttackerExplorer
    page = revealed(open_page, tmp_path, cls(watched=[True] * 4).get_state())
    for sent in cls.sends.values:
        page.evaluate(look("setState"), {"sends": sent})
        assert differences(page, cls) == [], sent

    def arrow():
        return page.evaluate(look("readState"), ["arrow"])["state"]["arrow"]

    page.evaluate(look("setState"), {"sends": "replay"})
    tip, plane = page.locator(".w-tip"), page.locator(".w-plane")
    for key, turn, length in (("ArrowLeft", 5, 0.5), ("ArrowUp", 5, 0.55), ("ArrowRight", 0, 0.55)):
        tip.press(key)
        along = [length * f(math.radians(turn)) for f in (math.cos, math.sin)]
        assert arrow() == pytest.approx(along, abs=2e-3)
        assert tip.get_attribute("aria-valuetext") == f"direction {turn}°, length {length:.2f}"
        assert differences(page, cls) == []
    box, at = plane.bounding_box(), tip.bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4, steps=4)
    page.mouse.up()
    assert arrow() == pytest.approx([0.05, 0.9], abs=0.02)
    assert differences(page, cls) == []
    page.mouse.move(box["x"], box["y"])
    assert arrow() == pytest.approx([0.05, 0.9], abs=0.02), "it was let go"
    assert page.faults == []


def test_tickets_fall_as_often_as_is_expected(open_page, tmp_path):
    """The one random choice that is a picture only. A reader sees forty rounds, this test 4,000."""
    explorer = widgets.TemperatureExplorer([0.2, 0.1, 0.05, 0, -0.1], drawn=2, temperature=0.1)
    state = explorer.get_state()
    state["_esm"] = state["_esm"].replace("ROUNDS = 40", "ROUNDS = 4000")
    page = revealed(open_page, tmp_path, state)
    said = page.locator("svg.w-chart").get_attribute("aria-label")
    counts = [int(count) for count in re.findall(r"client \d (\d+)", said)]
    assert sum(counts) == 8000
    for count, p in zip(counts, explorer.numbers()["among those drawn"].values(), strict=True):
        assert abs(count - 4000 * p) < 4.5 * math.sqrt(4000 * p * (1 - p)), said


@pytest.mark.parametrize("explorer", [
    widgets.MixUpExplorer(rounds=400),
    widgets.PartitionExplorer([60] * 3, alpha=0.3, clients=5, seed=7),
    widgets.PolicyExplorer([1, 0.4, 1.6, 0.8], seed=3),
], ids=lambda explorer: type(explorer).__name__)  # fmt: skip
def test_other_random_choices_are_pythons(explorer, open_page, tmp_path):
    """Whose distributions tests/unit/test_widgets.py looks at."""
    page = revealed(open_page, tmp_path, explorer.get_state())
    assert differences(page, type(explorer)) == []


def revealed(open_page, folder, state):
    """A page with an explorer alone, guessed and revealed."""
    path = folder / "page.html"
    path.write_text(bare_page({"one": {"model_module": "anywidget", "state": state}}))
    page = open_page(path.as_uri())
    page.locator(".w-guess").press("End")
    page.get_by_role("button", name="Reveal").press("Enter")
    return page


HOSTILE = "</SCRIPT ><img src=y><!--"
PROGRAMS = {
    "throws": "export default { render() { throw Error('broken'); } };",
    "no program": "this is no JavaScript",
    "sound": "export default { render({ model, el }) {"
    " el.textContent = `${model.get('name')}${model.get('x')}`; } };",
}


def bare_page(state):
    """Widgets by their states, on a page with nothing else."""
    kind = "application/vnd.jupyter.widget"
    views = "".join(
        f'<div id="{name}"><script type="{kind}-view+json">{{"model_id": "{name}"}}</script>'
        '<p class="widget-table">numbers</p></div>'
        for name in state
    )
    stored = page_scripts.harmless(json.dumps({"state": state}))
    host = (chapters.ROOT / "book" / "_static" / "afm-host.js").read_text(encoding="utf-8")
    text = f'{views}<script type="{kind}-state+json">{stored}</script>'
    return f"{text}<script>{host}</script>"


def test_a_broken_widget_says_so_and_harms_no_other(open_page, tmp_path):
    state = {
        name: {"model_module": "anywidget", "state": {"_esm": esm, "name": HOSTILE, "x": math.nan}}
        for name, esm in PROGRAMS.items()
    }
    path = Path(tmp_path / "page.html")
    path.write_text(bare_page(state), encoding="utf-8")
    page = open_page(path.as_uri())
    page.get_by_text("null").wait_for()
    assert page.locator("[id=sound] div").inner_text() == f"{HOSTILE}null"
    assert not page.locator("[id=sound] p").is_visible()
    for name in ("throws", "no program"):
        assert "could not start" in page.locator(f"[id='{name}'] div").inner_text()
        assert page.locator(f"[id='{name}'] p").is_visible()
    assert page.locator("img").count() == 0
    assert len(page.faults) == 2
