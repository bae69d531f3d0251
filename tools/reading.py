"""Make the notebooks for readers from a chapter's source and its outputs.

A chapter has one source, `book/chapters/NN_topic.md`. Its executed form, source and outputs
together, is called whole. A whole notebook is split into `notebooks/NN_topic.ipynb`, in Markdown
for any viewer, and `notebooks/solutions/NN_topic.ipynb` with the solutions and the cells
that run them. The source and these two give the whole again, so no other copy is kept.
"""

from __future__ import annotations

import base64
import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from nbformat import NotebookNode
from pybtex.database import Entry, parse_file
from pybtex.plugin import find_plugin

import chapters
from fedlab_mini.show.following import Line, Part
from glued import RECORD, glued

STORED = chapters.BUILD / "stored"
WRITTEN = "written"  # the digest of a notebook's cells as they were written here
CODE = re.compile(r"(?:\{([\w:-]+)\})?(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
OPTION = re.compile(r":([\w-]+):[ \t]*(.*)")
TITLED = re.compile(r"(.+?)\s*<([^<>]+)>", re.DOTALL)
WORDS = {"figure": "Figure", "exercise": "Exercise"}  # what may have a label, and its name
WORDS |= {f"prf:{x}": x.capitalize() for x in ("definition", "theorem", "proposition", "lemma")}
BEGIN = """%%capture
import os
if os.path.basename(os.getcwd()) == "solutions":
    os.chdir("..")
%run {stem}.ipynb"""
FOLLOW = """from fedlab_mini.show.following import follow

follow("{stem}")"""
COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
# A sentence does not go beyond a paragraph, a row of a table, or an item of a list.
PIECE = re.compile(r"(?:^|\n)\s*(?:(?:\d+[.)]|[-*+])\s+(?:>\s*)*)+|\n\s*\n|\n(?=\|)")
QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
SHORT = r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bal)(?<!\bcf)(?<!\bFig)(?<!\bEq)"
SENTENCE = re.compile(rf"{SHORT}(?<=[.!?])\s+(?=[A-Z*$`{{\[(\"])")
ANCHOR = re.compile(r"^\(([\w-]+)\)=\n#+ (.+)$", re.MULTILINE)
PAIRS = ("**", "$", "`", '"')  # a sentence has an even number of these
GLUED = re.compile(r"\{glue:text\}`([^`:]+):?([^`]*)`")

parser = MarkdownIt("commonmark").enable("table").use(colon_fence_plugin).use(myst_block_plugin)
parser.use(dollarmath_plugin, double_inline=True)


@dataclass(frozen=True)
class Block:
    """A piece of a text: a directive, a labelled formula (kind `math`), or anything else."""

    kind: str
    text: str
    title: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.options.get("label") or self.options.get("name") or ""


def blocks(text: str) -> Iterator[Block]:
    """The top-level pieces of a MyST text, in order."""
    lines = text.splitlines()
    for token in parser.parse(text):
        if token.level or token.nesting < 0 or not token.map:
            continue
        whole = "\n".join(lines[slice(*token.map)]).rstrip()
        name = re.match(r"\{([\w:-]+)\}\s*(.*)", token.info)
        if token.type in ("fence", "colon_fence") and name:
            body, options = token.content.splitlines(), {}
            while body and (found := OPTION.fullmatch(body[0])):
                options[found[1]] = found[2]
                body.pop(0)
            yield Block(name[1], "\n".join(body).strip(), name[2], options)
        elif token.type == "math_block_label":
            yield Block("math", token.content.strip(), options={"label": token.info})
        elif token.type in ("fence", "code_block", "math_block"):
            yield Block("verbatim", whole)
        elif token.type not in ("myst_target", "myst_line_comment"):
            yield Block("heading" if token.type == "heading_open" else "text", whole)


def captioned(cell: NotebookNode) -> tuple[str, str, str] | None:
    """Name, caption and description of the figure that a code cell draws."""
    about = cell.metadata.get("mystnb", {})
    figure = about.get("figure")
    alt = about.get("image", {}).get("alt", "")
    return figure and (figure.get("name", ""), figure.get("caption", ""), alt)


def is_folded(block: Block) -> bool:
    """Whether a piece is a folded box, such as the answer to a guess."""
    return block.kind == "admonition" and "dropdown" in block.options.get("class", "")


