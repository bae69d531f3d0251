"""Mutants: edits that make a sentence of the book false. One that nothing notices is a failure.

    python tools/mutants.py [02 04 ...]     all mutants, or those of some chapters
    python tools/mutants.py --changed [REF] those whose file, chapter or test differs from REF: by
                                            default from where this branch left main, on main HEAD~1

A mutant (tests/mutants/NN_topic.toml) names the claim that it makes false, a file, a text that
occurs there once, and what replaces it. Its chapter's code must then end in an AssertionError; or
the test that it names must fail. Each runs on a copy of the book, never on the book itself.
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

LISTS = chapters.ROOT / "tests/mutants"
LEFT_OUT = (".git", ".venv", "_build", "__pycache__", "node_modules", "parts", "*.egg-info")
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


def words(*parts: str) -> list[str]:
    """What Python is asked for tests, until one fails, or for the text of one chapter."""
    if parts[0].endswith(".md"):
        return ["tools/run_cells.py", *parts]
    return ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:nbval", *parts]


@contextmanager
def edited(mutant: Mutant) -> Iterator[Path]:
    """A copy of the book with that edit."""
    with tempfile.TemporaryDirectory() as folder:
        skip = shutil.ignore_patterns(*LEFT_OUT)
        root = Path(shutil.copytree(chapters.ROOT, f"{folder}/book", ignore=skip))
        mutant.apply(root)
        yield root


def run(words: list[str], root: Path, limit: float, **more: str) -> tuple[int, str]:
    """What Python returns and says with the packages below ``root``; -1 after so many seconds."""
    own = {"PYTHONPATH": str(root), "MPLBACKEND": "Agg", **more}
    command = [sys.executable, *words]
    try:
        done = subprocess.run(
            command, cwd=root, env=os.environ | own, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return -1, f"took longer than {limit} s"
    return done.returncode, done.stdout + done.stderr


def verdict(mutant: Mutant) -> str:
    """The word caught, or what happened instead."""
    part = mutant.test
    if not part:
        (text,) = chapters.sources([mutant.chapter])
        part = f"book/chapters/{text.name}"
    try:
        with edited(mutant) as root:
            code, said = run(words(part), root, SLOWEST)
    except ValueError as error:
        return f"does not fit: {error}"
    if code == 0:
        return "SURVIVED"
    noticed = CAUGHT in said or "Failed: DID NOT" in said
    return "caught" if noticed else f"ended otherwise:\n{said[-800:]}"


def git(*words: str) -> list[str]:
    """Lines that git says of the book; none where there is no git, or no such commit."""
    try:
        done = subprocess.run(["git", *words], cwd=chapters.ROOT, capture_output=True, text=True)
    except OSError:
        return []
    return [] if done.returncode else done.stdout.splitlines()


def changed(mutants: list[Mutant], ref: str = "") -> list[Mutant]:
    """Those whose file, chapter or test differs from a commit, or is not committed."""
    if ref and not git("rev-parse", "--verify", ref):
        sys.exit(f"git knows no {ref} here")
    main, here = git("rev-parse", "main"), git("rev-parse", "HEAD")
    left = [] if main == here else git("merge-base", "main", "HEAD")
    since = [ref] if ref else left or ["HEAD~1"]
    files = {*git("diff", "--name-only", "--relative", *since)}
    files |= {*git("ls-files", "--others", "--exclude-standard")}
    texts = [Path(file).stem for file in files if file.startswith("book/chapters/")]
    return [
        mutant
        for mutant in mutants
        if {mutant.file, mutant.test.partition("::")[0]} & files
        or (mutant.chapter and any(stem.startswith(mutant.chapter) for stem in texts))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers such as 02; default: all")
    parser.add_argument("--changed", nargs="?", const="", help="only what differs from a commit")
    parser.add_argument("--jobs", type=int, default=2, help="how many side by side")
    asked = parser.parse_args()
    mutants = read(asked.chapters)
    if asked.changed is not None:
        mutants = changed(mutants, asked.changed)
    start, wrong = time.perf_counter(), 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for mutant, word in zip(mutants, pool.map(verdict, mutants), strict=True):
            wrong += word != "caught"
            print(f"{word}: {mutant.file}: {mutant.claim}", flush=True)
    print(f"{len(mutants) - wrong} of {len(mutants)} caught, {time.perf_counter() - start:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
