"""A notebook run with another seed says which of its sentences have other numbers now."""

import json
import shutil

import myst_nb
import nbformat
import pytest

import chapters
import followed
import reading
from fedlab_mini.judge.evidence import Interval
from fedlab_mini.show import following
from studies import tell

SOURCE = chapters.numbered()[0]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What chapter 1's first cell has put in place, in a folder with the notebook, and what is
    shown from then on."""
    shutil.copy(reading.places(SOURCE)[0], tmp_path)
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(myst_nb, "glue", myst_nb.glue)
    monkeypatch.setattr(
        following, "show", lambda thing: shown.append(getattr(thing, "data", thing))
    )
    exec(followed.FOLLOW.format(stem=SOURCE.stem), {})
    return shown


def stored():
    """The notebook as it is handed out, and its sentences."""
    notebook = nbformat.read(reading.places(SOURCE)[0], as_version=4)
    return notebook, notebook.metadata["sentences"]


def test_a_chapter_begins_with_the_line_and_holds_every_sentence_with_a_number():
    notebook, told = stored()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == followed.FOLLOW.format(stem=SOURCE.stem)
    assert following.LINE in first.outputs[0]["data"]["text/plain"]
    text = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    roles = followed.GLUED.findall(SOURCE.read_text(encoding="utf-8"))
    assert {key for key, _ in roles} >= set(told)
    assert len(told) > 5
    for sentence in (sentence for found in told.values() for sentence in found):
        assert sentence[2] in text
        assert "{" not in sentence[0] + sentence[3]


def test_a_number_that_differs_is_shown_in_its_sentence(run):
    key = "auc_skewed"
    ((before, _, number, after),) = stored()[1][key]
    own = Interval(0.5, 0.25, 0.75, 10)
    assert str(own) != number
    tell(key, own)
    (line,) = run
    assert f"{before}**{own}**{after}" in line
    assert number in line


def test_a_number_that_is_the_stored_one_is_not_repeated(run):
    key = "auc_skewed"
    ((_, _, number, _),) = stored()[1][key]
    myst_nb.glue(key, type("Same", (), {"__repr__": lambda self: number})(), display=False)
    assert run == []


def test_what_a_cell_would_show_it_still_shows(run):
    myst_nb.glue("no sentence has it", 7)
    assert run == [7]


def test_values_are_written_as_the_sentence_writes_them():
    sentence = ["it has ", ".1f", "2.0", " parts"]
    assert following.differing([sentence], "2.04") == []
    assert "**2.1**" in following.differing([sentence], "2.06")[0]
    assert following.differing([["", "", "a", ""]], "'a'") == []


def test_a_chapter_elsewhere_is_followed_without_sentences(run, tmp_path):
    (tmp_path / "other.ipynb").write_text(json.dumps({"metadata": {}}), encoding="utf-8")
    for name in ("other", "not there"):
        following.follow(name)
        myst_nb.glue("auc_skewed", 1, display=False)
    assert run == []