def is_solving(block: Block, before: bool) -> bool:
    """Whether a piece belongs to a solution, as cells after one, up to an exercise or heading."""
    return block.kind == "solution" or (before and block.kind not in ("exercise", "heading"))


def solution_cells(cells: list[NotebookNode]) -> set[int]:
    """The indices of the code cells that run a solution."""
    solving, found = False, set()
    for index, cell in enumerate(cells):
        if cell.cell_type == "code":
            found |= {index} if solving else set()
        else:
            for block in blocks(cell.source):
                solving = is_solving(block, solving)
    return found


def number(stem: str) -> str:
    """ "4." for the text 04_topic; nothing for pages beside the chapters."""
    nr = stem.partition("_")[0]
    return f"{int(nr)}." if nr.isdigit() else ""


@cache
def labels() -> dict[str, str]:
    """The names that the book gives its labels: "Figure 4.2", "(4.3)", "Exercise 4.1"."""
    found: dict[str, str] = {}
    for chapter in chapters.sources():
        nr, count = number(chapters.key(chapter)), Counter[str]()

        def name(kind: str, label: str, nr: str = nr, count: Counter[str] = count) -> None:
            count[kind] += 1
            form = "({})" if kind == "math" else f"{WORDS[kind]} {{}}"
            found[label] = form.format(f"{nr}{count[kind]}")

        for cell in chapters.read_text(chapter).cells:
            if cell.cell_type == "code":
                if figure := captioned(cell):
                    name("figure", figure[0])
                continue
            todo = [*blocks(cell.source)]
            while todo:
                block = todo.pop(0)
                if block.kind == "math" or block.kind in WORDS:
                    name(block.kind, block.label)
                if block.kind not in ("verbatim", "text", "heading", "math"):
                    todo = [*blocks(block.text), *todo]
    return found


@cache
def anchors() -> dict[str, tuple[str, str]]:
    """{label that stands before a heading, as (ev-speed)=: the page's key, the heading}."""
    found = {}
    for source in chapters.sources():
        for label, title in ANCHOR.findall(source.read_text(encoding="utf-8")):
            found[label] = chapters.key(source), title
    return found


@cache
def bibliography() -> dict[str, Entry]:
    """The entries of the book's list of references."""
    return dict(parse_file(chapters.ROOT / "book" / "references.bib").entries)


def cite(key: str, form: str) -> str:
    """The authors and year of a work, linked to the list at the end."""
    entry = bibliography()[key]
    names = [person.rich_last_names for person in entry.persons.get("author", [])]
    people = [" ".join(map(str, parts)) for parts in names] or [entry.fields["key"]]
    who = f"{people[0]} et al." if len(people) > 2 else " and ".join(people)
    year = entry.fields.get("year")
    return f"[{form.format(who, year) if year else who}](#References)"


def references(keys: set[str]) -> str:
    """A list of works, in the order of their authors."""
    style = find_plugin("pybtex.style.formatting", "plain")()
    backend = find_plugin("pybtex.backends", "markdown")()
    cited = style.format_entries(style.sort([bibliography()[key] for key in keys]))
    return "\n".join(f"- {' '.join(entry.text.render(backend).split())}" for entry in cited)


