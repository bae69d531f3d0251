"""What the lint knows of plain English: habits of this book's first texts that a machine can see.

The rest, a subject and a verb in every sentence and the finding first, is for a reader's eye.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nbformat import NotebookNode

from lint_prose import Paragraph, pieces

GUESSES = 2  # in a chapter, where the answer surprises
EACH = "round|seed|client|class|coalition|player|method|training|second"
UNIT = "bytes|clients|epochs|evaluations|MiB|minutes|rows|seconds|trainings|updates"
VERB = "can|gets|had|has|holds|is|loses|makes|sends|takes|trains|was"
HABITS = {
    re.compile(rf"\b(?:one \w+|{UNIT}) an? (?:{EACH})\b(?! (?:{VERB})\b)"): "write per",
    re.compile(r"\bwhoever\b", re.IGNORECASE): "name who it is: the reader, a server, anyone who",
}


def complaints(cells: Sequence[NotebookNode]) -> Iterator[str]:
    """Sentences of a page that have a habit, and guesses beyond the second."""
    guesses = 0
    for piece in pieces(cells):
        for sentence in piece.sentences if isinstance(piece, Paragraph) else ():
            guesses += sentence.startswith("Guess ")
            for habit, better in HABITS.items():
                if found := habit.search(sentence):
                    yield f"{found[0]!r}; {better}: {sentence[:90]}"
    if guesses > GUESSES:
        yield f"{guesses} guesses, at most {GUESSES}: keep those whose answer surprises"
