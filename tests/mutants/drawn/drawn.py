"""Drawn mutants: edits that chance has chosen, and what notices each of them.

    python tests/mutants/drawn/drawn.py [PART ...]    those with nothing in killed_by

An operator, a statement that it can edit and an edit were drawn once. Each runs on a copy of the
book, on the test files and chapters that execute its line (or on those PARTs), until one fails; if
it is in no module, on what reads its file. Which lines they execute is measured once and kept in
`_build/lines`: remove it when tests have changed. The table, `drawn.csv`, is written after each
mutant, so a second call goes on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import coverage
import pandas as pd

ROOT = Path(__file__).resolve().parents[3]
TABLE, LINES = Path(__file__).with_name("drawn.csv"), ROOT / "_build" / "lines"
PACKAGES = "fedlab_mini,fedlab_bench,fedlab_flower"
PARTS = [f"tests/{kind}/test_*.py" for kind in ("unit", "properties", "oracles", "flower")]
PARTS += ["book/chapters/*.md"]
LABS = "tests/notebooks/test_labs.py::test_only_right_answers_pass_and_no_failure_says_them"
EXPLORERS = ("tickets_fall_as_often_as_is_expected", "other_random_choices_are_pythons")
SLOWEST = 600  # seconds


def run(part: str, root: Path, *measure: str) -> str:
    """What fails in a test file or chapter, with the packages below ``root``; "" if nothing."""
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:nbval", part]
    words = ["tools/run_cells.py", part] if part.endswith(".md") else words
    env = os.environ | {"PYTHONPATH": str(root), "MPLBACKEND": "Agg"}
    command, told = [sys.executable, *measure, *words], {"capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=root, env=env, timeout=SLOWEST, **told)
    except subprocess.TimeoutExpired:
        return "time"
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return [*failed, part][0] if done.returncode else ""


def measured(part: str) -> coverage.CoverageData:
    """The lines of each file that a test file or a chapter executes."""
    path = LINES / part.replace("/", ".")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        words = ["-m", "coverage", "run", f"--data-file={path}", f"--source={PACKAGES}"]
        if failed := run(part, ROOT, *words):
            path.unlink(missing_ok=True)
            sys.exit(f"fails without any mutant: {failed}")
    (data := coverage.CoverageData(str(path))).read()
    return data


def readers(file: Path) -> list[str]:
    """What reads a file that is no module: an explorer's program, a quiz, a lab, or a chapter."""
    if file.suffix == ".js":
        return [f"tests/site/test_widgets.py::test_{name}" for name in EXPLORERS]
    if file.suffix == ".toml":
        return ["tests/unit/test_quizzes.py"]
    return [f"{LABS}[{file.stem}]"] if file.parent.name == "labs" else [str(file)]


def executing(file: Path, before: str, known: dict[str, coverage.CoverageData]) -> list[str]:
    """What executes a statement of a module; first who names the module, and is short."""
    first = 1 + file.read_text("utf-8").partition(before)[0].count("\n")
    lines = {*range(first, first + 1 + before.count("\n"))}
    seen = [part for part in known if lines & {*(known[part].lines(str(file)) or ())}]
    texts = {part: (ROOT / part).read_text("utf-8") for part in seen}
    return sorted(seen, key=lambda part: (file.stem not in texts[part], len(texts[part])))


def verdict(row: dict[str, str], known: dict[str, coverage.CoverageData]) -> str:
    """The test or the chapter that notices a mutant, or "survived"."""
    file, before = ROOT / row["file"], row["before"]
    module = file.suffix == ".py"
    seen = executing(file, before, known) if module else readers(Path(row["file"]))
    skip = shutil.ignore_patterns(".git", ".venv", "_build", "__pycache__", "*.egg-info")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(shutil.copytree(ROOT, f"{folder}/book", ignore=skip))
        text = file.read_text("utf-8").replace(before, row["after"], 1)
        (root / row["file"]).write_text(text, encoding="utf-8")
        return next(filter(None, (run(part, root) for part in seen)), "survived")


def main() -> None:
    found = (path for pattern in PARTS for path in sorted(ROOT.glob(pattern)))
    parts = sys.argv[1:] or [str(path.relative_to(ROOT)) for path in found]
    table = pd.read_csv(TABLE, dtype=str, keep_default_na=False)
    if (todo := table[table.killed_by == ""]).empty:
        sys.exit("nothing to do: empty killed_by of those that are to run again")
    known = {part: measured(part) for part in parts}
    for i, row in todo.iterrows():
        start = time.perf_counter()
        table.loc[i, "killed_by"] = verdict(row, known)
        table.loc[i, "seconds"] = f"{time.perf_counter() - start:.0f}"
        table.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main()
