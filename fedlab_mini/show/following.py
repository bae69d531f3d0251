"""Following: show a chapter's sentences again if a reader's run gives other numbers.

The sentences of a chapter keep the numbers of its stored run, and the notebook's metadata hold
these sentences. ``follow``, in the first cell of each chapter, shows a sentence again with the
reader's numbers, below the cell that computes the last of its numbers.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import myst_nb
from IPython.display import Markdown, display

from ..parse import checks

# Words, or a number as (name, format, stored text).
Part = str | Sequence[str]
LINE = (
    "The sentences of this notebook keep the numbers of its stored run. Where yours gives another, "
    "the sentence is shown again, with your numbers, below the cell that computes the last of them."
)


class Line:
    """The text that ``follow`` shows under the title."""

    def __repr__(self) -> str:
        return LINE

    def _repr_html_(self) -> str:
        return f"<p><em>{LINE}</em></p>"


def follow(chapter: str) -> Line:
    """From now on, show which sentences of a chapter differ in this run.

    chapter  the name of its notebook, in the current folder; if it is missing or was saved without
             its sentences, no sentences are shown
    """
    notebook_path = Path(f"{checks.text('chapter', chapter)}.ipynb")
    # Keyed by the number that is computed last: then this run has all numbers of the sentence.
    sentences_after: dict[str, list[Sequence[Part]]] = {}
    if notebook_path.exists():
        metadata = json.loads(notebook_path.read_text(encoding="utf-8"))["metadata"]
        sentences_after = metadata.get("sentences", {})
    own: dict[str, str] = {}

    def glue(name: str, variable: object, display: bool = True) -> None:
        """Replaces `myst_nb.glue` in the chapters, because JupyterLab hides its outputs."""
        if display:
            # Not `display`, which is the parameter here.
            show(variable)
        own[name] = repr(variable)
        for sentence in differing(sentences_after.get(name, []), own):
            show(Markdown(sentence))

    myst_nb.glue = glue
    return Line()


def show(something: object) -> None:
    display(something)


def differing(sentences: Sequence[Sequence[Part]], own: Mapping[str, str]) -> list[str]:
    """The sentences with another number now, in Markdown; ``own`` maps names to printed numbers.

    A sentence is left out if this run does not have all of its numbers yet.
    """
    found = []
    for parts in sentences:
        numbers = [part for part in parts if not isinstance(part, str)]
        if not all(name in own for name, _, _ in numbers):
            continue
        # Compared as texts, because digits that the sentence does not show may differ.
        printed = [_printed(own[name], number_format) for name, number_format, _ in numbers]
        stored = [stored_number for _, _, stored_number in numbers]
        if printed == stored:
            continue
        shown = iter(
            now if now == before else f"**{now}**"
            for now, before in zip(printed, stored, strict=True)
        )
        text = "".join(part if isinstance(part, str) else next(shown) for part in parts)
        others = [before for now, before in zip(printed, stored, strict=True) if now != before]
        found.append(f"*In this run:* {text} *(The text has {', '.join(others)}.)*")
    return found


def _printed(own: str, number_format: str) -> str:
    """A number in the format of a sentence."""
    try:
        # Only literals are read, so that no code in a number is run.
        own_value = ast.literal_eval(own)
    except (ValueError, SyntaxError):
        own_value = own
    try:
        return format(own_value, number_format)
    except (ValueError, TypeError):  # this run has nan, or no number
        return own
