"""Widgets on the chapters' pages, opened from disk: moved by hand, compared with Python."""

import itertools
import json
import math
import os
import random
import re
from pathlib import Path

import anywidget
import nbformat
import pytest
import visit
from helpers import unless_passed

import chapters
import page_scripts
from fedlab_bench.show.headtohead import HeadToHeadExplorer
from fedlab_mini.show import widgets

HOMES = {  # the widget, and the number that it asks for
    "02_shapley_theory": (widgets.ShapleyExplorer, "share", "C"),
    "03_retraining_baselines": (
        widgets.PartitionExplorer,
        "value",
        "classes of which one client holds 9 in 10",
    ),
    "04_cgsv": (widgets.CosineExplorer, "exact Shapley", "client 0"),
    "05_reinforce_frcce": (widgets.PolicyExplorer, "probability", "client 2 (corrupted)"),
    "06_reinforce_fldve": (widgets.RoundReplay, "weight", "client 2 (corrupted)"),
    "07_fedccea": (widgets.AAMExplorer, "loss without", "client 6"),
    "08_sfedavg": (widgets.TemperatureExplorer, "value", "irrelevant clients expected"),
    "09_label_standardisation": (widgets.LabelRuleExplorer, "chance", "a false repair"),
    "10_head_to_head": (HeadToHeadExplorer, "scores", "at the line"),
}
STATES, MOVES = 22, 70  # so many different settings, after at most so many moves
KEYS = ("ArrowRight", "ArrowLeft", "ArrowUp", "PageUp", "PageDown", "Home", "End")
READ = """(keys) => { const board = document.querySelector(".fedlab-widget");
  const model = board.parentElement.model;
  return { state: Object.fromEntries(keys.map((key) => [key, model.get(key)])),
    shown: [...board.querySelectorAll("data[data-of]")].map((e) =>
      [e.dataset.of, e.dataset.for, e.value, e.textContent]) }; }"""

LOOK = """e => e.innerHTML.replaceAll(' class=""', "")
  + [...e.querySelectorAll("input")].map(i => i.value)"""
CRAMPED = """e => { const bar = innerWidth > 1000 ? 0 : // it covers the top of a phone's window
    document.querySelector(".bd-header-article").getBoundingClientRect().bottom;
  scrollBy({ top: e.getBoundingClientRect().top - bar, behavior: "instant" });
  return [
  ...[...e.querySelectorAll("input[type=range]")].filter(i => innerWidth > 1000
    && i.clientWidth < Math.round((i.max - i.min) / i.step))
    .map(i => `${i.ariaLabel ?? i.labels[0].innerText}: ${i.clientWidth} px`),
  ...[...e.querySelectorAll(".w-table")].filter(t => t.scrollWidth > t.clientWidth)
    .map(t => `${t.ariaLabel}: ${t.scrollWidth} px in ${t.clientWidth}`),
  ...[...e.querySelectorAll("input, select, button, svg, table, .w-tip, [role=status]")]
    .filter(i => i.getClientRects().length).map(i => [i, i.getBoundingClientRect()])
    .filter(([i, at]) => at.top < bar - 1 || at.bottom > innerHeight + 1 || at.width < 23.9
      || i.matches("input, select, button, .w-tip") && at.height < 23.9)
    .map(([i, at]) => `${i.tagName} ${i.ariaLabel}, ${at.width} x ${at.height} px: ${at.top} to ${
      at.bottom} of ${innerHeight}`)]; }"""
AXE = """only => axe
  .run(".fedlab-widget", { runOnly: { type: "tag", values: only }, preload: false })
  .then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"""
FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
LISTEN = """e => { const said = window.said = [];
  for (const live of e.querySelectorAll("[role=status], [aria-live], output")) {
    new MutationObserver(() => said.push(Date.now()))
      .observe(live, { childList: true, characterData: true, subtree: true });
  } }"""

TOC = re.compile('(<li class="toc-h[^>]*><a [^>]*href="#)[^"]+')  # leads to headings
ARTICLE = "(.*<article[^>]*>)(.*)(</article>.*)"
WIDGET = re.compile(
    r'<div class="cell_output[^>]*>\s*<script type="[^"]*widget-view\+json">.*?(</div>\s*){3}',
    re.DOTALL,
)

pytestmark = pytest.mark.browser
HERE = Path(__file__).parent
BY = [*sorted(HERE.glob("*.py")), *sorted((chapters.ROOT / "book" / "_static").glob("*.*"))]


