"""Sphinx extension: the packages' docstrings as pages, each public name with its example.

The first paragraph does not change; the table of arguments becomes a list of terms, which fits
any width. A module's docstring is prose and indented code. Examples are in `book/examples.txt`, and
`tests/tools/test_api_page.py` runs them. Half of the markup has no style and is left out, which
keeps pages below what `tests/site/test_reference.py` allows.
"""

from __future__ import annotations

import contextlib
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any, get_type_hints

from docutils import nodes
from sphinx import addnodes

CODE = re.compile(r"(`+)(.+?)\1")
SPECIAL = re.compile(r"([*|_\\])")
ROW = re.compile(r"(\S.*?) {2,}(\S.*)")
VALUE = re.compile(r"""(?<![\w`])("[\w .:-]+")""")  # an argument's value
MORE = re.compile(r"; +(\w[\w, ]*?) {2,}")  # a second argument on the line of the first
WIDTH = 92  # of the docstring of a method
SOURCE = re.compile(r"(?:^| {2,})(?:source +)?(\[[^][]+\]\)?)$")
NAMED = ("class", "function", "exception")
ENTRY = "book/api"
SPAN = re.compile(r'<span(?: class="([^"]*)")?[^>]*>|</span>')
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
IN_CODE = {"n", "nn", "p", "w"}  # spans of these classes look like what is around them
IN_SIGNATURE = IN_CODE | {"pre", "sig-return", "sig-return-icon", "sig-return-typehint"}
DEFAULT = '<span class="default_value">'
ONE_STYLE = (f'<span class="o">=</span> {DEFAULT}', f"{DEFAULT}= ")


def prose(line: str) -> str:
    """The line as reStructuredText, with `code` and "values" as code."""
    pieces = CODE.split(line)
    plain, code = pieces[0::3], pieces[2::3]
    escaped = [VALUE.sub(r"``\1``\\ ", SPECIAL.sub(r"\\\1", text)) for text in plain]
    return escaped[0] + "".join(f"``{c}``\\ {t}" for c, t in zip(code, escaped[1:], strict=True))


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Lines between blank lines."""
    return [list(group) for filled, group in groupby(lines, key=bool) if filled]


def rows(lines: list[str]) -> list[tuple[str, str]]:
    """A table of arguments as (term, text); prose between them has an empty term.

    A line of prose that has room for the next word ends a paragraph.
    """
    found: list[list[str]] = []
    for before, line in zip(["", *lines], lines, strict=False):
        source = SOURCE.search(line)
        line = line[: source.start()] if source else line
        if line.startswith(" ") and found:
            found[-1][1] += " " + line.strip()
        elif row := ROW.fullmatch(line):
            found.append([row[1], row[2]])
        elif line:
            full = len(f"{before} {line.split()[0]}") > WIDTH
            if full and found and not found[-1][0]:
                found[-1][1] += " " + line
            else:
                found.append(["", line])
        if source:
            found.append(["source", source[1]])
    split = ([name, *MORE.split(text)] for name, text in found)
    pairs = (zip(parts[::2], parts[1::2], strict=True) for parts in split)
    return [(name, " ".join(text.split())) for several in pairs for name, text in several]


def listed(lines: list[str]) -> list[str]:
    """A paragraph of a docstring in reStructuredText: lists of terms, and prose."""
    made: list[str] = []
    for named, group in groupby(rows(lines), key=lambda row: bool(row[0])):
        made += [".. container:: arguments", ""] if named else []
        for name, text in group:
            made += [f"   {prose(name)}", f"      {prose(text)}"] if named else [prose(text), ""]
        made.append("")
    return made


def examples(path: Path) -> dict[str, str]:
    """The examples of a file, by name; each begins with a line ``## name``."""
    parts = re.split(r"^## (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring, in place, into the text of the reference page."""
    first, *rest = paragraphs(lines) or [[]]
    lines[:] = [*map(prose, first), ""]
    for paragraph in rest:
        if what != "module":
            lines += listed(paragraph)
        elif paragraph[0].startswith("    "):
            lines += [".. code-block:: text", "", *paragraph, ""]
        else:
            lines += [*map(prose, paragraph), ""]
    alike = name.startswith("fedlab_flower.")  # the name of an object that has the example
    example = app.examples.get(name.split(".")[-1]) if what in NAMED and not alike else None
    if example:
        lines += [".. code-block:: pycon", "", *("   " + x for x in example.splitlines()), ""]


def without_parsers(app: Any, function: Any, bound: bool) -> None:
    """In a signature, a checked number is just a number: ``Annotated[float, ...]`` is float."""
    # Some functions are built in, or have names of types that only type checkers import.
    with contextlib.suppress(AttributeError, NameError, TypeError):
        owner = function.__globals__.get(function.__qualname__.partition(".")[0])
        # A dataclass's arguments are annotated by names that its bases' modules import.
        modules = [sys.modules[kind.__module__] for kind in getattr(owner, "__mro__", ())[::-1]]
        names = {name: value for module in modules for name, value in vars(module).items()}
        function.__annotations__ = get_type_hints(function, localns=names)


def without(html: str, unseen: set[str]) -> str:
    """The text without spans of some classes; what is inside them stays."""
    kept: list[bool] = []

    def chosen(tag: re.Match[str]) -> str:
        if tag[0] != "</span>":
            kept.append(tag[1] not in unseen)
            return tag[0] if kept[-1] else ""
        return tag[0] if kept.pop() else ""

    return SPAN.sub(chosen, html)


def lighten(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out what no style is about, on pages with signatures."""
    if SIGNATURE.search(context.get("body", "")):
        body = without(context["body"], IN_CODE)
        body = SIGNATURE.sub(lambda found: without(found[0], IN_SIGNATURE), body)
        context["body"] = body.replace(*ONE_STYLE)


def without_members(app: Any, doctree: nodes.document) -> None:
    """A page's contents have its functions and classes, not what a class has."""
    for signature in doctree.findall(addnodes.desc_signature):
        if signature.get("class"):
            signature["_toc_name"] = ""


def lead(app: Any, doctree: nodes.document, page: str) -> None:
    """A name in the tables of the entry page leads to its definition."""
    if page != ENTRY:
        return
    objects = app.env.get_domain("py").objects.items()
    known = {full.split(".")[-1]: found for full, found in objects if found.objtype in NAMED}
    for cell in doctree.findall(nodes.entry):
        for word in [*cell.findall(nodes.literal)]:
            if found := known.get(word.astext()):
                address = app.builder.get_relative_uri(page, found.docname)
                link = nodes.reference("", "", internal=True, refuri=f"{address}#{found.node_id}")
                word.replace_self(link)
                link += word


def setup(app: Any) -> dict[str, bool]:
    app.examples = examples(Path(app.srcdir) / "book/examples.txt")
    app.connect("autodoc-before-process-signature", without_parsers)
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("doctree-read", without_members, priority=400)  # before Sphinx reads contents
    app.connect("doctree-resolved", lead)
    app.connect("html-page-context", lighten)
    return {"parallel_read_safe": True}
