"""Check chapters, pages and sheets of labs; print one line per fault, and exit 1 if there is any.

    python tools/lint.py

Form: canonical text, current outputs and sheets, short cells, described figures and images, no
chapter too long. Truth: results are glued, a claim is near a check, a cause near its control.
The latter are rules of thumb. If one is wrong, a comment in or after the sentence says why:
<!-- typed: reason -->, <!-- unchecked: reason -->, <!-- cause: what rules the rival out -->. For
a figure's caption, the same words are keys in the cell's metadata.

Texts are parsed as on the site. In a sentence, words are kept; mathematics, code, glued
values and other roles are replaced by their name in braces.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from nbformat import NotebookNode

import chapters
import glued
import labs
import reading
import terms

LONGEST = 30  # lines of a cell
WIDEST, WIDEST_IN_BOX = 88, 76  # columns of code that a page shows
WORDS, FIGURES, GUESSES = 5_000, 10, 2  # of a chapter; guesses only if answers are surprising
NUMBERS = 3  # in one paragraph; more of them belong in a table

VERBATIM = {"bibliography", "code", "code-block", "code-cell", "math", "toctree", "eval-rst"}
DIRECTIVE = re.compile(r"\{([\w:-]+)\}\s*(.*)")
OPTIONS = re.compile(r"\A(?:---\n(?:.*\n)*?---\n|(?::[\w-]+:.*\n)+)")
ALT_OPTION = re.compile(r"^:?alt:[ \t]*\S", re.MULTILINE)
BOXED_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BACKTICK_DIRECTIVE = re.compile(r"^`{3,}\{(?!figure\})", re.MULTILINE)
GUESS = re.compile(r"(?:^|[.!?:]\s)Guess\b[^\n]*(?:\n[^\n]+)*\Z", re.MULTILINE)
MARKS = ("typed", "unchecked", "cause")
# Words of a record of advice; `studies pages --check` holds them against its claims.
ADVISED = re.compile(r"<!-- advice: .*?<!-- end of advice -->", re.DOTALL)
MARK = re.compile(rf"<!--\s*({'|'.join(MARKS)})\b:?\s*(.*?)\s*-->", re.DOTALL)
END = re.compile(r"(?<=[.!?>])\s+(?=[A-Z(\"“{])")
WORKED = {"Exercises", "Quiz", "References"}  # worked by hand, or about other people's numbers
SUMS_UP = {"Summary"}  # repeats claims that are checked above
OTHERS = r" (?:[\d.]+(?: ?%| per ?cent)?(?:,| and| or| to) )*$"  # "at 0.1 and 0.02"
ASIDE = ("exercise", "solution", "prf:")
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ADVICE = {
    "typed": "a typed result, {}: {} -- glue it, say it without the number, or give a reason",
    "unchecked": "a claim ({}) and no check near it: {} -- assert it there, or give a reason",
    "cause": "a cause ({}) and no control near it: {} -- name it in a check, or give a reason",
}


@cache
def pattern(name: str, after: str = "") -> re.Pattern[str]:
    """A pattern for a list of the table, perhaps with something after it."""
    text = f"(?:{'|'.join(f'(?:{part})' for part in TABLE[name])}){after}"
    for word in ("count", "free"):
        text = text.replace(word.upper(), f"(?:{'|'.join(TABLE[word])})")
    return re.compile(text, re.IGNORECASE | re.MULTILINE | re.DOTALL)


@dataclass
class Paragraph:
    """A paragraph, list item, table or caption: its sentences with their marks, and its place."""

    sentences: list[str]
    inside: tuple[str, ...]  # the directives around it
    section: str  # the heading of level 1 or 2 above it, or "By hand" of any level
    opening: bool  # before the first heading of level 2


Piece = str | Paragraph | NotebookNode  # a heading, a paragraph, a code cell


@cache
def parser() -> MarkdownIt:
    """The Markdown parser with the extensions of the site."""
    site = yaml.safe_load((chapters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    extensions = set(site["parse"]["myst_enable_extensions"])
    return create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)


def tokens(text: str, inside: tuple[str, ...] = ()) -> Iterator[tuple[Token, tuple[str, ...]]]:
    """Every block of a text, also inside directives, with the directives around it."""
    for token in parser().parse(text):
        yield token, inside
        directive = DIRECTIVE.match(token.info) if token.type.endswith("fence") else None
        if directive and directive[1] not in VERBATIM:
            yield from tokens(OPTIONS.sub("", token.content), (*inside, directive[1]))


def words(inline: Token) -> str:
    """The text of a line of Markdown with its marks; other things become names in braces."""
    found = []
    for part in inline.children or []:
        kind = part.type.partition("_")[0]
        if part.type == "myst_role" and part.meta["name"] == "term":
            found.append(re.sub(r"\s*<[^>]*>$", "", part.content))
        elif part.type == "myst_role":
            found.append(f"{{{part.meta['name']}}}")
        elif kind in ("code", "math", "image"):
            found.append(f"{{{kind}}}")
        elif kind == "text" or MARK.match(part.content):
            found.append(part.content)
        elif kind in ("softbreak", "hardbreak"):
            found.append(" ")
    return "".join(found)


def caption(cell: NotebookNode) -> list[str]:
    """The caption of a cell's figure as one sentence, with marks from the cell's metadata."""
    text = str(cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", ""))
    said = " ".join(words(token) for token, _ in tokens(text) if token.type == "inline")
    marks = [f"<!-- {kind}: {cell.metadata[kind]} -->" for kind in MARKS if kind in cell.metadata]
    return [said + "".join(marks)] if said else []


def pieces(cells: Sequence[NotebookNode]) -> list[Piece]:
    """The parts of a page in order; a caption precedes its cell, a mark is with its sentence."""
    found: list[Piece] = []
    section = part = ""
    level, opening, row = 0, True, None
    for cell in cells:
        if cell.cell_type == "code":
            told = caption(cell)
            found += [Paragraph(told, ("figure",), section, opening)] if told else []
            found.append(cell)
            continue
        for token, inside in tokens(ADVISED.sub("{advice}", cell.source)):
            if token.type == "heading_open":
                level = int(token.tag[1])
            elif token.type == "table_open":
                row = list[str]()
            elif token.type == "table_close":
                found.append(Paragraph([" | ".join(row or [])], inside, section, opening))
                row = None
            elif token.type == "html_block" and found and isinstance(found[-1], Paragraph):
                found[-1].sentences[-1] += "".join(m[0] for m in MARK.finditer(token.content))
            elif token.type == "inline" and row is not None:
                row.append(words(token))
            elif token.type == "inline" and level:
                found.append(title := words(token))
                part, opening = (title, level < 2) if level <= 2 else (part, opening)
                section, level = (title if title.startswith("By hand") else part), 0
            elif token.type == "inline":
                text = re.sub(r"([.!?])\s+(?=<!--)", r"\1", words(token))
                found.append(Paragraph(END.split(text), inside, section, opening))
    return found


def first(name: str, text: str) -> str:
    """The first words of a text that are in a list of the table."""
    found = pattern(name).search(text)
    return found[0] if found else ""


def typed_number(sentence: str, code: bool) -> str:
    """The first number that looks like a measured result; on pages without code, of an outcome."""
    if sentence.endswith("?") or "{cite" in sentence:
        return ""
    for clause in sentence.split(";"):
        found = [*pattern("measured").finditer(clause)] if code else []
        found += pattern("number").finditer(clause) if first("outcome", clause) else ()
        for number in found:
            before, after = clause[: number.start()], clause[number.end() :]
            chosen = pattern("chosen", OTHERS).search(before)
            if not chosen and not first("chosen_after", after):
                return number[0].strip()
    return ""


def is_checked(page: Sequence[Piece], index: int, named: str) -> bool:
    """Whether the cell before a paragraph, or one of the next two, can fail and has such words.

    The search ends at the next heading or separate admonition.
    """
    around = "admonition" in page[index].inside
    for pieces_there, most in ((page[:index][::-1], 1), (page[index + 1 :], 2)):
        for piece in pieces_there:
            if isinstance(piece, Paragraph):
                if "admonition" in piece.inside and not around:
                    break
            elif isinstance(piece, str) or not most:
                break
            else:
                announced = "raises-exception" in piece.metadata.get("tags", [])
                fails = announced or first("check", piece.source)
                if fails and (not named or first(named, piece.source)):
                    return True
                most -= 1
    return False


def prose_faults(cells: Sequence[NotebookNode], code: bool = True) -> Iterator[str]:
    """Typed results, claims and causes of a page; the last two only if it has code."""
    page = pieces(cells)
    for index, piece in enumerate(page):
        if not isinstance(piece, Paragraph):
            continue
        worked = piece.section in WORKED or (code and piece.opening)
        worked |= any(name.startswith(ASIDE) for name in piece.inside)
        bare = code and piece.section not in SUMS_UP
        for sentence in piece.sentences:
            marks, said = dict(MARK.findall(sentence)), MARK.sub("", sentence).strip()
            shown = said if len(said) <= 90 else said[:87] + "..."
            if worked:
                continue
            explains = code and said[-1:] != "?" and first("outcome", said)
            holds = {
                "typed": typed_number(said, code),
                "unchecked": "" if first("no_claim", said) else first("claim", said),
                "cause": first("cause", said) if explains else "",
            }
            for mark in marks:
                if not marks[mark]:
                    yield f"a mark without a reason; write <!-- {mark}: why -->: {shown}"
                if not holds[mark]:
                    yield f"the mark `{mark}` excuses nothing; remove it: {shown}"
            alone = {
                "typed": not piece.section.startswith("By hand"),
                "unchecked": bare and not is_checked(page, index, ""),
                "cause": bare and not is_checked(page, index, "control"),
            }
            for kind, what in holds.items():
                if what and alone[kind] and kind not in marks:
                    yield ADVICE[kind].format(what, shown)


def code_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Code cells: length, width, a sentence before each; texts: portable directives."""
    for before, cell in zip([None, *cells], cells, strict=False):
        code = cell.cell_type == "code"
        text = cell.source if code else "\n".join(BOXED_CODE.findall(cell.source))
        most, lines = WIDEST if code else WIDEST_IN_BOX, text.splitlines() or ["(empty)"]
        for line in [line for line in lines if len(line) > most][:1]:
            yield f"line of {len(line)} columns, at most {most} here: {line.strip()}"
        if not code and BACKTICK_DIRECTIVE.search(cell.source):
            yield "a directive in backticks; write it with colons (:::{name}), mathematics with $$"
        if not code:
            continue
        if len(lines) > LONGEST:
            yield f"cell of {len(lines)} lines, at most {LONGEST}: {lines[0]}"
        title = f"# {cell.metadata.get('mystnb', {}).get('code_prompt_show', 'How we know')}"
        if "hide-input" in cell.metadata.get("tags", []) and lines[0] != title:
            yield f"a folded cell says in its first line what it is, {title!r}: {lines[0]}"
        if before and before.cell_type == "code":
            yield f"no sentence before the cell that starts with: {lines[0]}"