@pytest.fixture(scope="module")
def alone(site):
    """A function that gives a chapter's page with its first widget alone: the rest takes long.

    `test_browser.py` visits every page whole.
    """
    made = {}

    def page(chapter):
        if chapter not in made:
            text = (site / "notebooks" / f"{chapter}.html").read_text(encoding="utf-8")
            head, article, foot = re.fullmatch(ARTICLE, TOC.sub(r"\1", text), re.DOTALL).groups()
            made[chapter] = site / "notebooks" / f"{chapter}-{os.getpid()}.html"
            made[chapter].write_text(head + WIDGET.search(article)[0] + foot, encoding="utf-8")
        return made[chapter]

    yield page
    for path in made.values():
        path.unlink()


@pytest.fixture
def explorer(open_page, alone):
    """A function that opens a chapter: its page, its explorer, and a button of it by name."""

    def open_one(chapter, **look):
        page = open_page(alone(chapter).as_uri(), **look)
        board = page.locator(".fedlab-widget").first
        board.wait_for()
        return page, board, lambda name: board.get_by_role("button", name=name, exact=True)

    return open_one


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
def test_an_explorer_is_all_that_it_promises(explorer, alone, chapter):
    """Opened once for all of this; every check leaves it revealed, in its first settings."""
    with unless_passed(f"explorers/{chapter}", [alone(chapter), *BY]):
        opened = explorer(chapter)
        a_guess_comes_before_the_truth(*opened, chapter)
        nothing_is_cramped_hidden_or_hard_to_read(*opened)
        without_motion_a_replay_is_a_step(*opened)
        a_replay_moves_and_ends_in_the_present(*opened, chapter)
        numbers_follow_hand_and_keyboard_as_in_python(*opened, chapter)
        if chapter == "05_reinforce_frcce":
            a_screen_reader_hears_one_sentence_a_second(*opened)
            a_guess_can_be_drawn(*opened)
        if chapter == "07_fedccea":
            at_zero_nobody_has_the_largest_index(*opened)
        assert opened[0].faults == []


def numbers_follow_hand_and_keyboard_as_in_python(page, board, button, chapter):
    cls, chance = HOMES[chapter][0], random.Random(chapter)
    controls = board.locator("input:not(.w-guess), select").all()
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
    button("Reset").press("Enter")
    assert page.evaluate(READ, settings(cls)) == start


def a_guess_comes_before_the_truth(page, board, button, chapter):
    cls, quantity, name = HOMES[chapter]
    truth = twin(cls, page.evaluate(READ, settings(cls))["state"]).numbers()[quantity][name]
    asked = board.locator(f"data[data-of='{quantity}'][data-for='{name}']")
    guess, mark = board.locator(".w-guess"), board.locator(".w-truth")

    def veiled():
        hidden = [asked.text_content(), asked.get_attribute("value"), guess.input_value()]
        assert hidden[:2] == ["?", ""]
        assert board.locator("[role=status]").inner_text() == "Commit to a guess, then reveal."
        assert not mark.is_visible()
        assert button("Replay").is_disabled()

    veiled()
    guess.press("ArrowRight")
    guess.press("End")
    veiled()
    button("Reveal").press("Enter")
    low, high = (float(guess.get_attribute(end)) for end in ("min", "max"))
    far = float(guess.input_value()) - truth
    digits = len(board.locator(".w-ask .w-now-at").inner_text().partition(".")[2])
    said = board.locator("[role=status]").inner_text()
    assert f"The truth is {truth:.{digits}f}, your guess was {far:.{digits}f} too high" in said
    scale, at = guess.bounding_box(), mark.bounding_box()
    place = (at["x"] + at["width"] / 2 - scale["x"] - 8) / (scale["width"] - 16)
    assert place == pytest.approx((truth - low) / (high - low), abs=0.02)
    assert float(asked.get_attribute("value")) == pytest.approx(truth)
    button("Guess again").press("Enter")
    page.wait_for_timeout(1000)  # for the screen reader's ease
    veiled()


