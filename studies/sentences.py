"""Sentences: what the chapters tell of studies, read from the outputs of their notebooks.

Below: study. Above: store (which sentences stood when a block was drawn).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .code import ROOT
from .items import items
from .study import Study

SUFFIX = "x-sentence+json"


def told() -> Iterator[dict[str, Any]]:
    """Every sentence of the book that a notebook has noted: its record, chapter and key."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield from _in(path)


def _in(path: Path) -> Iterator[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            key = output.get("metadata", {}).get("scrapbook", {}).get("name")
            for kind, record in output.get("data", {}).items():
                if kind.endswith(SUFFIX):
                    yield {"chapter": path.stem, "key": key, **record}


def marks(study: Study) -> set[str]:
    """The marks of all sentences that rest on a study now: its claims, and what chapters tell."""
    chapters = {record["mark"] for record in told() if record.get("study") == study.name}
    return {claim.mark for claim in study.claims} | chapters


def questions(study: Study) -> set[str]:
    """The same, and the questions that the ledger of the papers asks of it."""
    return marks(study) | {item.mark for item in items() if item.study == study.name}
