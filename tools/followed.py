"""What a notebook to read holds for `show.following`: a first cell, and its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import nbformat
from nbformat import NotebookNode

from fedlab_mini.show.following import Line, Part

FOLLOW = """from fedlab_mini.show.following import follow

follow("{stem}")"""
COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
# A paragraph, a row of a table, an item of a list: what a sentence does not go beyond.
PIECE = re.compile(r"(?:^|\n)\s*(?:(?:\d+[.)]|[-*+])\s+(?:>\s*)*)+|\n\s*\n|\n(?=\|)")
QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
SHORT = r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bal)(?<!\bcf)(?<!\bFig)(?<!\bEq)"
SENTENCE = re.compile(rf"{SHORT}(?<=[.!?])\s+(?=[A-Z*$`{{\[(\"])")
PAIRS = ("**", "$", "`", '"')  # of which a sentence has an even number
GLUED = re.compile(r"\{glue:text\}`([^`:]+):?([^`]*)`")


class Writer(Protocol):
    """What turns a chapter's MyST into Markdown."""

    def inline(self, text: str) -> str: ...
    def value(self, key: str, form: str) -> str: ...


def sentences(text: str, plain: Writer) -> Iterator[list[Part]]:
    """Every sentence of a text with noted values, in parts: words, or [name, form, as stored]."""
    for piece in PIECE.split(QUOTE.sub("", COMMENT.sub("", text))):
        for sentence in whole_sentences(piece):
            # re.split gives the words and, in turn, a value's name and its form
            words, *rest = GLUED.split(sentence)
            parts: list[Part] = [plain.inline(words)]
            for key, form, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
                parts += [[key, form, plain.value(key, form)], plain.inline(after)]
            if rest:
                yield parts


def whole_sentences(piece: str) -> Iterator[str]:
    """The sentences of a paragraph; one that ends within bold, code or brackets goes on."""
    begun = ""
    row = " ".join(piece.strip().strip("|").replace("|", " ").split())
    words = row if piece.lstrip().startswith("|") else " ".join(piece.split())
    for part in SENTENCE.split(words):
        begun = f"{begun} {part}" if begun else part
        if all(begun.count(mark) % 2 == 0 for mark in PAIRS) and begun.count("(") <= begun.count(
            ")"
        ):
            yield begun
            begun = ""
    if begun:
        yield begun


def follower(stem: str) -> NotebookNode:
    """The folded cell that shows where a reader's run differs, with what it says."""
    line = Line()
    data = {"text/plain": repr(line), "text/html": line._repr_html_()}
    said = nbformat.v4.new_output("display_data", data)
    folded = {"jupyter": {"source_hidden": True}}
    cell = nbformat.v4.new_code_cell(FOLLOW.format(stem=stem), outputs=[said], metadata=folded)
    cell["id"] = f"{stem}-follow".replace("_", "-")
    return cell