class Plain:
    """Convert the MyST of one chapter into Markdown without extensions."""

    def __init__(self, stem: str, values: dict[str, Any]) -> None:
        self.stem, self.values, self.cited = stem, values, set[str]()

    def fail(self, what: str) -> chapters.ChapterError:
        return chapters.ChapterError(f"{self.stem}: plain Markdown has nothing for {what}")

    def named(self, label: str) -> str:
        if label not in labels():
            raise self.fail(f"the unknown label {label!r}")
        return labels()[label]

    def inline(self, text: str) -> str:
        """A paragraph, table or list with its roles resolved."""
        return CODE.sub(lambda found: self.role(found) if found[1] else found[0], text)

    def role(self, found: re.Match[str]) -> str:
        name, text = found[1], " ".join(found[3].split())
        titled = TITLED.fullmatch(text)
        title, target = titled.groups() if titled else ("", text)
        if name == "term":
            return title or target
        if name == "ref" and target in anchors():
            page, heading = anchors()[target]
            up = "../" if "/" in self.stem and "/" not in page else ""
            beside = page.removeprefix(f"{chapters.EVIDENCE}/") if "/" in self.stem else page
            return f"[{title or heading}]({up}{beside}.ipynb#{heading.replace(' ', '-')})"
        if name in ("eq", "ref", "numref", "prf:ref"):
            number = self.named(target)
            return title.replace("%s", number.rpartition(" ")[2]) or number
        if name in ("cite:t", "cite:p"):
            keys = target.split(",")
            self.cited |= {*keys}
            said = [cite(key, "{}, {}" if name == "cite:p" else "{} ({})") for key in keys]
            return f"({'; '.join(said)})" if name == "cite:p" else " and ".join(said)
        if name == "glue:text":
            return self.value(*target.partition(":")[::2])
        if name == "doc":
            inside = "/" in self.stem  # a page of the folder evidence
            beside = "notebooks/" in target or "/" not in target.removeprefix("../" * inside)
            beside |= target.startswith(f"{chapters.EVIDENCE}/")
            page = f"{target}.{'ipynb' if beside else 'md'}"
            return f"[{title or Path(target).name}]({page.removeprefix('../notebooks/')})"
        raise self.fail(f"the role {found[0]}")

    def value(self, key: str, form: str) -> str:
        if key not in self.values:
            raise self.fail(f"the value {key!r}, which no cell noted")
        return format(self.values[key], form)

    def block(self, block: Block) -> str:
        """A piece of the text, as Markdown."""
        kind, label = block.kind, block.label
        if kind in ("text", "heading", "verbatim"):
            return block.text if kind == "verbatim" else self.inline(block.text)
        if kind == "math":
            return f"$$\n{block.text} \\tag{{{self.named(label)[1:-1]}}}\n$$"
        if kind == "figure":
            return self.figure(block)
        inner = "\n\n".join(self.block(part) for part in blocks(block.text))
        if is_folded(block):
            return f"<details><summary>{block.title}</summary>\n\n{inner}\n\n</details>"
        if kind == "admonition":
            return self.box(f"**{block.title}**\n\n{inner}")
        if kind == "solution":
            return f"## Solution of exercise {self.named(block.title).split()[1]}\n\n{inner}"
        if kind == "exercise":
            where = f"solutions/{self.stem}.ipynb"
            return f"**{self.named(label)}.** {inner}\n\n[Solution]({where})"
        if kind == "table":
            return f"{inner}\n\n*{self.inline(block.title)}*"
        if kind == "prf:proof":
            return f"*Proof.* {inner} ∎"
        if kind in WORDS:
            return self.box(
                f"**{self.named(label)}{f' ({block.title})' if block.title else ''}.**\n\n{inner}"
            )
        raise self.fail(f"the directive {{{kind}}}")

    def box(self, text: str) -> str:
        """A quotation; formulas are in one line, as viewers read ">" as a part of them."""
        flat = re.sub(r"\$\$.+?\$\$", lambda m: " ".join(m[0].split()), text, flags=re.DOTALL)
        return "\n".join(f"> {line}".rstrip() for line in flat.splitlines())

    def figure(self, block: Block) -> str:
        alt = re.sub(r"([\[\]])", r"\\\1", block.options.get("alt", ""))
        picture = f"![{alt}](..{block.title})"
        return f"{picture}\n\n**{self.named(block.label)}.** {self.inline(block.text)}"

    def caption(self, cell: NotebookNode) -> str:
        """The caption under the figure of a code cell."""
        name, said, alt = captioned(cell)
        text = f"**{self.named(name)}.** {self.inline(said)}"
        return f"{text}\n\n<details><summary>The figure in words</summary>\n\n{alt}\n\n</details>"


def code(cell: NotebookNode) -> NotebookNode:
    """A code cell for readers: also folded in JupyterLab, or if it only records values."""
    kept = {k: v for k, v in cell.metadata.items() if k != "mystnb"}
    if figure := captioned(cell):
        kept["alt"] = figure[2]
    if "hide-input" in kept.get("tags", []) or (
        cell.outputs
        and all(RECORD + "text/plain" in output.get("data", {}) for output in cell.outputs)
    ):
        kept["jupyter"] = {"source_hidden": True}
    return nbformat.v4.new_code_cell(cell.source, outputs=cell.outputs, metadata=kept)


