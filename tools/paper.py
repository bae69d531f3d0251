"""Run chapters at the papers' scale and keep their numbers: `data/results/NN_topic.json`.

    python tools/paper.py            every chapter, one after the other; this can take hours
    python tools/paper.py 02 03      some of them

A result file holds every value that the chapter glues, with version, parameters and seconds.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

import chapters

RUNS = chapters.BUILD / "paper"
RECORD = "application/papermill.record/"


def literal(text: str) -> Any:
    """A glued value from its printed form: a number, string, list ... or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def glued(notebook: NotebookNode) -> dict[str, Any]:
    """Name and value of everything a notebook glues as text, sorted by name."""
    found = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        data = {kind.removeprefix(RECORD): x for kind, x in output.get("data", {}).items()}
        if name and "text/plain" in data and not any(kind.startswith("image/") for kind in data):
            found[name] = literal(data["text/plain"])
    return dict(sorted(found.items()))


def parameters(notebook: NotebookNode) -> dict[str, Any]:
    """Names and default values of the cell tagged `parameters`."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            lines = [n for n in ast.parse(cell.source).body if isinstance(n, ast.Assign)]
            return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}
    return {}


def record(source: Path) -> dict[str, Any]:
    """Run one chapter at scale "paper" and return what its result file holds."""
    start = time.perf_counter()
    notebook = chapters.run(source, RUNS / f"{source.stem}.ipynb", {"scale": "paper"})
    return {
        "chapter": source.stem,
        "version": importlib.metadata.version("fedlab-mini"),
        "parameters": parameters(notebook) | {"scale": "paper"},
        "seconds": round(time.perf_counter() - start),
        "values": glued(notebook),
    }


if __name__ == "__main__":
    chapters.use_own_settings()
    for source in chapters.sources(sys.argv[1:]):
        print(f"running {source.stem} at scale paper", flush=True)
        try:
            result = record(source)
        except chapters.ChapterError as failed:
            sys.exit(str(failed))
        target = chapters.ROOT / "data" / "results" / f"{source.stem}.json"
        text = json.dumps(result, indent=2, sort_keys=True, ensure_ascii=False)
        chapters.write_atomic(target, text + "\n")
        print(f"wrote {target.relative_to(chapters.ROOT)}  ({result['seconds']} s)", flush=True)
