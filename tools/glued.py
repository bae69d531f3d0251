"""What a notebook glues into its text, and the parameters that it is run with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode

RECORD = "application/papermill.record/"


def literal(text: str) -> Any:
    """A glued value from its printed form: a number, string, list ... or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def glued(notebook: NotebookNode) -> dict[str, Any]:
    """Name and value of everything a notebook glues as text, sorted by name."""
    found = {name: literal(text) for name, text in _texts(notebook)}
    return dict(sorted(found.items()))


def noted(notebook: NotebookNode) -> list[str]:
    """The names of what a notebook glues as text, in the order in which its cells do so."""
    return [name for name, _ in _texts(notebook)]


def _texts(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        data = {kind.removeprefix(RECORD): x for kind, x in output.get("data", {}).items()}
        if name and "text/plain" in data and not any(kind.startswith("image/") for kind in data):
            yield name, data["text/plain"]


def parameters(notebook: NotebookNode) -> dict[str, Any]:
    """Names and default values of the cell tagged `parameters`."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            lines = [n for n in ast.parse(cell.source).body if isinstance(n, ast.Assign)]
            return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}
    return {}
