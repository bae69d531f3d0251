"""The notebooks that people open, rendered by a viewer that knows Markdown and nothing else."""

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter

import chapters
import glued
import reading

SOURCES = chapters.sources()
RAW = re.compile(r":::|`{3,}\{|\{[\w:-]+\}`|\{(?:term|cite|eq|ref|numref|doc|glue|prf)\b|^\(.+\)=$")
FORM = re.compile(r"\b\w+:[,.]?\d*\.?\d+[fge%]")  # of a number that the text asks for
# what glue(...) leaves among the outputs is for the text, not for viewers
pytestmark = pytest.mark.filterwarnings("ignore:Your element with mimetype")
# no page around the notebook, no code in colours: neither is looked at here
EXPORTER = HTMLExporter(template_name="basic", exclude_input=True)


def rendered(path):
    """A notebook as nbconvert shows it."""
    page = BeautifulSoup(EXPORTER.from_filename(str(path))[0], "html.parser")
    for part in page(["script", "style"]):
        part.decompose()
    return page


def prose(page):
    for code in page(["pre", "code"]):
        code.decompose()
    return page.get_text(" ")


def images(page, folder):
    """Faults of the pictures on a page that lies in a folder."""
    for image in page("img"):
        address = image["src"]
        if not address.startswith("data:image/") and not (folder / unquote(address)).is_file():
            yield f"no picture at {address}"
        if not (image["alt"] if address.endswith("svg") else image.find_next("details")):
            yield f"no words for {address[:60]}"


def faults(text, keys):
    """What a reader should not see in prose."""
    return [*RAW.findall(text), *FORM.findall(text), *(key for key in keys if key in text)]


@pytest.mark.parametrize(
    ("source", "path"),
    [(source, place) for source in SOURCES for place in reading.places(source)],
    ids=lambda path: f"{path.parent.name}/{path.stem}" if path.suffix == ".ipynb" else "",
)
def test_a_plain_viewer_shows_a_whole_text(source, path):
    page = rendered(path)
    assert list(images(page, path.parent)) == []
    for link in page("a", href=True):
        address, _, part = link["href"].partition("#")
        if address and not re.match(r"https?:|mailto:", address):
            assert (path.parent / unquote(address)).exists(), address
        elif part:
            assert page.find(id=unquote(part)), f"nothing is called {part}"
    text = prose(page)
    assert faults(text, reading.bibliography()) == []
    if path == reading.places(source)[0]:
        assert numbers_missing(source, text) == []


def numbers_missing(source, shown):
    """Names of the numbers that a source asks for and a text does not hold."""
    values = glued.glued(reading.compose(source))
    asked = re.findall(r"\{glue:text\}`([\w.]+?)(?::([^`]+))?`", source.read_text("utf-8"))
    return [key for key, form in asked if format(values[key], form) not in shown]


def test_a_number_that_is_not_shown_is_found():
    assert numbers_missing(SOURCES[0], "a text without numbers")


@pytest.mark.parametrize("source", chapters.numbered(), ids=lambda source: source.stem)
def test_chapter_shows_no_solution(source):
    chapter, solutions = (nbformat.read(place, as_version=4) for place in reading.places(source))
    everything = "\n".join(cell.source for cell in chapter.cells)
    heads = [cell.source for cell in solutions.cells if "Solution of exercise" in cell.source]
    assert len(heads) == len(re.findall(r"^\*\*Exercise", everything, re.MULTILINE)) >= 4
    answers = [cell.source for cell in solutions.cells[2:] if cell.cell_type == "code"]
    answers += [text for head in heads for text in head.split("\n\n")[1:]]
    assert [answer for answer in answers if answer in everything] == []
    assert everything.count(f"](solutions/{source.stem}.ipynb)") == len(heads)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("As {cite:t}`xu2021gradient` say.", "As [Xu et al. (2021)](#References) say."),
        ("So {cite:p}`yoon2020data`.", "So ([Yoon et al., 2020](#References))."),
        ("A {term}`round <rounds>` of a {term}`game`.", "A round of a game."),
        ("By {eq}`eq-orders` and {prf:ref}`thm-shapley`.", "By (2.1) and Theorem 2.1."),
        ("About {glue:text}`half:.0%` or {glue:text}`name`.", "About 50% or nobody."),
        ("In code: `{term}` and ``{eq}`x` ``.", "In code: `{term}` and ``{eq}`x` ``."),
        ("See {doc}`CGSV <../notebooks/04_cgsv>`.", "See [CGSV](04_cgsv.ipynb)."),
        ("$$\na\n= b\n$$ (eq-orders)", "$$\na\n= b \\tag{2.1}\n$$"),
        (
            ":::{admonition} Break it\n:class: break-it\n\nTry.\n\n$$\na\n$$ (eq-orders)\n:::",
            "> **Break it**\n>\n> Try.\n>\n> $$ a \\tag{2.1} $$",
        ),
        (
            ":::{admonition} Answer\n:class: dropdown\n\nTry.\n:::",
            "<details><summary>Answer</summary>\n\nTry.\n\n</details>",
        ),
        (
            ":::{table} Halves of {glue:text}`name`.\n\n| a |\n|---|\n| 1 |\n:::",
            "| a |\n|---|\n| 1 |\n\n*Halves of nobody.*",
        ),
    ],
)
def test_a_piece_of_text_becomes_plain(text, shown):
    plain = reading.Plain("02_x", {"half": 0.5, "name": "nobody"})
    assert "\n\n".join(map(plain.block, reading.blocks(text))) == shown


@pytest.mark.parametrize(
    "text", ["{abbr}`x`", "{eq}`eq-none`", "{glue:text}`none`", ":::{dance}\n:::"]
)
def test_what_has_no_plain_form_is_refused(text):
    plain = reading.Plain("02_x", {})
    with pytest.raises(chapters.ChapterError, match="02_x: plain Markdown has nothing for"):
        "\n\n".join(map(plain.block, reading.blocks(text)))


@pytest.mark.parametrize(
    "text",
    ["{term}`a b`", ":::{note}\nx\n:::", "is half:.2f of", "see yoon2020data", "```{figure} a.svg"],
)
def test_raw_text_would_be_found(text):
    assert faults(text, ["yoon2020data"])


def test_a_chapter_alone_brings_its_pictures():
    chapter, _ = reading.split(reading.compose(SOURCES[3]), SOURCES[3].stem)
    page = BeautifulSoup(EXPORTER.from_notebook_node(reading.portable(chapter))[0], "html.parser")
    assert page("img", src=re.compile("^data:image/svg"))
    assert list(images(page, Path("nowhere"))) == []
