"""Drawn mutants: edits that chance has chosen, and what notices each of them.

    python tests/mutants/drawn/drawn.py draw          as many of each package as DRAWN says
    python tests/mutants/drawn/drawn.py run [PART]    those with nothing in killed_by

Drawn are an operator, a statement that it can edit, an edit. Each runs on a copy of the book, on
the test files and chapters that execute its line (or on those PARTs), until one fails. Which lines
they execute is measured once and kept in `_build/lines`: remove it when tests have changed. The
table, `drawn.csv`, is written after each mutant, so a second call goes on.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pandas as pd

ROOT = Path(__file__).resolve().parents[3]
TABLE, LINES = Path(__file__).with_name("drawn.csv"), ROOT / "_build" / "lines"
DRAWN = {"fedlab_mini": 44, "fedlab_bench": 11, "fedlab_flower": 5}
OPERATORS = ["comparison", "constant", "sign", "index", "dropped"]
PARTS = [f"tests/{kind}/test_*.py" for kind in ("unit", "properties", "oracles", "flower")]
PARTS += ["book/chapters/*.md"]
COLUMNS = ["package", "file", "line", "operator", "before", "after"]
COLUMNS += ["killed_by", "seconds", "remark"]
SEED, SLOWEST = 1, 600  # seconds
PAIRS = ["Lt LtE", "Gt GtE", "Eq NotEq", "In NotIn", "Is IsNot", "Add Sub", "Mult Div"]
SWAPS = {getattr(ast, a): getattr(ast, b) for p in PAIRS for a, b in (p.split(), p.split()[::-1])}
LEAPS = ast.AugAssign | ast.Raise | ast.Continue | ast.Break
Edit = tuple[str, ast.AST, ast.AST]  # operator, what stands there, what replaces it


def edits(node: ast.AST) -> Iterator[Edit]:
    """Every edit of an expression, or of a statement without its blocks."""
    match node:
        case ast.Compare(left, [op, *more], right):
            yield "comparison", node, ast.Compare(left, [SWAPS[type(op)](), *more], right)
        case ast.BinOp(a, op, b) if type(op) in SWAPS and not {type(a), type(b)} & {ast.List}:
            yield "sign", node, ast.BinOp(a, SWAPS[type(op)](), b)
        case ast.UnaryOp(ast.USub(), operand):
            yield "sign", node, operand
        case ast.Constant(bool() as value):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            step = 1 if isinstance(value, int) else value / 10 or 0.1
            yield from (("constant", node, ast.Constant(x)) for x in (value + step, value - step))
        case ast.Slice(lower, upper):
            for end in filter(None, (lower, upper)):
                yield "index", end, ast.BinOp(end, ast.Add(), ast.Constant(1))
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case | ast.JoinedStr):
            yield from edits(child)


def statements(tree: ast.Module) -> Iterator[list[Edit]]:
    """The edits of each statement: changed, or left out where no name goes missing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef | ast.Import):
            call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            dropped = [("dropped", node, ast.Pass())] * (call or isinstance(node, LEAPS))
            yield dropped + [*edits(node)] * (not isinstance(node, ast.Raise))


def draw(package: str) -> Iterator[dict[str, str]]:
    chance, files = random.Random(f"{SEED} {package}"), sorted((ROOT / package).rglob("*.py"))
    every = [(file, own) for file in files for own in statements(ast.parse(file.read_bytes()))]
    for i in range(DRAWN[package]):
        can = [(f, [edit for edit in own if edit[0] == OPERATORS[i % 5]]) for f, own in every]
        file, found = chance.choice([one for one in can if one[1]])
        operator, old, new = chance.choice(found)
        every = [one for one in every if found[0] not in one[1]]  # a statement once
        lines, first, end = file.read_text("utf-8").split("\n"), old.lineno, old.end_lineno
        here = lines[first - 1].encode()[: old.col_offset].decode() + ast.unparse(new)
        here += lines[end - 1].encode()[old.end_col_offset :].decode()
        while file.read_text("utf-8").count("\n".join(lines[first - 1 : end])) > 1:
            first -= 1  # with the lines above, until there is one such place
        before, after = lines[first - 1 : end], [*lines[first - 1 : old.lineno - 1], here]
        place = [package, str(file.relative_to(ROOT)), str(first), operator]
        yield dict(zip(COLUMNS, [*place, "\n".join(before), "\n".join(after)], strict=False))


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
        words = ["-m", "coverage", "run", f"--data-file={path}", f"--source={','.join(DRAWN)}"]
        if failed := run(part, ROOT, *words):
            path.unlink(missing_ok=True)
            sys.exit(f"fails without any mutant: {failed}")
    (data := coverage.CoverageData(str(path))).read()
    return data


def verdict(row: dict[str, str], known: dict[str, coverage.CoverageData]) -> str:
    """The test or the chapter that notices a mutant, or "survived"."""
    file, before = ROOT / row["file"], row["before"]
    first = 1 + file.read_text("utf-8").partition(before)[0].count("\n")
    lines = {*range(first, first + 1 + before.count("\n"))}
    seen = [part for part in known if lines & {*(known[part].lines(str(file)) or ())}]
    # First who names the module, and is short.
    seen.sort(key=lambda p: (file.stem not in (text := (ROOT / p).read_text("utf-8")), len(text)))
    skip = shutil.ignore_patterns(".git", ".venv", "_build", "__pycache__", "*.egg-info")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(shutil.copytree(ROOT, f"{folder}/book", ignore=skip))
        text = file.read_text("utf-8").replace(before, row["after"], 1)
        (root / row["file"]).write_text(text, encoding="utf-8")
        return next(filter(None, (run(part, root) for part in seen)), "survived")


def main() -> None:
    if sys.argv[1:] == ["draw"]:
        rows = [row for package in DRAWN for row in draw(package)]
        return pd.DataFrame(rows, columns=COLUMNS).to_csv(TABLE, index=False)
    found = (path for pattern in PARTS for path in sorted(ROOT.glob(pattern)))
    parts = sys.argv[2:] or [str(path.relative_to(ROOT)) for path in found]
    known = {part: measured(part) for part in parts}
    table = pd.read_csv(TABLE, dtype=str, keep_default_na=False)
    for i, row in table[table.killed_by == ""].iterrows():
        start = time.perf_counter()
        table.loc[i, "killed_by"] = verdict(row, known)
        table.loc[i, "seconds"] = f"{time.perf_counter() - start:.0f}"
        table.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main()
