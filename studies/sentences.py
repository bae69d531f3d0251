"""Sentences: what the chapters tell of studies, read from the outputs of their notebooks.

Below: study, items. Above: store (which questions stood when a block was drawn).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .items import ROOT, items
from .study import Study, ends_of, question

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


def question_of(record: Mapping[str, Any]) -> str:
    """The id of what a sentence asks of its study."""
    return question(record["asked"][1:], ends_of(*record["bounds"].values()))


def questions(study: Study) -> set[str]:
    """The ids of all that is asked of a study now: by its claims, chapters and the ledger."""
    chapters = {question_of(record) for record in told() if record.get("study") == study.name}
    ledger = {item.question for item in items() if item.study == study.name}
    return {claim.question for claim in study.claims} | chapters | ledger
