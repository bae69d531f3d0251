"""A page as the lints read it: headings, paragraphs of plain sentences, and code cells in order.

Texts are parsed as the site parses them. In a sentence, words are kept; mathematics, code, glued
values and other roles are replaced by their name in braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from nbformat import NotebookNode

import chapters

VERBATIM = {"bibliography", "code", "code-block", "code-cell", "math", "toctree", "eval-rst"}
DIRECTIVE = re.compile(r"\{([\w:-]+)\}\s*(.*)")
OPTIONS = re.compile(r"\A(?:---\n(?:.*\n)*?---\n|(?::[\w-]+:.*\n)+)")
MARKS = ("typed", "unchecked", "cause")
MARK = re.compile(rf"<!--\s*({'|'.join(MARKS)})\b:?\s*(.*?)\s*-->", re.DOTALL)
END = re.compile(r"(?<=[.!?>])\s+(?=[A-Z(\"“{])")
READ_AS_WORDS = {"term", "abbr"}


@dataclass(frozen=True)
class Heading:
    """A heading: level 1 to 6 and its words."""

    level: int
    title: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, list item or table: where it stands, and its sentences with their marks."""

    sentences: tuple[str, ...]
    marks: tuple[dict[str, str], ...]  # by sentence: kind of mark -> reason
    inside: tuple[str, ...] = ()  # the directives around it
    section: str = ""  # the heading of level 1 or 2 above it, or "By hand" of any level
    opening: bool = False  # before the first heading of level 2


Piece = Heading | Paragraph | NotebookNode  # the last is a code cell


@cache
def parser() -> MarkdownIt:
    """The Markdown parser with the extensions of the site."""
    site = yaml.safe_load((chapters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    extensions = set(site["parse"]["myst_enable_extensions"])
    return create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)


def tokens(text: str, inside: tuple[str, ...] = ()) -> Iterator[tuple[Token, tuple[str, ...]]]:
    """Every block of a text, also within directives, with the directives around it."""
    for token in parser().parse(text):
        yield token, inside
        directive = DIRECTIVE.match(token.info) if token.type.endswith("fence") else None
        if directive and directive[1] not in VERBATIM:
            yield from tokens(OPTIONS.sub("", token.content), (*inside, directive[1]))


def words(inline: Token) -> str:
    """The text of a line of Markdown; what is not prose becomes a name in braces."""
    found = []
    for part in inline.children or []:
        if part.type == "text":
            found.append(part.content)
        elif part.type in ("softbreak", "hardbreak"):
            found.append(" ")
        elif part.type == "myst_role":
            name = part.meta["name"]
            shown = re.sub(r"\s*<[^>]*>$", "", part.content)
            found.append(shown if name in READ_AS_WORDS else f"{{{name}}}")
        elif part.type == "html_inline" and MARK.match(part.content):
            found.append(part.content)
        elif part.type in ("code_inline", "math_inline", "math_inline_double", "image"):
            found.append(f"{{{part.type.split('_')[0]}}}")
    return "".join(found)


def paragraph(text: str, inside: tuple[str, ...] = ()) -> Paragraph:
    """Sentences with their marks; a mark belongs to the sentence that it stands in or follows."""
    parts = END.split(re.sub(r"([.!?])\s+(?=<!--)", r"\1", text))
    sentences = tuple(MARK.sub("", part).strip() for part in parts)
    return Paragraph(sentences, tuple(dict(MARK.findall(part)) for part in parts), inside)


def blocks(text: str) -> Iterator[Heading | Paragraph | dict[str, str]]:
    """Headings, paragraphs and, where a comment stands alone, its marks."""
    heading, table = 0, None
    for token, inside in tokens(text):
        if token.type == "heading_open":
            heading = int(token.tag[1])
        elif token.type == "table_open":
            table = []
        elif token.type == "table_close":
            yield Paragraph((" | ".join(table or []),), ({},), inside)
            table = None
        elif token.type == "html_block":
            yield dict(MARK.findall(token.content))
        elif token.type == "inline" and table is not None:
            table.append(words(token))
        elif token.type == "inline" and heading:
            yield Heading(heading, words(token))
            heading = 0
        elif token.type == "inline":
            yield paragraph(words(token), inside)


def caption(cell: NotebookNode) -> Iterator[Paragraph]:
    """The caption of a cell's figure as one sentence, with marks from the cell's metadata."""
    text = str(cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", ""))
    marks = {kind: str(cell.metadata[kind]) for kind in MARKS if kind in cell.metadata}
    for block in blocks(text):
        if isinstance(block, Paragraph):
            yield Paragraph((" ".join(block.sentences),), (marks,), inside=("figure",))


def pieces(cells: Sequence[NotebookNode]) -> list[Piece]:
    """All of a page in order; a caption stands before its cell."""
    found: list[Piece] = []
    above = part = Heading(1, "")
    for cell in cells:
        code = cell.cell_type == "code"
        for block in caption(cell) if code else blocks(cell.source):
            if isinstance(block, Paragraph):
                found.append(replace(block, section=above.title, opening=above.level < 2))
            elif isinstance(block, Heading):
                part = block if block.level <= 2 else part
                above = block if block.title.startswith("By hand") else part
                found.append(block)
            elif found and isinstance(found[-1], Paragraph):
                found[-1].marks[-1].update(block)
        found += [cell] if code else []
    return found
