"""Code: what a stored result depends on, as one hash, so that an outdated result is noticed.

A study depends on the statements of its own file that ``rows`` reaches, and on every module of the
package that these import, directly or not. Comments, docstrings and blank lines do not count.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from functools import cache
from pathlib import Path

from .study import COLUMNS, Study

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent


def fingerprint(study: Study) -> str:
    """A hash of the code, the protocol and the columns that a study's rows rest on, 16 digits."""
    file = Path(inspect.getsourcefile(study.rows) or "")
    source = file.read_text(encoding="utf-8")
    nodes = reached(source, study.rows.__name__)
    names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
    modules = {other for path in _imports(file, names) for other in closure(path)}
    rest = {p.relative_to(PACKAGE).as_posix(): stripped(p) for p in sorted(modules)}
    own = [_bare(source, [node]) for node in nodes]
    parts = [own, rest, {k: list(v) for k, v in study.protocol.items()}, COLUMNS]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@cache
def stripped(path: Path) -> str:
    """The hash of a module's lines without docstrings, comments and blank lines."""
    source = path.read_text(encoding="utf-8")
    return hashlib.sha256(_bare(source, ast.parse(source).body).encode()).hexdigest()


def _bare(source: str, nodes: list[ast.stmt]) -> str:
    lines = source.splitlines()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    said = [n.body[0] for top in nodes for n in ast.walk(top) if isinstance(n, kinds)] + nodes[:1]
    doc = set()
    for node in said:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Expr) and isinstance(value, ast.Constant):
            doc |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = []
    for node in nodes:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        for number in range(first, (node.end_lineno or node.lineno) + 1):
            line = lines[number - 1].strip()
            if number not in doc and line and not line.startswith("#"):
                kept.append(line)
    return "\n".join(kept)


def reached(source: str, start: str) -> list[ast.stmt]:
    """The top-level statements of a file that ``start`` uses, directly or through others."""
    named: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            named[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (name for top in targets for name in ast.walk(top)):
                if isinstance(target, ast.Name):
                    named[target.id] = node
    found, todo = {}, [start]
    while todo:
        name = todo.pop()
        if name in named and name not in found:
            found[name] = named[name]
            todo += [n.id for n in ast.walk(named[name]) if isinstance(n, ast.Name)]
    return [found[name] for name in sorted(found)]


@cache
def closure(path: Path) -> frozenset[Path]:
    """The modules of the package that a file imports, directly or not, and the file itself.

    Without ``study``, which makes claims of rows and no rows
    """
    found, todo = set(), [path]
    while todo:
        path = todo.pop()
        if path not in found and path != HERE / "study.py":  # types and claims: no row needs them
            found.add(path)
            todo += _imports(path)
    return frozenset(found)


def _imports(path: Path, names: set[str] | None = None) -> list[Path]:
    """Files of the package that a file imports relatively; with ``names``, only for these names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        used = [a.name for a in node.names if names is None or (a.asname or a.name) in names]
        base = path.parents[node.level - 1].joinpath(*(node.module or ".").split("."))
        for option in [base, *(base / name for name in used)] if used else []:
            found += [option.with_suffix(".py"), option / "__init__.py"]
    return [
        p
        for p in found
        if (p.is_file() and p.parent != PACKAGE) or (p.name != "__init__.py" and p.is_file())
    ]
