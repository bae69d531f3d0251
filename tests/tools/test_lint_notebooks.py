"""The notebook lint finds each planted fault, and none in a sound chapter."""

import pytest
from nbformat.v4 import new_markdown_cell, new_output

import chapters
import lint_notebooks

SOUND = """# A chapter

A sentence.

```{code-cell}
:tags: [parameters]

scale = "fast"
seed = 0
```

Another.

```{code-cell}
---
mystnb:
  figure:
    caption: What is seen.
    name: fig-x
  image:
    alt: A line.
---
draw()
```
"""
FIGURE = new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})

FAULTS = {
    "too long": ("draw()", "\n".join(["draw()"] * 31), "cell of 31 lines"),
    "too wide": ("draw()", "draw()  # " + "x" * 100, "line of 110 columns"),
    "semicolon": ("draw()", "draw();", "a semicolon"),
    "no sentence": ("Another.\n\n", "", "no sentence before"),
    "no parameters": (":tags: [parameters]\n\n", "", "0 cells are tagged"),
    "other scale": ('"fast"', '"paper"', "must hold: scale"),
    "no seed": ("seed = 0", "size = 0", "integer seed"),
    "no alt text": ("    alt: A line.", "    width: 80%", "without mystnb.image.alt"),
    "no caption": ("    caption: What is seen.\n", "", "without mystnb.figure.caption"),
    "no name": ("    name: fig-x\n", "", "without mystnb.figure.name"),
    "typed result": ("A sentence.", "## One\n\nThe accuracy is 0.93.", "a typed result, 0.93"),
    "no check": ("Another.", "## One\n\nOurs beats theirs.", "a claim (beats)"),
    "no image text": ("A sentence.", "![](a.png)", "no alt text"),
    "backticks": ("Another.", "```{prf:theorem}\nx\n```", "directive in backticks"),
}


def write(folder, text):
    """A chapter with canonical text and a stored notebook in step."""
    source = folder / "01_x.md"
    source.write_text(text, encoding="utf-8")
    notebook = chapters.with_ids(chapters.read_text(source))
    source.write_text(chapters.canonical(notebook), encoding="utf-8")
    for cell in notebook.cells:
        if cell.cell_type == "code" and "draw" in cell.source:
            cell.outputs = [FIGURE]
    stored = chapters.serialise(chapters.stable(notebook, source.stem))
    source.with_suffix(".ipynb").write_text(stored, encoding="utf-8")
    return source


def test_sound_chapter_has_no_faults(tmp_path):
    assert lint_notebooks.faults(write(tmp_path, SOUND)) == []


@pytest.mark.parametrize(("old", "new", "fault"), FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_found(tmp_path, old, new, fault):
    assert old in SOUND
    found = lint_notebooks.faults(write(tmp_path, SOUND.replace(old, new)))
    assert any(fault in line for line in found), found


def test_a_page_of_the_book_is_read_as_well(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nThe accuracy is 0.93.\n\n![](a.png)\n", encoding="utf-8")
    typed, blind = lint_notebooks.page_faults(page)
    assert typed.startswith("page.md: a typed result")
    assert blind.startswith("page.md: no alt text")
    page.write_text("# A page\n\nOurs beats theirs.\n", encoding="utf-8")
    assert lint_notebooks.page_faults(page) == []


def test_text_changed_after_the_run_is_found(tmp_path):
    source = write(tmp_path, SOUND)
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("seed = 0", "seed = 1"), encoding="utf-8")
    assert any("other cells than the text" in line for line in lint_notebooks.faults(source))


def test_text_in_another_form_is_found(tmp_path):
    source = write(tmp_path, SOUND)
    source.write_text(source.read_text(encoding="utf-8") + "\n\n\n", encoding="utf-8")
    assert any("canonical form" in line for line in lint_notebooks.faults(source))


def test_notebook_saved_elsewhere_is_found(tmp_path):
    source = write(tmp_path, SOUND)
    stored = source.with_suffix(".ipynb")
    stored.write_text(stored.read_text(encoding="utf-8").replace(" ", "  ", 1), encoding="utf-8")
    assert any("saved by another program" in line for line in lint_notebooks.faults(source))


def test_missing_notebook_is_found(tmp_path):
    source = write(tmp_path, SOUND)
    source.with_suffix(".ipynb").unlink()
    assert any("missing" in line for line in lint_notebooks.faults(source))


BLIND = [
    "Look: ![](a.png)",
    "![ ](a.svg)",
    ":::{figure} a.svg\n:width: 80%\n\nA caption.\n:::",
    "```{image} a.png\n:width: 80%\n```",
    ":::{figure} a.svg\n:alt:\n\nA caption.\n:::",
    'A line with <img src="a.svg"> in it.',
    '<img src="a.svg" alt="">',
    "<p>\n<IMG width=3\n src='a.png'>\n</p>",
    ":::{admonition} Deep\n- ![](a.png)\n:::",
]
SEEN = [
    "Look: ![A rising line.](a.png)",
    ":::{figure} a.svg\n:alt: A rising line.\n\nA caption.\n:::",
    "```{image} a.png\n---\nwidth: 80%\nalt: A rising line.\n---\n```",
    'A line with <img src="a.svg" alt="A rising line."> in it.',
    '```html\n<img src="a.svg">\n```',
    "In code: `![](a.png)` and `<img>`.",
]


@pytest.mark.parametrize("text", [*BLIND, *SEEN])
def test_only_an_image_without_alt_text_is_found(text):
    found = ["no alt text" in x for x in lint_notebooks.image_faults([new_markdown_cell(text)])]
    assert found == [True] * (text in BLIND)


def test_stored_warning_is_found(tmp_path):
    cell = chapters.read_text(write(tmp_path, SOUND)).cells[1]
    cell.outputs = [new_output("stream", name="stderr", text="no label on y\n")]
    assert list(lint_notebooks.output_faults([cell])) == ["a stored warning: no label on y"]


def test_stored_error_is_found(tmp_path):
    source = write(tmp_path, SOUND)
    notebook = chapters.with_ids(chapters.read_text(source))
    notebook.cells[1].outputs = [new_output("error", ename="IndexError", evalue="x", traceback=[])]
    found = lint_notebooks.output_faults(notebook.cells)
    assert list(found) == ["a stored error: IndexError: x"]
