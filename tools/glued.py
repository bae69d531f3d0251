"""The values that a notebook glues into its text, and its parameters."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from nbformat import NotebookNode

RECORD = "application/papermill.record/"


def literal(text: str) -> Any:
    """A glued value from its printed form: a number, string, list ... or the text itself."""
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


def glued(notebook: NotebookNode) -> dict[str, Any]:
    """The names and values that a notebook glues as text, in the order of their last glueing."""
    found: dict[str, Any] = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        data = {kind.removeprefix(RECORD): x for kind, x in output.get("data", {}).items()}
        if name and "text/plain" in data and not any(kind.startswith("image/") for kind in data):
            found.pop(name, None)
            found[name] = literal(data["text/plain"])
    return found


def parameters(notebook: NotebookNode) -> dict[str, Any]:
    """Names and default values of the cell tagged `parameters`."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            lines = [n for n in ast.parse(cell.source).body if isinstance(n, ast.Assign)]
            return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}
    return {}
