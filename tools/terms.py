"""Terms: one word for one thing, by the table ``book/terms.toml``.

    python tools/terms.py            every place that uses a replaced word, one line each
    python tools/terms.py PATH ...   only these files
    python tools/terms.py --write    the glossary's part on words, book/terms.txt

`lint.py` calls this. Read are sentences, headings, captions and descriptions of chapters and pages,
labs, quizzes, cards, the ledger, drawings, and the docstrings and comments of packages and studies.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import chapters

ROOT = chapters.ROOT
TABLE, WRITTEN = ROOT / "book" / "terms.toml", ROOT / "book" / "terms.txt"
PACKAGES = ("fedlab_mini", "fedlab_bench", "fedlab_flower", "studies")
CODE = re.compile(r"`[^`]*`|\$[^$]*\$|<!--.*?-->|\{[\w:-]+\}`[^`]*`|https?://\S+", re.DOTALL)
LINK = re.compile(r"\{(?:ref|doc|term|numref)\}`([^`<>]*)(?:<[^`<>]*>)?`")  # its text is prose
TYPED = re.compile(
    r"\([a-z]\w*-[\w-]+\)=?|:label: .*|\]\([^)]*\)|:::+\{[\w:]+\} [\w-]+$", re.M
)  # labels


FENCE = re.compile(r"^([ ]*)(`{3,})([^\n`]*)\n(.*?)^[ ]*\2`*[ ]*$", re.DOTALL | re.MULTILINE)


class Term(NamedTuple):
    """An entry of the table: the word that stands, and what finds the words that it replaces."""

    stands: str
    meaning: str
    goes: list[str]
    pattern: re.Pattern[str] | None


@cache
def terms() -> tuple[Term, ...]:
    """The table, in its order."""
    found = []
    for entry in tomllib.loads(TABLE.read_text(encoding="utf-8"))["term"]:
        pattern = entry.get("pattern")
        compiled = re.compile(pattern, re.IGNORECASE) if pattern else None
        found.append(Term(entry["stands"], entry["meaning"], entry["goes"], compiled))
    return tuple(found)


def faults(texts: Iterable[str]) -> Iterator[str]:
    """What is replaced, and by which word, one line per match."""
    for text in texts:
        plain = CODE.sub(" {code} ", LINK.sub(r"\1", text))
        plain = " ".join(TYPED.sub(" ", plain).split())
        for term in terms():
            for found in term.pattern.finditer(plain) if term.pattern else ():
                around = plain[max(0, found.start() - 40) : found.end() + 30].strip()
                yield f"say *{term.stands}*, not {found[0]!r}: ... {around} ..."


def prose_of(fence: re.Match[str]) -> str:
    """What of a fenced block is prose: nothing of code, all of a directive such as a figure."""
    kind = fence[3].strip()
    return "" if re.fullmatch(r"\w*|\{eval-rst\}", kind) else fence[4]


def of_markdown(path: Path) -> Iterator[str]:
    """The prose of a page or chapter, with the captions and descriptions of its figures."""
    cells = chapters.read_text(path).cells
    for cell in cells:
        if cell.cell_type == "markdown":
            yield from re.split(r"\n\s*\n", FENCE.sub(prose_of, cell.source))
        about = cell.metadata.get("mystnb", {})
        yield about.get("image", {}).get("alt", "")
        yield about.get("figure", {}).get("caption", "")
        yield from re.findall(r'\bcaption="([^"]*)"', cell.source)


def of_table(path: Path) -> Iterator[str]:
    """Every text of a quiz and its cards."""
    text = re.sub(r"^key = .*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    yield from re.findall(r'"((?:[^"\\]|\\.)*)"', text)


def of_code(path: Path) -> Iterator[str]:
    """Docstrings and comments of a file of Python."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def of_ledger(path: Path) -> Iterator[str]:
    """The sentences and remarks of the ledger."""
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield from (row["sentence"], row["remark"], row["reason"])


def of_drawing(path: Path) -> Iterator[str]:
    """The words in a drawing."""
    yield from re.findall(r">([^<>]+)<", path.read_text(encoding="utf-8"))


def places() -> Iterator[tuple[Path, Iterable[str]]]:
    """Every file that is read, with its texts."""
    book = [*chapters.sources(), *sorted((ROOT / "book").glob("*.md"))]
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SUPPORT.md")]
    labs = sorted((ROOT / "notebooks" / "labs").glob("*.md"))
    yield from ((path, of_markdown(path)) for path in [*book, *labs, *named])
    quizzes = sorted((ROOT / "notebooks" / "quizzes").glob("*.toml"))
    yield from ((path, of_table(path)) for path in quizzes)
    yield ROOT / "data" / "ledger.csv", of_ledger(ROOT / "data" / "ledger.csv")
    drawings = sorted((ROOT / "book" / "_static" / "figures").glob("*.svg"))
    yield from ((path, of_drawing(path)) for path in drawings)
    for package in PACKAGES:
        yield from ((path, of_code(path)) for path in sorted((ROOT / package).rglob("*.py")))


def all_faults(only: Iterable[Path] = ()) -> Iterator[str]:
    """The faults of all files, or only of these."""
    wanted = {path.resolve() for path in only}
    for path, texts in places():
        if not wanted or path in wanted:
            yield from (f"{path.relative_to(ROOT)}: {fault}" for fault in faults(texts))


def glossary() -> str:
    """The glossary's part on words: what each means, and which words it replaces."""
    entries = []
    for term in sorted(terms(), key=lambda term: term.stands.lower()):
        instead = f" The book does not say: {', '.join(term.goes)}." if term.goes else ""
        entries.append(f"{term.stands}\n  {term.meaning}{instead}\n")
    return "```{glossary}\n" + "\n".join(entries) + "```\n"


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        WRITTEN.write_text(glossary(), encoding="utf-8", newline="\n")
        return
    found = list(all_faults(map(Path, sys.argv[1:])))
    print("\n".join([*found, f"{len(found)} words that another word replaces"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
