"""The notebooks that people open are plain Markdown, and follow a run with another seed."""

import json
import re

import myst_nb
import nbformat
import pytest

import chapters
import glued
import reading
from fedlab_mini.show import following

SOURCES = chapters.sources()
RAW = re.compile(r":::|`{3,}\{|\{[\w:-]+\}`|\{(?:term|cite|eq|ref|numref|doc|glue|prf)\b|^\(.+\)=$")
FORM = re.compile(r"\b\w+:[,.]?\d*\.?\d+[fge%]")  # of a number that the text asks for
CODE = re.compile(r"```.*?```|``.*?``|`[^`]*`", re.DOTALL)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_has_all_numbers_and_pictures_and_nothing_of_myst(source):
    for place in reading.places(source):
        cells = nbformat.read(place, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        prose = CODE.sub("", text)
        raw = [*RAW.findall(prose), *FORM.findall(prose)]
        assert raw + [key for key in reading.bibliography() if key in prose] == []
        for alt, address in re.findall(r"(?<!!)\[([^][]*)\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            assert "://" in address or (place.parent / address).exists(), (alt, address)
        if place == reading.places(source)[0]:
            values = glued.glued(reading.compose(source))
            for key, form in reading.GLUED.findall(source.read_text(encoding="utf-8")):
                assert format(values[key], form) in text, key


@pytest.mark.parametrize("source", chapters.numbered(), ids=lambda source: source.stem)
def test_a_chapter_shows_no_solution(source):
    chapter, solutions = (nbformat.read(place, as_version=4) for place in reading.places(source))
    everything = "\n".join(cell.source for cell in chapter.cells)
    heads = [cell.source for cell in solutions.cells if "Solution of exercise" in cell.source]
    assert len(heads) == len(re.findall(r"^\*\*Exercise", everything, re.MULTILINE)) >= 3
    answers = [cell.source for cell in solutions.cells[2:] if cell.cell_type == "code"]
    answers += [text for head in heads for text in head.split("\n\n")[1:]]
    assert [answer for answer in answers if answer in everything] == []


PIECES = [
    ("As {cite:t}`xu2021gradient` say.", "As [Xu et al. (2021)](#References) say."),
    ("A {term}`round <rounds>` of a {term}`game`.", "A round of a game."),
    ("By {eq}`eq-orders` and {prf:ref}`thm-shapley`.", "By (2.1) and Theorem 2.1."),
    ("About {glue:text}`half:.0%` or {glue:text}`name`.", "About 50% or nobody."),
    ("In code: `{term}` and ``{eq}`x` ``.", "In code: `{term}` and ``{eq}`x` ``."),
    (":::{admonition} Try\n\n$$\na\n$$ (eq-orders)\n:::", "> **Try**\n>\n> $$ a \\tag{2.1} $$"),
    ("{abbr}`x`", None),
    ("{eq}`eq-none`", None),
    ("{glue:text}`none`", None),
    (":::{dance}\n:::", None),
]


@pytest.mark.parametrize(("text", "shown"), PIECES)
def test_a_piece_of_text_becomes_plain_or_is_refused(text, shown):
    plain = reading.Plain("02_x", {"half": 0.5, "name": "nobody"})
    if shown is None:
        with pytest.raises(chapters.ChapterError, match="02_x: plain Markdown has nothing for"):
            [*map(plain.block, reading.blocks(text))]
    else:
        assert "\n\n".join(map(plain.block, reading.blocks(text))) == shown


def test_a_run_is_told_which_sentences_have_other_numbers(tmp_path, monkeypatch):
    """A sentence is shown once, when its last number is noted, and only if one of them differs."""
    text = "1. It is {glue:text}`a:.1f` and {glue:text}`b`. Next.\n2. So {glue:text}`a:.1f` is."
    cells = [nbformat.v4.new_markdown_cell(text)]
    for name in "ba":
        note = nbformat.v4.new_output("display_data", {f"{glued.RECORD}text/plain": "2"})
        note.metadata["scrapbook"] = {"name": name}
        cells.append(nbformat.v4.new_code_cell(name, outputs=[note]))
    told = reading.sentences(nbformat.v4.new_notebook(cells=cells), "99_x")
    (tmp_path / "99_x.ipynb").write_text(json.dumps({"metadata": {"sentences": told}}))
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(myst_nb, "glue", myst_nb.glue)
    monkeypatch.setattr(following, "display", shown.append)
    exec(reading.FOLLOW.format(stem="99_x"), {})
    for name, value in {"b": 3, "a": 2.04}.items():
        assert shown == []
        myst_nb.glue(name, value, display=False)
    assert [line.data for line in shown] == [
        "*In this run:* It is 2.0 and **3**. *(The text has 2.)*"
    ]
    myst_nb.glue("no sentence has it", 7)
    assert shown[1:] == [7]  # what a cell would show it still shows