def split(whole: NotebookNode, stem: str) -> tuple[NotebookNode, NotebookNode]:
    """The chapter and its solutions, two notebooks to read, from one with source and outputs."""
    plain, solving = Plain(stem, glued(whole)), False
    parts: dict[bool, list[NotebookNode]] = {False: [], True: []}
    cited: dict[bool, set[str]] = {False: set(), True: set()}

    def write(text: str, part: bool) -> None:
        parts[part].append(nbformat.v4.new_markdown_cell(text))
        cited[part] |= plain.cited
        plain.cited = set()

    for cell in whole.cells:
        if cell.cell_type == "code":
            parts[solving].append(code(cell))
            if captioned(cell):
                write(plain.caption(cell), solving)
            continue
        texts: list[str] = []
        for block in blocks(cell.source):
            if is_solving(block, solving) != solving:
                if texts:
                    write("\n\n".join(texts), solving)
                solving, texts = not solving, []
            texts.append(plain.block(block))
        if texts:
            write("\n\n".join(texts), solving)
    for part, keys in cited.items():
        if keys:
            write(("## References\n\n" if part else "") + references(keys), part)
    first = parts[False][0]
    first.source = first.source.replace("# ", f"# {number(stem)} ".replace("#  ", "# "), 1)
    title = first.source.splitlines()[0].removeprefix("# ")
    parts[True] = [*opening(title, stem, parts[True]), *parts[True]]
    chapter = finish(parts[False], whole, stem)
    # A page of evidence reads stored results, so a reader's seed changes nothing there.
    if "/" not in stem and (told := sentences(whole, stem)):
        place = next(k for k, cell in enumerate(chapter.cells) if cell.cell_type == "code")
        chapter.cells.insert(place, follower(stem))
        chapter.metadata["sentences"] = told
    return chapter, finish(parts[True], whole, f"{stem}-solutions")


def sentences(whole: NotebookNode, stem: str) -> dict[str, list[list[Part]]]:
    """The sentences of a chapter with recorded values, keyed by the value recorded last.

    A sentence is a list of parts: words, or [name, form, value as stored].
    """
    values, solving = glued(whole), False
    plain, order, found = Plain(stem, values), [*values], dict[str, list[list[Part]]]()
    for cell in whole.cells:
        for block in blocks(cell.source) if cell.cell_type == "markdown" else ():
            solving = is_solving(block, solving)
            text = "" if solving else QUOTE.sub("", COMMENT.sub("", block.text))
            for sentence in (one for piece in PIECE.split(text) for one in whole_sentences(piece)):
                # re.split gives words, a value's name and its form, alternately
                words, *rest = GLUED.split(sentence)
                parts: list[Part] = [plain.inline(words)]
                for key, form, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
                    parts += [[key, form, plain.value(key, form)], plain.inline(after)]
                if rest:
                    found.setdefault(max(rest[::3], key=order.index), []).append(parts)
    return found


def whole_sentences(piece: str) -> Iterator[str]:
    """The sentences of a paragraph; none ends within bold, code or brackets."""
    begun = ""
    row = piece.lstrip().startswith("|")
    words = " ".join((piece.strip().strip("|").replace("|", " ") if row else piece).split())
    for part in SENTENCE.split(words):
        begun = f"{begun} {part}" if begun else part
        even = all(begun.count(mark) % 2 == 0 for mark in PAIRS)
        if even and begun.count("(") <= begun.count(")"):
            yield begun
            begun = ""
    if begun:
        yield begun


def follower(stem: str) -> NotebookNode:
    """The folded cell that shows where a reader's run differs."""
    data = {"text/plain": repr(Line()), "text/html": Line()._repr_html_()}
    said = nbformat.v4.new_output("display_data", data)
    folded = {"jupyter": {"source_hidden": True}}
    cell = nbformat.v4.new_code_cell(FOLLOW.format(stem=stem), outputs=[said], metadata=folded)
    cell["id"] = re.sub("[_/]", "-", f"{stem}-follow")
    return cell


