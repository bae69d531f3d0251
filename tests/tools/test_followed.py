"""A notebook run with another seed says which of its sentences have other numbers now."""

import json
import random
import re
import shutil

import myst_nb
import nbformat
import papermill
import pytest
from helpers import with_all_cases

import chapters
import followed
import glued
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


def numbers(sentence):
    """The parts of a sentence that are numbers: name, form, as stored."""
    return [part for part in sentence if not isinstance(part, str)]


def single(key):
    """The one sentence of the chapter that has this number and no other."""
    (sentence,) = stored()[1][key]
    (number,) = numbers(sentence)
    return number


def test_a_chapter_begins_with_the_line_and_holds_every_sentence_with_a_number():
    notebook, told = stored()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == followed.FOLLOW.format(stem=SOURCE.stem)
    assert following.LINE in first.outputs[0]["data"]["text/plain"]
    text = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    roles = followed.GLUED.findall(SOURCE.read_text(encoding="utf-8"))
    held = [part for found in told.values() for sentence in found for part in numbers(sentence)]
    assert {key for key, _ in roles} >= {key for key, _, _ in held}
    assert len(told) > 5
    assert all(number in text for _, _, number in held)


@pytest.mark.parametrize("source", chapters.numbered(), ids=lambda source: source.stem)
def test_what_a_chapter_holds_are_whole_sentences(source):
    """No list number of the next item, no half of a bold text, no comment, no row's line."""
    told = nbformat.read(reading.places(source)[0], as_version=4).metadata["sentences"]
    for sentence in (sentence for found in told.values() for sentence in found):
        text = "".join(part if isinstance(part, str) else part[2] for part in sentence)
        assert not re.search(r"\n|<!--|:::|```|\{\w+:?\w*\}`", text), text
        assert all(text.count(mark) % 2 == 0 for mark in ("**", "$", "`")), text
        assert not re.match(r"(\d+\.|[-*+]) ", text), text
        assert re.search(r"[.!?:][*)\"]*$", text.strip()), text


def test_a_number_that_differs_is_shown_in_its_sentence(run):
    key, _, number = single("auc_skewed")
    own = Interval(0.5, 0.25, 0.75, 10)
    assert str(own) != number
    tell(key, own, above=0)
    (line,) = run
    assert f"**{own}**" in line
    assert f"(The text has {number}.)" in line


def test_a_number_that_is_the_stored_one_is_not_repeated(run):
    key, _, number = single("auc_skewed")
    myst_nb.glue(key, type("Same", (), {"__repr__": lambda self: number})(), display=False)
    assert run == []


def test_what_a_cell_would_show_it_still_shows(run):
    myst_nb.glue("no sentence has it", 7)
    assert run == [7]


def test_values_are_written_as_the_sentence_writes_them():
    sentences = [["it has ", ["n", ".1f", "2.0"], " parts"]]
    assert following.differing(sentences, {"n": "2.04"}) == []
    assert "**2.1**" in following.differing(sentences, {"n": "2.06"})[0]
    assert following.differing([[["n", "", "a"]]], {"n": "'a'"}) == []