def length_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """What is too long in a chapter."""
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    words = sum(len(text.split()) for text in texts)
    guesses = sum(len(re.findall(r"(?:^|[.!?:] )Guess ", text, re.M)) for text in texts)
    figures = sum("figure" in cell.metadata.get("mystnb", {}) for cell in cells)
    figures += sum(len(re.findall(r"^(?:```|:::)\{figure\}", text, re.M)) for text in texts)
    found = [(words, "words", WORDS), (figures, "figures", FIGURES), (guesses, "guesses", GUESSES)]
    yield from (f"{n:,} {what}, at most {most:,}" for n, what, most in found if n > most)
    for paragraph in (part for text in texts for part in re.split(r"\n\s*\n", text)):
        if paragraph.startswith("|"):
            continue  # it is a table
        names = re.findall(r"\{glue(?::text)?\}`(\w+)`", paragraph)
        if (many := sum(not name.endswith("_power") for name in names)) > NUMBERS:
            start = " ".join(paragraph.split())[:60]
            yield f"{many} numbers in a paragraph, at most {NUMBERS}: {start}... -- a table"


def guess_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Guesses that the page gives away: code or a folded answer must follow, without a title."""
    page: list[reading.Block] = []
    for cell in cells:
        code = [reading.Block("code", cell.source)]
        page += code if cell.cell_type == "code" else reading.blocks(cell.source)
    for part, after in pairwise([*page, reading.Block("end", "")]):
        if part.kind == "code" or not GUESS.search(part.text) or reading.is_folded(after):
            continue
        question = f"answer after: {part.text.splitlines()[-1]}"
        if after.kind != "code":
            yield f"fold the {question} (:class: dropdown), or put its code there"
        elif re.search(r"\btitle=", after.text):
            yield f"a title may give away the {question}; leave it to the caption"


def image_faults(cells: list[NotebookNode]) -> Iterator[str]:
    """Images without a description for readers who cannot see them."""
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    for token, _ in (found for text in texts for found in tokens(text)):
        if re.match(r"\{(figure|image)\}", token.info) and not ALT_OPTION.search(token.content):
            yield f"no alt text; give the directive a line `:alt: ...`: {token.info}"
        for part in [token, *(token.children or [])]:
            if part.type == "image" and not part.content.strip():
                yield f"no alt text; write it between the brackets: ![...]({part.attrs['src']})"


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
        drawn = any(kind.startswith("image/") for x in outputs for kind in x.get("data", {}))
        for part, key in (("image", "alt"), ("figure", "caption"), ("figure", "name")):
            if drawn and not str(about.get(part, {}).get(key) or "").strip():
                first = cell.source.splitlines()[0]
                yield f"figure without mystnb.{part}.{key} in the metadata of: {first}"


def form_faults(source: Path) -> Iterator[str]:
    """Whether the text is canonical, and the notebooks follow from it and their outputs."""
    repair = f"run: make notebooks CHAPTERS={chapters.key(source).partition('_')[0]}"
    if chapters.canonical(chapters.read_text(source)) != source.read_text(encoding="utf-8"):
        yield f"not in canonical form; {repair}"
    try:
        whole = reading.compose(source)
        yield from output_faults(whole.cells)
        for path, text in reading.texts(source, whole).items():
            if path.read_text(encoding="utf-8") != text:
                yield f"{path.parent.name}/{path.name} is not what text and outputs give; {repair}"
    except chapters.ChapterError as failed:
        yield str(failed)


def faults(source: Path) -> list[str]:
    """All faults of one chapter, one line each."""
    text = chapters.read_text(source)
    found = [*form_faults(source), *code_faults(text.cells)]
    declared = glued.parameters(text)
    own_run = source in chapters.lessons([source])
    if own_run and (declared.get("scale") != "fast" or not isinstance(declared.get("seed"), int)):
        found.append('no cell tagged `parameters` that holds scale = "fast" and an integer seed')
    found += [*prose_faults(text.cells), *image_faults(text.cells), *guess_faults(text.cells)]
    if chapters.key(source)[0].isdigit():  # an appendix is for looking up, not for reading
        found += length_faults(text.cells)
    return [f"{chapters.key(source)}.md: {fault}" for fault in found]


def page_faults(page: Path) -> list[str]:
    """All faults of a page without code."""
    cells = chapters.read_text(page).cells
    found = [*prose_faults(cells, code=False), *image_faults(cells)]
    return [f"{page.name}: {fault}" for fault in found]


def all_words() -> list[str]:
    """Words of all files that another word replaces."""
    return [*terms.all_faults()]


def main() -> None:
    texts, pages = chapters.sources(), sorted((chapters.ROOT / "book").glob("*.md"))
    with ProcessPoolExecutor(2) as pool:  # on two cores
        of_labs, of_words = pool.submit(labs.stale), pool.submit(all_words)
        of_texts = [pool.submit(faults, source) for source in texts]
        found = [fault for done in of_texts for fault in done.result()]
        found += [fault for page in pages for fault in page_faults(page)]
        found += [*of_labs.result(), *of_words.result()]
    places = {place for source in texts for place in reading.places(source)}
    orphans = {path for place in places for path in place.parent.glob("*.ipynb")} - places
    orphans = {path for path in orphans if not reading.edited(path)}  # a reader may have own ones
    found += [f"{path}: no text {chapters.key(path)}.md" for path in sorted(orphans)]
    if terms.WRITTEN.read_text(encoding="utf-8") != terms.glossary():
        found.append(
            "book/terms.txt is not what terms.toml gives; run: python tools/terms.py --write"
        )
    print("\n".join(found or [f"{len(texts)} chapters and {len(pages)} pages: no fault"]))
    sys.exit(bool(found) or not texts)


if __name__ == "__main__":
    main()