def nothing_is_cramped_hidden_or_hard_to_read(page, board, button):
    page.evaluate(visit.axe_program())
    board.locator(".w-guess").press("End")
    for press in ("Reset", "Reveal"):
        button(press).press("Enter")
        for width in (visit.PHONE, visit.DESK):
            page.set_viewport_size({"width": width, "height": 720})
            page.evaluate(visit.SETTLE)
            assert board.evaluate(CRAMPED) == [], f"{width} px, after {press}"
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
        page.evaluate(visit.SETTLE)
        assert page.evaluate(AXE, visit.TAGS) == [], scheme
    page.set_viewport_size({"width": visit.DESK, "height": visit.HEIGHT})


def a_replay_moves_and_ends_in_the_present(page, board, button, chapter):
    page.emulate_media(reduced_motion="no-preference")
    page.wait_for_timeout(1000)  # the truth comes to rest, and is said
    present, moving = board.evaluate(LOOK), set()
    board.evaluate(LISTEN)
    button("Replay").press("Enter")
    while len(moving) < 3 and button("Pause").count():
        moving.add(board.evaluate(LOOK))
    assert len(moving) == 3
    button("Pause").press("Enter")
    button("Go on").wait_for()
    page.evaluate(FRAME)  # on a busy machine one may still be on its way
    paused = board.evaluate(LOOK)
    page.wait_for_timeout(200)
    assert board.evaluate(LOOK) == paused
    button("Go on").press("Enter")
    button("Replay").wait_for()
    page.wait_for_timeout(1000)
    assert board.evaluate(LOOK) == present
    assert differences(page, HOMES[chapter][0]) == []
    assert len(page.evaluate("said")) <= 2, "it may speak when paused and when it ends"
    page.emulate_media(reduced_motion="reduce")


def without_motion_a_replay_is_a_step(page, board, button):
    page.wait_for_timeout(1000)
    present = board.evaluate(LOOK)
    button("Replay").press("Enter")
    page.wait_for_timeout(1000)
    step = board.evaluate(LOOK)
    page.wait_for_timeout(300)
    assert board.evaluate(LOOK) == step != present
    assert board.evaluate("e => e.getAnimations({ subtree: true }).length") == 0
    button("To the end").press("Enter")
    page.wait_for_timeout(1000)
    assert board.evaluate(LOOK) == present


def a_screen_reader_hears_one_sentence_a_second(page, board, button):
    board.evaluate(LISTEN)
    steps = board.get_by_label("steps", exact=True)
    for _ in range(60):
        steps.press("ArrowLeft")
        page.wait_for_timeout(30)
    page.wait_for_timeout(1100)
    times = page.evaluate("said")
    assert len(times) >= 2
    assert min(b - a for a, b in itertools.pairwise(times)) > 900
    assert "After 340 steps" in board.locator("[role=status]").inner_text()
    button("Reset").press("Enter")


def a_guess_can_be_drawn(page, board, button):
    button("Guess again").press("Enter")
    chart = board.locator(".w-pick")
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] / 2, "y": box["height"] * (12 + 116 / 4) / 160})
    assert float(board.locator(".w-guess").input_value()) == pytest.approx(0.75, abs=0.02)
    assert board.locator(".w-ring").count() == 1


def at_zero_nobody_has_the_largest_index(page, board, button):
    for k in range(8):
        board.get_by_label(f"data of client {k}").press("Home")
    page.wait_for_timeout(1000)
    assert "nobody has an index" in board.locator(".w-question").inner_text()
    assert "Largest index: nobody" in board.locator("[role=status]").inner_text()
    assert differences(page, widgets.AAMExplorer) == []


def test_explorer_and_quiz_of_a_page_follow_a_hand(open_page, site):
    page = open_page(f"{site.as_uri()}/notebooks/04_cgsv.html")
    an_arrow_can_be_dragged_and_no_table_stands_beside(page)
    a_quiz_marks_itself_and_explains_every_choice(page)
    assert page.faults == []


def an_arrow_can_be_dragged_and_no_table_stands_beside(page):
    page.locator(".fedlab-widget").get_by_role("button", name="Reveal").click()
    page.locator(".w-plane").scroll_into_view_if_needed()
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
    assert not page.locator(".widget-table").first.is_visible()


def a_quiz_marks_itself_and_explains_every_choice(page):
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


def test_without_scripts_a_table_stands_there(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/notebooks/04_cgsv.html")
    tables = page.locator(".widget-table")
    assert tables.first.is_visible()
    assert "exact Shapley" in tables.first.inner_text()
    context.close()


def test_a_program_that_fails_says_so(open_page, site, alone):
    text = alone("04_cgsv").read_text(encoding="utf-8")
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
