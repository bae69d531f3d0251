"""Check the chapters and pages of the book, and print one line a fault; exits 1 if there is any.

    python tools/lint_notebooks.py

Here: the form of a chapter, which is canonical text, outputs in step, short cells, described
figures. In files of their own: typed results and unchecked claims (`lint_claims.py`), images
without alt text and axes without labels (`lint_figures.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

import chapters
import lint_claims
import lint_figures
import paper
import reading

LONG, LONGEST, WIDEST = 25, 30, 100
BACKTICK_DIRECTIVE = re.compile(r"^`{3,}\{(?!figure\})", re.MULTILINE)


def form_faults(source: Path) -> Iterator[str]:
    """The text is canonical; the notebooks are what it and their own outputs give."""
    repair = f"run: make notebooks CHAPTERS={source.stem[:2]}"
    if chapters.canonical(chapters.read_text(source)) != source.read_text(encoding="utf-8"):
        yield f"{source.name}: not in canonical form; {repair}"
    try:
        whole = reading.compose(source)
        yield from (f"{source.name}: {fault}" for fault in output_faults(whole.cells))
        for path, text in reading.texts(source, whole).items():
            if path.read_text(encoding="utf-8") != text:
                yield f"{path.parent.name}/{path.name}: not what text and outputs give; {repair}"
    except chapters.ChapterError as failed:
        yield str(failed)


def code_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Code cells: length, width, a sentence before each."""
    long = 0
    for index, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        lines = cell.source.splitlines()
        long += len(lines) > LONG
        first = lines[0] if lines else "(empty)"
        if not lines:
            yield "an empty code cell"
        if len(lines) > LONGEST:
            yield f"cell of {len(lines)} lines, at most {LONGEST}: {first}"
        if lines and lines[-1].rstrip().endswith(";"):
            yield f"a semicolon hides the last value from readers, not from the checks: {first}"
        wide = [line for line in lines if len(line) > WIDEST]
        if wide:
            yield f"line of {len(wide[0])} columns, at most {WIDEST}: {wide[0].strip()}"
        if index and cells[index - 1].cell_type == "code":
            yield f"no sentence before the cell that starts with: {first}"
    if long > 2:
        yield f"{long} cells of more than {LONG} lines; two are the most"


def text_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Texts read well outside the site too: colon fences, no backtick directives."""
    for cell in cells:
        if cell.cell_type == "markdown" and BACKTICK_DIRECTIVE.search(cell.source):
            yield "a directive in backticks; write it with colons (:::{name}), mathematics with $$"


def parameter_faults(notebook: NotebookNode) -> Iterator[str]:
    """One cell of declared parameters, with the scale that the site shows and a seed."""
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        yield f"{len(tagged)} cells are tagged `parameters`; there must be one"
        return
    declared = paper.parameters(notebook)
    if declared.get("scale") != "fast":
        yield 'the parameters cell must hold: scale = "fast"'
    if not isinstance(declared.get("seed"), int):
        yield "the parameters cell must hold an integer seed"


def output_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Stored outputs: no unannounced error, every figure with caption, name and alt text."""
    for cell in cells:
        for output in cell.get("outputs", []):
            tags = cell.metadata.get("tags", [])
            if output.output_type == "error" and "raises-exception" not in tags:
                yield f"a stored error: {output.ename}: {output.evalue}"
        shown = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        if any(kind.startswith("image/") for kind in shown):
            yield from figure_faults(cell)


def figure_faults(cell: NotebookNode) -> Iterator[str]:
    """What the metadata of a cell that shows a figure lacks."""
    about = cell.metadata.get("mystnb", {})
    wanted = {
        "mystnb.image.alt": about.get("image", {}).get("alt"),
        "mystnb.figure.caption": about.get("figure", {}).get("caption"),
        "mystnb.figure.name": about.get("figure", {}).get("name"),
    }
    for key, value in wanted.items():
        if not str(value or "").strip():
            yield f"figure without {key} in the metadata of: {cell.source.splitlines()[0]}"


def reading_faults(cells: list[NotebookNode], code: bool) -> Iterator[str]:
    """What chapters and pages without code have in common: claims, numbers, images."""
    yield from lint_claims.claim_faults(cells, code)
    yield from lint_figures.image_faults(cells)


def page_faults(page: Path) -> list[str]:
    """Every fault of a page without code."""
    cells = chapters.read_text(page).cells
    return [f"{page.name}: {fault}" for fault in reading_faults(cells, code=False)]


def faults(source: Path) -> list[str]:
    """Every fault of one chapter, one line each."""
    text = chapters.read_text(source)
    own = [*code_faults(text.cells), *text_faults(text.cells), *parameter_faults(text)]
    own += [*lint_figures.axis_faults(text.cells), *reading_faults(text.cells, code=True)]
    return [*form_faults(source), *(f"{source.name}: {fault}" for fault in own)]


def pages() -> list[Path]:
    """The pages of the book that hold no code."""
    return sorted((chapters.ROOT / "book").glob("*.md"))


def main() -> None:
    sources = chapters.sources()
    found = [fault for source in sources for fault in faults(source)]
    wanted = {place for source in sources for place in reading.places(source)}
    there = {p for place in wanted for p in place.parent.glob("*.ipynb")}
    found += [f"{path}: no such chapter in book/chapters/" for path in sorted(there - wanted)]
    found += [fault for page in pages() for fault in page_faults(page)]
    if not sources:
        found.append("book/chapters/ holds no chapter NN_topic.md")
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
