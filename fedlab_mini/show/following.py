"""Following: where a reader's run gives another number than the text, the sentence says so.

The sentences of a chapter keep the numbers of its stored run. The notebook holds these sentences in
its metadata; ``follow``, the first cell of each chapter, shows one again, with the reader's number,
below the cell that computes it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path

import myst_nb
from IPython.display import Markdown, display

from .. import checks

# What stands before the number, its form, as it is stored, what follows.
Sentence = Sequence[str]
LINE = (
    "The sentences of this notebook keep the numbers of its stored run. Where yours gives another, "
    "the sentence is shown again, with your number, below the cell that computes it."
)


class Line:
    """What ``follow`` says under the title."""

    def __repr__(self) -> str:
        return LINE

    def _repr_html_(self) -> str:
        return f"<p><em>{LINE}</em></p>"


def follow(chapter: str) -> Line:
    """Show from here on which sentences of a chapter differ in this run.

    chapter  the name of its notebook, in the present folder; of one that is not there or was saved
             without its sentences, numbers are shown by their names
    """
    notebook_path = Path(f"{checks.text('chapter', chapter)}.ipynb")
    known_sentences: dict[str, list[Sentence]] = {}
    if notebook_path.exists():
        metadata = json.loads(notebook_path.read_text(encoding="utf-8"))["metadata"]
        known_sentences = metadata.get("sentences", {})

    def glue(name: str, variable: object, display: bool = True) -> None:
        """What the chapters call instead of `myst_nb.glue`, whose outputs JupyterLab hides."""
        if display:
            # Not `display`: in here that name is the parameter.
            show(variable)
        for sentence in differing(known_sentences.get(name, []), repr(variable)):
            show(Markdown(sentence))

    myst_nb.glue = glue
    return Line()


def show(something: object) -> None:
    display(something)


def differing(sentences: Sequence[Sentence], own: str) -> list[str]:
    """The sentences whose number is another one now, in Markdown; ``own`` is its printed form."""
    try:
        # Only literals are read: a printed form may hold anything, and nothing of it is run.
        own_value = ast.literal_eval(own)
    except (ValueError, SyntaxError):
        own_value = own
    differing_ones = []
    for before, number_format, stored_number, after in sentences:
        try:
            own_number = format(own_value, number_format)
        except (ValueError, TypeError):  # this run has nan there, or no number
            own_number = own
        # As printed: digits that the sentence does not show may differ.
        if own_number != stored_number:
            differing_ones.append(
                f"*In this run:* {before}**{own_number}**{after} *(The text has {stored_number}.)*"
            )
    return differing_ones
