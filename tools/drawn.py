"""Drawn mutants: edits that chance has chosen, and what notices each of them.

    python tools/drawn.py draw [--packages fedlab_bench]     as many of each package as DRAWN says
    python tools/drawn.py run [--jobs 2]                     those with nothing in killed_by

Drawn are an operator, a statement that it can edit, an edit. Each runs on a copy of the book: unit
tests that execute its line and name its module, other tests and chapters that execute it, and the
long ones last, until one fails. Which lines they execute is measured once, and kept in /tmp. The
table, `tests/mutants/drawn/drawn.csv`, is written after each mutant: a second call goes on.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import coverage
import pandas as pd

import chapters
import check
import mutants
import stamps

ROOT = chapters.ROOT
TABLE = ROOT / "tests/mutants/drawn/drawn.csv"
DRAWN = {"fedlab_mini": 44, "fedlab_bench": 11, "fedlab_flower": 5}
OPERATORS = ["comparison", "constant", "sign", "index", "dropped"]
KINDS = ["oracles", "unit", "properties", "flower", "chapters"]
SEED, STEP = 1, 300  # STEP: seconds that a step may take longer than without a mutant
PAIRS = ["Lt LtE", "Gt GtE", "Eq NotEq", "In NotIn", "Is IsNot", "Add Sub", "Mult Div"]
SWAPS = {getattr(ast, a): getattr(ast, b) for p in PAIRS for a, b in (p.split(), p.split()[::-1])}
OUTSIDE = ast.Assign, ast.AnnAssign, ast.FunctionDef
TEXTS = ast.JoinedStr, ast.List, ast.Tuple
Edit = tuple[str, ast.AST, ast.AST]  # operator, what stands there, what replaces it


def moved(node: ast.AST) -> list[ast.expr]:
    """A number moved by one, or by a tenth of itself where it is no whole one; True for False."""
    value = getattr(node, "value", None)
    if isinstance(value, int | float):
        step = value / 10 or 0.1 if isinstance(value, float) else 1
        new = [not value] if isinstance(value, bool) else [value + step, value - step]
        return [ast.Constant(x) for x in new]
    return [ast.BinOp(node, op, ast.Constant(1)) for op in (ast.Add(), ast.Sub())]


def inside(node: ast.AST) -> Iterator[Edit]:
    """Every edit of an expression, or of a statement without its blocks."""
    children = [*ast.iter_child_nodes(node)]
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                ops = [*node.ops[:i], SWAPS[type(op)](), *node.ops[i + 1 :]]
                yield "comparison", node, ast.Compare(node.left, ops, node.comparators)
        case ast.BinOp(a, op, b) | ast.AugAssign(a, op, b) if type(op) in SWAPS:
            if not any(type(x) in TEXTS or type(getattr(x, "value", 0)) is str for x in (a, b)):
                yield "sign", node, type(node)(a, SWAPS[type(op)](), b)
        case ast.UnaryOp(ast.USub(), operand):
            yield "sign", node, operand
        case ast.Constant(int() | float()):
            yield from (("constant", node, new) for new in moved(node))
        case ast.Subscript(value, index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            places = [x for p in parts if isinstance(p, ast.Slice) for x in (p.lower, p.upper) if x]
            places += [p for p in parts if ast.unparse(p).lstrip("-").isdigit()]
            yield from (("index", place, new) for place in places for new in moved(place))
            children = [value, *(p for p in parts if p not in places)]
    for child in children:
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case | ast.JoinedStr):
            yield from inside(child)


def droppable(node: ast.stmt) -> bool:
    """A call, a leap, a raise, or an assignment without which no name goes missing."""
    names = [x for x in ast.walk(node) if isinstance(x, ast.Name)]
    if isinstance(node, ast.Assign):
        return {x.id for x in names} <= {x.id for x in names if isinstance(x.ctx, ast.Load)}
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return called or isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def statements(node: ast.AST, function: bool = False) -> Iterator[tuple[int, list[Edit]]]:
    """Line and edits of each statement in functions, of assignments outside, and of defaults."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt if function else OUTSIDE):
            dropped = [("dropped", child, ast.Pass())] * (function and droppable(child))
            yield child.lineno, dropped + [*inside(child)] * (not isinstance(child, ast.Raise))
        scope = isinstance(child, ast.FunctionDef) or function
        yield from statements(child, scope and not isinstance(child, ast.ClassDef))


