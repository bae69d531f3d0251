"""Mutants: edits that make a sentence of the book false. An unnoticed one is a failure.

    python tools/mutants.py [02 04 ...]     all mutants, or those of some chapters
    python tools/mutants.py --changed       those whose file, chapter or test differs from where
                                            this branch left main, on main from HEAD~1; a dozen
    python tools/mutants.py --most 40       at most this number, evenly spread

A mutant (tests/mutants/NN_topic.toml) names the claim that it makes false, a file, a text that
occurs there once, and its replacement. The chapter's code must then end in an AssertionError, or
the named test must fail. Each runs on a copy of the book, never on the book itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import chapters
import chromium
import deadlines

LISTS = chapters.ROOT / "tests/mutants"
LEFT_OUT = (".git", ".venv", "_build", "__pycache__", "node_modules", "parts", "*.egg-info")
SLOWEST = 600  # maximum seconds of a mutant
CAUGHT = "AssertionError"
LATE = deadlines.NOT_RUN.strip(": ")  # a deadline that passed on a busy machine


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One edit, the sentence that it makes false, and the code that must notice it."""

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
    """The mutants of all chapters that can run here, or of those that begin with these names."""
    wanted = tuple(names)
    files = [p for p in sorted(LISTS.glob("*.toml")) if not wanted or p.stem.startswith(wanted)]
    if not files:
        sys.exit(f"no mutants of {', '.join(wanted)} in {LISTS}")
    files = [path for path in files if chapters.runnable([path.stem])]
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["mutant"] for path in files]
    found = [Mutant(**table) for tables_of_file in tables for table in tables_of_file]
    return [m for m in found if not m.test.startswith("tests/site") or chromium.find()]


@contextmanager
def edited(mutant: Mutant) -> Iterator[Path]:
    """A copy of the book with the edit of a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        skip = shutil.ignore_patterns(*LEFT_OUT)
        root = Path(shutil.copytree(chapters.ROOT, f"{folder}/book", ignore=skip))
        mutant.apply(root)
        yield root


def verdict(mutant: Mutant) -> str:
    """The word "caught", or what happened instead."""
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:nbval", mutant.test]
    if mutant.chapter:
        (text,) = chapters.sources([mutant.chapter])
        words = ["tools/run_cells.py", str(text.relative_to(chapters.ROOT))]
    try:
        with edited(mutant) as root:
            env = os.environ | {"PYTHONPATH": str(root), "MPLBACKEND": "Agg"}
            done = subprocess.run(
                [sys.executable, *words], cwd=root, env=env, capture_output=True, text=True,
                timeout=SLOWEST,
            )  # fmt: skip
    except ValueError as error:
        return f"not tried: {error}"
    except subprocess.TimeoutExpired as error:
        return LATE if deadlines.busy() else f"not tried: {error}"
    if done.returncode == 0:
        return "SURVIVED"
    said = done.stdout + done.stderr
    noticed = CAUGHT in said or "Failed: DID NOT" in said
    return "caught" if noticed else f"ended otherwise:\n{said[-800:]}"


def git(*words: str) -> list[str]:
    """Lines of git's output about the book; none if the commit does not exist."""
    done = subprocess.run(["git", *words], cwd=chapters.ROOT, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.splitlines()


def changed(mutants: list[Mutant]) -> list[Mutant]:
    """The mutants whose file, chapter or test differs from a commit or is not committed."""
    main, here = git("rev-parse", "main"), git("rev-parse", "HEAD")
    left = [] if main == here else git("merge-base", "main", "HEAD")
    files = {*git("diff", "--name-only", "--relative", *(left or ["HEAD~1"]))}
    files |= {*git("ls-files", "--others", "--exclude-standard")}
    numbers = {Path(file).name[:2] for file in files if file.startswith("book/chapters/")}
    return [
        mutant
        for mutant in mutants
        if {mutant.file, mutant.test.partition("::")[0]} & files or mutant.chapter in numbers
    ]


def spread(mutants: list[Mutant], most: int) -> list[Mutant]:
    """At most this number of them, evenly spread."""
    count = min(most, len(mutants))
    return [mutants[k * len(mutants) // count] for k in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers such as 02; default: all")
    parser.add_argument("--changed", action="store_true", help="only of what has changed")
    parser.add_argument("--most", type=int, help="how many; with --changed 12, else all")
    asked = parser.parse_args()
    mutants = read(asked.chapters)
    if asked.changed:
        mutants = changed(mutants)
    mutants = spread(mutants, asked.most or (12 if asked.changed else len(mutants)))
    start, wrong = time.perf_counter(), 0
    with ThreadPoolExecutor(2) as pool:
        for mutant, word in zip(mutants, pool.map(verdict, mutants), strict=True):
            wrong += word not in ("caught", LATE)
            print(f"{word}: {mutant.file}: {mutant.claim}", flush=True)
    print(f"{len(mutants) - wrong} of {len(mutants)} caught, {time.perf_counter() - start:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
