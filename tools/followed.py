"""What a notebook to read holds for `show.following`: a first cell, and its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import nbformat
from nbformat import NotebookNode

from fedlab_mini.show.following import Line

FOLLOW = """from fedlab_mini.show.following import follow

follow("{stem}")"""
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*$`])|\n\s*\n|\n(?=\|)")
GLUED = re.compile(r"\{glue:text\}`([^`:]+):?([^`]*)`")


class Writer(Protocol):
    """What turns a chapter's MyST into Markdown."""

    def inline(self, text: str) -> str: ...
    def value(self, key: str, form: str) -> str: ...


def sentences(text: str, plain: Writer) -> Iterator[tuple[str, list[str]]]:
    """Every noted value of a text: its name; what stands before it, its form, it, what follows."""
    for sentence in SENTENCE.split(text):
        for found in GLUED.finditer(sentence):
            key, form = found.groups()
            ends = sentence[: found.start()], sentence[found.end() :]
            before, after = (plain.inline(end).replace("|", " ") for end in ends)
            yield key, [before.lstrip(), form, plain.value(key, form), after.rstrip()]


def follower(stem: str) -> NotebookNode:
    """The folded cell that shows where a reader's run differs, with what it says."""
    line = Line()
    data = {"text/plain": repr(line), "text/html": line._repr_html_()}
    said = nbformat.v4.new_output("display_data", data)
    folded = {"jupyter": {"source_hidden": True}}
    cell = nbformat.v4.new_code_cell(FOLLOW.format(stem=stem), outputs=[said], metadata=folded)
    cell["id"] = f"{stem}-follow".replace("_", "-")
    return cell
