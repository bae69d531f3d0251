"""The pictures of the first minute come from its lines; they are light, have words, and rest."""

import re
from xml.etree import ElementTree

import pytest

import chapters
import first_minute

NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
PICTURES = (first_minute.PLOT, first_minute.STILL, first_minute.MOVING)


@pytest.fixture(scope="module")
def made():
    """The pictures of a run of the five lines, here and now."""
    return first_minute.made()


def test_there_are_five_lines_and_the_landing_page_has_the_same():
    code = first_minute.code()
    assert len([line for line in code.splitlines() if line]) == 5
    assert max(map(len, code.splitlines())) <= 88  # wider, and the page scrolls
    index = (chapters.ROOT / "book" / "index.md").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in index
    for text in (index, (chapters.ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(r"!\[[^\]]{60,}\]\([\w/]*_static/figures/first_minute\.svg\)", text)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_stored_picture_is_what_the_lines_give(path, made):
    stored = path.read_text(encoding="utf-8")
    assert NUMBER.sub("0", stored) == NUMBER.sub("0", made[path]), "run tools/first_minute.py"
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(made[path]), strict=True)
    for old, new in pairs:
        assert float(old) == pytest.approx(float(new), rel=0.01, abs=0.3 if "." in old else 0)


def test_the_stored_picture_shows_every_state_of_the_explorer():
    names = first_minute.run()
    hist, (wrong,) = names["hist"], names["fed"].corrupted
    still = first_minute.STILL.read_text(encoding="utf-8")
    _, *shown = re.findall(r'<g class="jump".*?</g>', still)  # the first counts rounds
    numbers = [[float(x) for x in re.findall(r">([\d.]+)<", strip)] for strip in shown]
    wanted = [[0, *column] for column in hist.weights.T.tolist()] + [hist.accuracy.tolist()]
    for have, want in zip(numbers, wanted, strict=True):
        assert have == pytest.approx(want, abs=0.006)
    assert hist.weights[-1, wrong] < 0.1 * hist.weights[0].min()  # as the words beside it say


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_light_and_has_words(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 50_000
    svg = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + len("</svg>")])
    assert svg.get("role") == "img"
    words = [node.text for node in svg.iter() if node.tag.rpartition("}")[2] in ("title", "desc")]
    assert len(" ".join(words)) > 60


def test_motion_ends_or_can_be_stopped():
    alone = first_minute.STILL.read_text(encoding="utf-8")
    assert alone.count("--time:") == 1
    assert re.search(r"no-preference\)\{\.replay\{--time:\d+s \d\}\}", alone)
    page = first_minute.MOVING.read_text(encoding="utf-8")
    assert '<button type="button" hidden>' in page
    assert "[data-state=paused] *{animation-play-state:paused" in page
    assert "--ink:#" not in page  # the page's colours, light and dark
