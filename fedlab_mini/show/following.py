"""Following: where a reader's run gives another number than the text, the sentence says so.

The sentences of a chapter keep the numbers of its stored run. The notebook holds these sentences in
its metadata; ``follow``, the first cell of each chapter, shows one again, with the reader's
numbers, below the cell that computes the last of them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import myst_nb
from IPython.display import Markdown, display

from .. import checks

# Words, or a number: its name, its form, as it is stored.
Part = str | Sequence[str]
LINE = (
    "The sentences of this notebook keep the numbers of its stored run. Where yours gives another, "
    "the sentence is shown again, with your numbers, below the cell that computes the last of them."
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
    # By the number that the chapter notes last: then all of a sentence's are this run's.
    sentences_after: dict[str, list[Sequence[Part]]] = {}
    if notebook_path.exists():
        metadata = json.loads(notebook_path.read_text(encoding="utf-8"))["metadata"]
        sentences_after = metadata.get("sentences", {})
    own: dict[str, str] = {}

    def glue(name: str, variable: object, display: bool = True) -> None:
        """What the chapters call instead of `myst_nb.glue`, whose outputs JupyterLab hides."""
        if display:
            # Not `display`: in here that name is the parameter.
            show(variable)
        own[name] = repr(variable)
        for sentence in differing(sentences_after.get(name, []), own):
            show(Markdown(sentence))

    myst_nb.glue = glue
    return Line()


def show(something: object) -> None:
    display(something)


def differing(sentences: Sequence[Sequence[Part]], own: Mapping[str, str]) -> list[str]:
    """The sentences with another number now, in Markdown; ``own`` holds printed forms by name.

    A sentence of which this run has not noted every number is left out.
    """
    found = []
    for parts in sentences:
        numbers = [part for part in parts if not isinstance(part, str)]
        if not all(name in own for name, _, _ in numbers):
            continue
        # As printed: digits that the sentence does not show may differ.
        printed = [
            _printed(own[name], number_format) for name, number_format, _ in numbers
        ]
        stored = [stored_number for _, _, stored_number in numbers]
        if printed == stored:
            continue
        shown = iter(
            now if now == before else f"**{now}**"
            for now, before in zip(printed, stored, strict=True)
        )
        text = "".join(part if isinstance(part, str) else next(shown) for part in parts)
        others = [
            before for now, before in zip(printed, stored, strict=True) if now != before
        ]
        found.append(f"*In this run:* {text} *(The text has {', '.join(others)}.)*")
    return found


def _printed(own: str, number_format: str) -> str:
    """A number as a sentence writes it."""
    try:
        # Only literals are read: a printed form may hold anything, and nothing of it is run.
        own_value = ast.literal_eval(own)
    except (ValueError, SyntaxError):
        own_value = own
    try:
        return format(own_value, number_format)
    except (ValueError, TypeError):  # this run has nan there, or no number
        return own
