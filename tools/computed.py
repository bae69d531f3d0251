"""Computed parts of a page: each stands under its mark in a file that the page includes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import chapters


def under_marks(parts: Mapping[str, str]) -> str:
    """All parts as one text, each between a mark with its name and an end."""
    return "\n".join(f"<!-- {name} -->\n\n{text}\n\n<!-- end -->\n" for name, text in parts.items())


def write_or_check(file: Path, text: str, advice: str) -> None:
    """Write the file if it is out of date; with --check on the command line exit and say so."""
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    shown = file.relative_to(chapters.ROOT)
    if "--check" in sys.argv:
        sys.exit(f"{shown} is out of date: {advice}")
    chapters.write_atomic(file, text)
    print(f"written: {shown}")
