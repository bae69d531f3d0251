"""What the lint asks of a chapter's length: words, figures, lines of cells, numbers in a paragraph.

Where a chapter is longer, move what the reader can do without to a study's page, or away.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from nbformat import NotebookNode

WORDS = 5_000  # of prose: without the code of the cells
FIGURES = 10
MEDIAN_LINES = 6  # of code cells that stand open: folded ones only fetch and assert
LONG_CELL, LONG_CELLS = 10, 5  # at most five cells of more than ten lines
NUMBERS = 3  # in one paragraph; more of them want a table

GLUED = re.compile(r"\{glue(?::text)?\}`(\w+)`")


def complaints(notebook: NotebookNode) -> Iterator[str]:
    """What is too long in a chapter."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [cell for cell in code if "hide-input" not in cell.metadata.get("tags", [])]
    if (words := sum(len(text.split()) for text in texts)) > WORDS:
        yield f"{words:,} words, at most {WORDS:,}"
    drawn = sum("figure" in cell.metadata.get("mystnb", {}) for cell in code)
    drawn += sum(len(re.findall(r"^(?:```|:::)\{figure\}", text, re.M)) for text in texts)
    if drawn > FIGURES:
        yield f"{drawn} figures, at most {FIGURES}"
    lines = [sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in shown]
    if lines and (middle := statistics.median(lines)) > MEDIAN_LINES:
        yield f"half of the open cells have {middle:g} lines or more, at most {MEDIAN_LINES}"
    if (many := sum(count > LONG_CELL for count in lines)) > LONG_CELLS:
        yield f"{many} open cells above {LONG_CELL} lines, at most {LONG_CELLS}"
    for paragraph in (part for text in texts for part in re.split(r"\n\s*\n", text)):
        numbers = [name for name in GLUED.findall(paragraph) if not name.endswith("_power")]
        if len(numbers) > NUMBERS:
            start = " ".join(paragraph.split())[:60]
            yield f"{len(numbers)} numbers in a paragraph, at most {NUMBERS}: {start}... -- a table"