@pytest.mark.parametrize("seed", range(100))
def test_a_sentence_is_shown_once_and_all_its_numbers_are_the_run_s(seed, tmp_path, monkeypatch):
    """Drawn: a text with sentences of several numbers, lists and tables; what a run notes of it."""
    draw = random.Random(seed)
    names = [f"n{k}" for k in range(draw.randint(1, 6))]
    before = {name: draw.choice([draw.randint(0, 9), round(draw.random(), 3)]) for name in names}
    texts, used = [], []
    for k in range(draw.randint(1, 5)):
        chosen = draw.sample(names, draw.randint(0, min(3, len(names))))
        used += [chosen] if chosen else []
        words = " and ".join(f"{{glue:text}}`{name}:.1f`" for name in chosen)
        texts.append(f"{draw.choice(['', '1. ', '- ', '> '])}Sentence {k} has {words}. Next")
    text = draw.choice(["\n\n", "\n2. "]).join(texts) + draw.choice(["", " <!-- typed: A. B -->"])
    cells = [nbformat.v4.new_markdown_cell(text)]
    for name in draw.sample(names, len(names)):  # in another order than the sentences'
        data = {f"{glued.RECORD}text/plain": repr(before[name])}
        told = nbformat.v4.new_output("display_data", data)
        told.metadata["scrapbook"] = {"name": name}
        cells.append(nbformat.v4.new_code_cell(name, outputs=[told]))
    whole = nbformat.v4.new_notebook(cells=cells)
    held = {"metadata": {"sentences": reading.sentences(whole, "99_drawn")}}
    (tmp_path / "drawn.ipynb").write_text(json.dumps(held), encoding="utf-8")
    shown, after = [], {name: draw.choice([x, x, draw.randint(0, 9)]) for name, x in before.items()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(myst_nb, "glue", myst_nb.glue)
    monkeypatch.setattr(following, "show", lambda thing: shown.append(thing.data))
    following.follow("drawn")
    for cell in cells[1:]:
        due = len(shown)
        myst_nb.glue(cell.source, after[cell.source], display=False)
        assert all(f"{after[cell.source]:.1f}" in line for line in shown[due:])
    wanted = []
    for chosen in used:
        now, was = ([f"{values[name]:.1f}" for name in chosen] for values in (after, before))
        if now != was:
            pairs = zip(now, was, strict=True)
            wanted.append(" and ".join(n if n == w else f"**{n}**" for n, w in pairs))
    lines = [re.fullmatch(r"\*In this run:\* Sentence \d has (.*)\. \*\(The text has .*\)\*", line)
             for line in shown]  # fmt: skip
    assert all(lines), shown
    assert sorted(line[1] for line in lines) == sorted(wanted)


RECORD_ALL = """import json, myst_nb
_noted, _glue = {}, myst_nb.glue
def _both(name, variable, display=True):
    _noted[name] = repr(variable)
    _glue(name, variable, display)
myst_nb.glue = _both"""


@with_all_cases("it runs a chapter")
def test_a_run_with_another_seed_says_what_is_true_of_it(tmp_path, own_settings):
    """Chapter 2 with seed 7, as README invites to: every number shown is one that the run noted."""
    source = chapters.numbered()[1]
    notebook = nbformat.read(reading.places(source)[0], as_version=4)
    at = next(k for k, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(RECORD_ALL))
    notebook.cells.append(nbformat.v4.new_code_cell("print(json.dumps(_noted))"))
    code = {cell.source for cell in notebook.cells if cell.cell_type == "code"}
    assert len(code) == sum(cell.cell_type == "code" for cell in notebook.cells)
    nbformat.write(notebook, tmp_path / "in.ipynb")
    done = papermill.execute_notebook(
        tmp_path / "in.ipynb", tmp_path / "out.ipynb", {"seed": 7}, progress_bar=False,
        kernel_name=chapters.KERNELSPEC["name"], cwd=chapters.NOTEBOOKS,
    )  # fmt: skip
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    own = json.loads(outputs[-1]["text"])
    shown = [o["data"]["text/markdown"] for o in outputs if "text/markdown" in o.get("data", {})]
    shown = [line for line in shown if line.startswith("*In this run:*")]
    told = [s for found in notebook.metadata["sentences"].values() for s in found]
    wanted = [line for sentence in told for line in following.differing([sentence], own)]
    assert sorted(shown) == sorted(wanted)
    assert len(shown) == len({*shown}) > 5
    for sentence in told:
        now = [format(glued.literal(own[n]), form) for n, form, _ in numbers(sentence)]
        words = re.escape(
            next(filter(None, map(str.strip, (p for p in sentence if isinstance(p, str)))))
        )
        lines = [line for line in shown if re.search(words, line)]
        assert all(number in line for line in lines for number in now), (sentence, lines)


def test_a_chapter_elsewhere_is_followed_without_sentences(run, tmp_path):
    (tmp_path / "other.ipynb").write_text(json.dumps({"metadata": {}}), encoding="utf-8")
    for name in ("other", "not there"):
        following.follow(name)
        myst_nb.glue("auc_skewed", 1, display=False)
    assert run == []
