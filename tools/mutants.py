"""Mutants: edits that make a sentence of the book false. One that nothing notices is a failure.

    python tools/mutants.py [02 04 ...]     all mutants, or those of some chapters
    python tools/mutants.py --some 3        a few, others every day

A mutant (tests/mutants/NN_topic.toml) names the claim that it makes false, a file, a text that
occurs there once, and what replaces it. Its chapter's code must then end in an AssertionError; or
the test that it names must fail. Each runs on a copy of the book, never on the book itself.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import chapters

LISTS = chapters.ROOT / "tests/mutants"
NEEDED = (
    *chapters.PACKAGES,
    "studies",
    "book/chapters",
    "notebooks/quizzes",
    "data",
    "examples",
    "tests",
    "tools",
)
SLOWEST = 600  # seconds that a mutant may take
CAUGHT = "AssertionError"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One edit, the sentence that it makes false, and where that must be noticed."""

    claim: str
    file: str
    find: str
    replace: str
    chapter: str = ""
    test: str = ""

    def apply(self, root: Path) -> None:
        """Edit the file below ``root``; raises ValueError unless the text occurs once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.find) != 1:
            raise ValueError(
                f"{self.file}: {self.find!r} occurs {text.count(self.find)} times, expected once"
            )
        path.write_text(text.replace(self.find, self.replace), encoding="utf-8")


def read(names: Iterable[str] = ()) -> list[Mutant]:
    """The mutants of all chapters that can run here, or of those that the names begin."""
    wanted = tuple(names)
    files = [p for p in sorted(LISTS.glob("*.toml")) if not wanted or p.stem.startswith(wanted)]
    if not files:
        sys.exit(f"no mutants of {', '.join(wanted)} in {LISTS}")
    files = [path for path in files if chapters.runnable([path.stem])]
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["mutant"] for path in files]
    return [Mutant(**table) for tables_of_file in tables for table in tables_of_file]


def command(mutant: Mutant, root: Path) -> list[str]:
    if mutant.test:
        words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.test]
        return [sys.executable, *words]
    (text,) = chapters.sources([mutant.chapter])
    return [sys.executable, str(root / "tools/run_cells.py"), f"book/chapters/{text.name}"]


def verdict(mutant: Mutant) -> str:
    """The word caught, or what happened instead."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in NEEDED:
            skip = shutil.ignore_patterns("__pycache__", "node_modules", "parts")
            shutil.copytree(chapters.ROOT / part, root / part, ignore=skip)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(chapters.ROOT / name, root / name)
        try:
            mutant.apply(root)
        except ValueError as error:
            return f"does not fit: {error}"
        env = os.environ | {"PYTHONPATH": folder, "MPLBACKEND": "Agg", "TQDM_DISABLE": "1"}
        words = command(mutant, root)
        try:
            done = subprocess.run(
                words, cwd=root, env=env, capture_output=True, text=True, timeout=SLOWEST
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {SLOWEST} s"
    said = done.stdout + done.stderr
    if done.returncode == 0:
        return "SURVIVED"
    noticed = CAUGHT in said or "Failed: DID NOT" in said
    return "caught" if noticed else f"ended otherwise:\n{said[-800:]}"


def some(mutants: list[Mutant], count: int, day: int) -> list[Mutant]:
    """``count`` of them, neighbours in a circle, starting elsewhere every day."""
    start = day * count % len(mutants)
    return (mutants[start:] + mutants[:start])[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers such as 02; default: all")
    parser.add_argument("--some", type=int, help="only so many, others every day")
    parser.add_argument("--jobs", type=int, default=2, help="how many side by side")
    asked = parser.parse_args()
    mutants = read(asked.chapters)
    if asked.some:
        mutants = some(mutants, asked.some, datetime.date.today().toordinal())
    start, wrong = time.perf_counter(), 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for mutant, word in zip(mutants, pool.map(verdict, mutants), strict=True):
            wrong += word != "caught"
            print(f"{word}: {mutant.file}: {mutant.claim}", flush=True)
    print(f"{len(mutants) - wrong} of {len(mutants)} caught, {time.perf_counter() - start:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