def draw(package: str) -> Iterator[dict[str, str]]:
    chance, files = random.Random(f"{SEED} {package}"), sorted((ROOT / package).rglob("*.py"))
    every = [(f, *found) for f in files for found in statements(ast.parse(f.read_bytes()))]
    for i in range(DRAWN[package]):
        can = [(f, n, [e for e in edits if e[0] == OPERATORS[i % 5]]) for f, n, edits in every]
        file, first, edits = chance.choice([found for found in can if found[2]])
        operator, old, new = chance.choice(edits)
        every = [found for found in every if edits[0] not in found[2]]  # a statement once
        lines, end = file.read_bytes().split(b"\n"), old.end_lineno
        while file.read_bytes().count(b"\n".join(lines[first - 1 : end])) > 1:
            first -= 1  # with the lines above, until there is one such place
        here = lines[old.lineno - 1][: old.col_offset] + ast.unparse(new).encode()
        after = [*lines[first - 1 : old.lineno - 1], here + lines[end - 1][old.end_col_offset :]]
        place = {"package": package, "file": str(file.relative_to(ROOT)), "line": str(first)}
        before, after = (b"\n".join(x).decode() for x in (lines[first - 1 : end], after))
        yield place | {"operator": operator, "before": before, "after": after}


def measured(part: Path) -> coverage.CoverageData:
    """The lines of each file that a test file or a chapter executes."""
    digest = stamps.digest([part, *stamps.files_below(*chapters.PACKAGES)], str(ROOT))
    path = Path(tempfile.gettempdir(), f"fedlab-lines-{digest}")
    if not path.exists():
        with tempfile.TemporaryDirectory() as place:
            Path(place, "set").write_text(f"[run]\nparallel = 1\ndata_file = {place}/{path.name}\n")
            words = mutants.words(part.relative_to(ROOT).as_posix())
            code, said = mutants.run(words, ROOT, 1e3, COVERAGE_PROCESS_START=f"{place}/set")
            if code or not [*Path(place).glob("fedlab*")]:
                raise SystemExit(f"{part} fails without any mutant, or is not measured: {said}")
            mutants.run(["-m", "coverage", "combine", f"--data-file={path}", place], ROOT, STEP)
    (data := coverage.CoverageData(str(path))).read()
    return data


def verdict(row: dict[str, str], known: dict[str, coverage.CoverageData]) -> str:
    """The test or the chapter that notices a mutant; "time" where one does not end; "survived"."""
    file = ROOT / row["file"]
    first = 1 + file.read_text("utf-8").partition(row["before"])[0].count("\n")
    lines = {*range(first, first + 1 + row["before"].count("\n"))}

    def rank(part: str) -> tuple:
        text, kind = (ROOT / part).read_text("utf-8"), part.split("/")[1]
        other = kind != "unit" or file.stem not in text
        return part in check.LONG, other, KINDS.index(kind), len(text)

    seen = sorted((p for p in known if lines & {*(known[p].lines(str(file)) or ())}), key=rank)
    edit = mutants.Mutant(claim="", file=row["file"], find=row["before"], replace=row["after"])
    with mutants.edited(edit) as root:
        for _, step in groupby(seen, lambda part: part if part.endswith(".md") else rank(part)[:3]):
            parts = [*step]
            code, said = mutants.run(mutants.words(*parts), root, STEP + 10 * len(parts))
            if code:
                failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
                return failed[1] if failed else "time" if code == -1 else parts[0]
    return "survived"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["draw", "run"])
    parser.add_argument("--packages", nargs="+", choices=DRAWN, default=[*DRAWN])
    parser.add_argument("--jobs", type=int, default=1, help="how many side by side")
    told = parser.parse_args()
    rows = pd.read_csv(TABLE, dtype=str, keep_default_na=False).to_dict("records")
    if told.command == "draw":
        rows = [row for row in rows if row["package"] not in told.packages]
        rows += [row for package in told.packages for row in draw(package)]
        return pd.DataFrame(rows).to_csv(TABLE, index=False)
    tests = [p for kind in KINDS[:-1] for p in ROOT.glob(f"tests/{kind}/test_*.py")]
    # Who does not name a package has little to say of it, and measuring takes its time.
    naming = re.compile("|".join(told.packages))
    parts = [p for p in (*tests, *chapters.sources()) if naming.search(p.read_text("utf-8"))]
    known = {str(p.relative_to(ROOT)): measured(p) for p in parts}

    def run(row: dict[str, str]) -> None:
        start = time.perf_counter()
        row |= {"killed_by": verdict(row, known), "seconds": f"{time.perf_counter() - start:.0f}"}
        pd.DataFrame(rows).to_csv(TABLE, index=False)

    todo = [r for r in rows if not r.get("killed_by") and r["package"] in told.packages]
    with ThreadPoolExecutor(told.jobs) as pool:
        list(pool.map(run, todo))


if __name__ == "__main__":
    main()