def opening(title: str, stem: str, cells: list[NotebookNode]) -> list[NotebookNode]:
    """The beginning of a solutions notebook: its title, and the chapter's state if needed."""
    text = f"# Solutions of chapter {title}\n\nThe exercises are in [the chapter](../{stem}.ipynb)."
    if not any(cell.cell_type == "code" for cell in cells):
        return [nbformat.v4.new_markdown_cell(text)]
    text += " The first cell runs it, because the cells below use its names."
    begin = nbformat.v4.new_code_cell(BEGIN.format(stem=stem))
    return [nbformat.v4.new_markdown_cell(text), begin]


def finish(cells: list[NotebookNode], whole: NotebookNode, name: str) -> NotebookNode:
    """A notebook in stable form from cells, with their widgets."""
    shown = nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata)
    return chapters.stable(copy.deepcopy(shown), name)


def places(source: Path) -> list[Path]:
    """The paths of the notebooks of a chapter; a page beside the chapters has no solutions."""
    name = f"{chapters.key(source)}.ipynb"
    folders = [chapters.NOTEBOOKS, chapters.NOTEBOOKS / "solutions"]
    return [folder / name for folder in folders[: 2 if number(name) else 1]]


def texts(source: Path, whole: NotebookNode) -> dict[Path, str]:
    """{path: text} of the files of a chapter; each holds a digest of its cells."""
    both = split(whole, chapters.key(source))
    for notebook in both:
        notebook.metadata[WRITTEN] = chapters.digest(notebook)
    return dict(zip(places(source), map(chapters.serialise, both), strict=False))


def edited(path: Path) -> bool:
    """Whether a file holds what somebody has written, so that it must not be replaced.

    Cells that were only run are no work that is lost. A notebook without a digest was never ours
    """
    try:
        held = nbformat.read(path, as_version=4)
        return held.metadata.get(WRITTEN) != chapters.digest(held)
    except FileNotFoundError:
        return False
    except Exception:  # no notebook, or one that was cut off
        return True


def gather(sources: Iterable[Path] | None = None) -> list[Path]:
    """Write whole notebooks, by default of every chapter, to `STORED`; return their paths."""
    sources = chapters.sources() if sources is None else sources
    made = {STORED / f"{chapters.key(source)}.ipynb": compose(source) for source in sources}
    for path, whole in made.items():
        chapters.write_atomic(path, chapters.serialise(whole))
    return [*made]


def compose(source: Path) -> NotebookNode:
    """The whole notebook of a chapter: its text with the outputs of its notebooks.

    Raises ChapterError if the notebooks are missing or their code is not that of the text.
    """
    whole = chapters.read_text(source)
    name = chapters.key(source)
    repair = f"run: make notebooks CHAPTERS={name.partition('_')[0]}"
    stored, state = [], {}
    for place in places(source):
        if not place.exists():
            raise chapters.ChapterError(f"{place.name}: missing; {repair}")
        notebook = nbformat.read(place, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        added = [text.format(stem=name) for text in (BEGIN, FOLLOW)]
        stored.append([cell for cell in code if cell.source not in added])
        widgets = notebook.metadata.get("widgets", {}).get(chapters.WIDGET_STATE)
        state |= widgets["state"] if widgets else {}
    solving = solution_cells(whole.cells)
    code = [index for index, cell in enumerate(whole.cells) if cell.cell_type == "code"]
    for part, held in enumerate(stored):
        own = [whole.cells[index] for index in code if (index in solving) == part]
        if [cell.source for cell in own] != [cell.source for cell in held]:
            raise chapters.ChapterError(f"{source.name}: its notebooks hold other code; {repair}")
        for cell, old in zip(own, held, strict=True):
            cell.outputs = old.outputs
    if state:
        views = {"version_major": 2, "version_minor": 0, "state": state}
        whole.metadata["widgets"] = nbformat.from_dict({chapters.WIDGET_STATE: views})
    return chapters.stable(whole, name)


def portable(notebook: NotebookNode) -> NotebookNode:
    """A chapter that contains its pictures, so that it can be read without other folders."""
    for cell in notebook.cells:
        for name in re.findall(r"(?<=\]\(\.\./)[^)]+\.svg(?=\))", cell.source):
            picture = base64.b64encode((chapters.ROOT / name).read_bytes()).decode()
            cell.source = cell.source.replace(f"../{name}", f"attachment:{Path(name).name}")
            kept = cell.setdefault("attachments", {})
            kept[Path(name).name] = {"image/svg+xml": picture}
    return notebook
