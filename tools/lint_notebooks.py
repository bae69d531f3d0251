"""Check the chapters and pages of the book, and print one line a fault; exits 1 if there is any.

    python tools/lint_notebooks.py

Here: the form of a chapter, which is canonical text, outputs in step, short cells, described
figures and images. In files of their own: typed results and unchecked claims (`lint_claims.py`),
length (`lint_length.py`), habits of speech (`lint_habits.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

import chapters
import glued
import lint_claims
import lint_habits
import lint_length
import reading
from lint_prose import tokens

LONG, LONGEST = 25, 30
WIDEST, WIDEST_IN_BOX = 88, 76  # columns of code that a page shows
ALT_OPTION = re.compile(r"^:?alt:[ \t]*\S", re.MULTILINE)
IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE | re.DOTALL)
ALT_ATTRIBUTE = re.compile(r"""\balt\s*=\s*(["'])[^"']*\w""", re.IGNORECASE)
BOXED_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUESS = re.compile(r"(?:^|[.!?:]\s)Guess\b[^\n]*(?:\n[^\n]+)*\Z", re.MULTILINE)
EXPLORER = re.compile(r"show\.(?:widgets|headtohead) import")
END = reading.Block("end", "")
BACKTICK_DIRECTIVE = re.compile(r"^`{3,}\{(?!figure\})", re.MULTILINE)


def form_faults(source: Path) -> Iterator[str]:
    """The text is canonical; the notebooks are what it and their own outputs give."""
    repair = f"run: make notebooks CHAPTERS={source.stem.partition('_')[0]}"
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
    """Code cells: length, width, a sentence before each; texts: directives that others can read."""
    lengths = []
    for before, cell in zip([None, *cells], cells, strict=False):
        if cell.cell_type == "markdown" and BACKTICK_DIRECTIVE.search(cell.source):
            yield "a directive in backticks; write it with colons (:::{name}), mathematics with $$"
        if cell.cell_type != "code":
            boxed = "\n".join(BOXED_CODE.findall(cell.source)).splitlines()
            for line in [line for line in boxed if len(line) > WIDEST_IN_BOX][:1]:
                yield f"line of {len(line)} columns, at most {WIDEST_IN_BOX} here: {line.strip()}"
            continue
        lines = cell.source.splitlines() or ["(empty)"]
        lengths.append(len(lines))
        if not cell.source:
            yield "an empty code cell"
        if len(lines) > LONGEST:
            yield f"cell of {len(lines)} lines, at most {LONGEST}: {lines[0]}"
        if lines[-1].rstrip().endswith(";"):
            yield f"a semicolon hides the last value from readers, not from checks: {lines[0]}"
        for line in [line for line in lines if len(line) > WIDEST][:1]:
            yield f"line of {len(line)} columns, at most {WIDEST}: {line.strip()}"
        if before and before.cell_type == "code":
            yield f"no sentence before the cell that starts with: {lines[0]}"
    if (long := sum(length > LONG for length in lengths)) > 2:
        yield f"{long} cells of more than {LONG} lines; two are the most"


def tells_nothing(part: reading.Block | NotebookNode) -> bool:
    """Whether what stands below an explorer is code, a lead to code, or folded."""
    code = not isinstance(part, reading.Block)
    return code or reading.is_folded(part) or part.text.endswith(":")


def guess_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Guesses that the page gives away: after one come code or a folded answer, and no title."""
    page: list[reading.Block | NotebookNode] = []
    for cell in cells:
        page += [cell] if cell.cell_type == "code" else reading.blocks(cell.source)
    for index, part in enumerate(page):
        if not isinstance(part, reading.Block) or not GUESS.search(part.text):
            continue
        question = f"answer after: {part.text.splitlines()[-1]}"
        after, then = [*page[index + 1 : index + 3], END, END][:2]
        source = after.source if isinstance(after, NotebookNode) else None
        if source is None and not reading.is_folded(after):
            yield f"fold the {question} (:class: dropdown), or put its code there"
        elif source and re.search(r"\btitle=", source):
            yield f"a title may give away the {question}; leave it to the caption"
        elif (
            source and re.search(r"show\.(widgets|headtohead)", source) and not tells_nothing(then)
        ):
            yield f"fold the {question} and its explorer (:class: dropdown)"


def image_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Images in texts that a reader who cannot see them learns nothing about."""
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    for token, _ in (found for text in texts for found in tokens(text)):
        if re.match(r"\{(figure|image)\}", token.info) and not ALT_OPTION.search(token.content):
            yield f"no alt text; give the directive a line `:alt: ...`: {token.info}"
        for part in [token, *(token.children or [])]:
            if part.type == "image" and not part.content.strip():
                yield f"no alt text; write it between the brackets: ![...]({part.attrs['src']})"
            for tag in IMG.findall(part.content) if part.type.startswith("html") else ():
                if not ALT_ATTRIBUTE.search(tag):
                    yield f'no alt text; add alt="...": {tag}'


def parameter_faults(notebook: NotebookNode) -> Iterator[str]:
    """One cell of declared parameters, with the scale that the site shows and a seed."""
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        yield f"{len(tagged)} cells are tagged `parameters`; there must be one"
        return
    declared = glued.parameters(notebook)
    if declared.get("scale") != "fast":
        yield 'the parameters cell must hold: scale = "fast"'
    if not isinstance(declared.get("seed"), int):
        yield "the parameters cell must hold an integer seed"


def output_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Stored outputs: no unannounced error or warning, every figure described."""
    for cell in cells:
        outputs, tags = cell.get("outputs", []), cell.metadata.get("tags", [])
        for output in outputs:
            if output.output_type == "error" and "raises-exception" not in tags:
                yield f"a stored error: {output.ename}: {output.evalue}"
            if output.get("name") == "stderr":
                yield f"a stored warning: {output.text.strip()}"
        about = cell.metadata.get("mystnb", {})
        for part, key in (("image", "alt"), ("figure", "caption"), ("figure", "name")):
            drawn = any(kind.startswith("image/") for x in outputs for kind in x.get("data", {}))
            if drawn and not str(about.get(part, {}).get(key) or "").strip():
                first = cell.source.splitlines()[0]
                yield f"figure without mystnb.{part}.{key} in the metadata of: {first}"


def page_faults(page: Path) -> list[str]:
    """Every fault of a page without code."""
    cells = chapters.read_text(page).cells
    found = [*lint_claims.claim_faults(cells, code=False), *image_faults(cells)]
    found += lint_habits.complaints(cells)
    return [f"{page.name}: {fault}" for fault in found]


def faults(source: Path) -> list[str]:
    """Every fault of one chapter, one line each."""
    text = chapters.read_text(source)
    own = [*code_faults(text.cells), *parameter_faults(text)]
    own += [*lint_claims.claim_faults(text.cells), *image_faults(text.cells)]
    own += [*guess_faults(text.cells), *lint_habits.complaints(text.cells)]
    if source.name[0].isdigit():  # an appendix is looked up, not read through
        own += lint_length.complaints(text)
    return [*form_faults(source), *(f"{source.name}: {fault}" for fault in own)]


if __name__ == "__main__":
    texts, pages = chapters.sources(), sorted((chapters.ROOT / "book").glob("*.md"))
    found = [fault for source in texts for fault in faults(source)]
    found += [fault for page in pages for fault in page_faults(page)]
    places = {place for source in texts for place in reading.places(source)}
    orphans = {path for place in places for path in place.parent.glob("*.ipynb")} - places
    found += [f"{path}: no text book/chapters/{path.stem}.md" for path in sorted(orphans)]
    print("\n".join(found or [f"{len(texts)} chapters and {len(pages)} pages: no fault"]))
    sys.exit(bool(found) or not texts)
