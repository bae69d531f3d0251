"""Code: what a stored result depends on, as one hash, so that an outdated result is noticed.

A study depends on the definitions that its ``rows`` reaches, in its own file and in every other of
the project, and on what those files do when they are imported. Comments, docstrings, layout and
annotations do not count, nor what an error or a warning says, nor whole files without numbers.
A file's name does not count either: code that moves is the same code.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .study import COLUMNS, Study

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_NUMBERS = (  # they refuse, report, draw, hand out tasks and store
    "fedlab_mini.checks",
    "fedlab_mini.command",
    "fedlab_mini.engine.checkpoint",
    "fedlab_mini.engine.guard",
    "fedlab_mini.engine.history",
    "fedlab_mini.engine.marks",
    "fedlab_mini.engine.progress",
    "fedlab_mini.engine.sweep",
    "fedlab_mini.judge.registry.Look",
    "fedlab_mini.show",
    "studies.metrics",
    "studies.protocols",
    "studies.results",
    "studies.store",
    "studies.study",
    "warnings",
)
UNREAD = {"annotation", "returns", "msg", "cause", "ctx", "kind", "type_comment"}  # parts of syntax
STILL_NUMBERS = ("fedlab_mini.engine.guard.starting_model",)
FIELD_KINDS = ("ClassVar", "InitVar", "KW_ONLY")  # annotations that change what a dataclass is
NEVER = "__name__|TYPE_CHECKING"  # what stands below such an "if" is never run by an import
ALL, ACTIONS = "*", ""  # in place of a definition's name: everything, what an import does
Place = tuple[Path, str]  # a file, the name of a definition there


def fingerprint(study: Study) -> str:
    """A hash of the code and the columns that a study's rows rest on, 16 digits."""
    file = Path(inspect.getsourcefile(study.rows) or "").resolve()
    return _hash([digest(file, study.rows.__name__), COLUMNS])[:16]


@cache
def digest(file: Path, name: str) -> str:
    """The hash of everything that a definition of a file reaches."""
    # A function inside another has no name that could be looked up: its whole file counts.
    start = (file, name if name in read(file)[0] else ALL)
    hashes = set()
    for place in reached(start):
        code, uses, foreign = definition(*place)
        targets = {chain: definition(*target)[0] for chain, target in uses.items()}
        hashes.add(_hash([code, targets, foreign]))
    return _hash(sorted(hashes))


def reached(start: Place) -> set[Place]:
    """The places of all definitions that one uses, directly or through others."""
    places: set[Place] = set()
    waiting = [start]
    while waiting:
        place = waiting.pop()
        if place not in places:
            places.add(place)
            waiting += [(place[0], ACTIONS), *definition(*place)[1].values()]
    return places


@cache
def definition(file: Path, name: str) -> tuple[str, dict[str, Place], dict[str, str]]:
    """A definition: the hash of its own code, the places that it uses, the foreign names."""
    definitions, imports = read(file)
    names: set[str] = set()
    code = _plain(definitions.get(name, []), names, imports)
    if name == ALL:
        names |= definitions.keys() | imports.keys()
    elif name == ACTIONS:
        names |= {known for known in imports if known.startswith(ALL)}
    targets = {chain: resolve(file, chain) for chain in sorted(names)}
    uses = {chain: place for chain, place in targets.items() if isinstance(place, tuple)}
    foreign = {chain: word for chain, word in targets.items() if isinstance(word, str) and word}
    return _hash(code), uses, foreign


def resolve(file: Path, chain: str) -> Place | str:
    """What a name such as ``tables.forget`` stands for in a file.

    returns  the place of a definition; the dotted name of what is no part of the project; "" for
             what is local or without numbers
    """
    definitions, imports = read(file)
    head, *attributes = chain.split(".")
    if head in definitions:
        return file, head
    parts = [*imports.get(head, "").split("."), *attributes]
    if head not in imports or _silent(".".join(parts)):
        return ""
    for length in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:length])
        for source in (base.with_suffix(".py"), base / "__init__.py"):
            if source.is_file():
                known = {name for names in read(source) for name in names}
                if parts[length:] and parts[length] in known:
                    return resolve(source, ".".join(parts[length:]))
                return source, ALL  # as a whole, or by a star or a __getattr__
    return imports[head]


@cache
def read(file: Path) -> tuple[dict[str, list[ast.stmt]], dict[str, str]]:
    """The statements behind each name of a file's own, and what its imported names stand for."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    definitions: dict[str, list[ast.stmt]] = {ACTIONS: []}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {statement.name}
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            names = _assigned(statement)
        elif isinstance(statement, ast.If) and re.search(NEVER, ast.unparse(statement.test)):
            continue
        else:
            names = {ACTIONS}
        for name in names:
            definitions.setdefault(name, []).append(statement)
    return definitions, dict(_imports(tree, file))


def _assigned(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> set[str]:
    """The names that an assignment makes or changes; an action if it changes part of something."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for target in targets for part in ast.walk(target)]
    if any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts):
        return {ACTIONS}
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _imports(tree: ast.Module, file: Path) -> Iterator[tuple[str, str]]:
    """What each name that a file imports anywhere stands for, as dotted names."""
    package = file.relative_to(ROOT).parts[:-1] if file.is_relative_to(ROOT) else ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                head = name.name.partition(".")[0]
                yield (name.asname, name.name) if name.asname else (head, head)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *filter(None, [node.module])])
            for name in node.names:
                if name.name == ALL:
                    yield ALL + origin.replace(".", " "), origin
                else:
                    yield name.asname or name.name, f"{origin}.{name.name}"


def _silent(dotted: str) -> bool:
    silent = any(f"{dotted}.".startswith(f"{name}.") for name in WITHOUT_NUMBERS)
    return silent and dotted not in STILL_NUMBERS


def _idle(node: object) -> bool:
    """Imports, which count where their names are used, and docstrings."""
    said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return said or isinstance(node, ast.Import | ast.ImportFrom)


def _plain(tree: object, names: set[str], imports: dict[str, str], texts: bool = True) -> object:
    """A syntax tree as lists and texts, without what makes no numbers.

    names  takes up the names that it uses, each with the attributes asked of it: "a.b.c"
    texts  whether texts count; what is said to a function without numbers does not
    """
    if isinstance(tree, list):
        return [_plain(part, names, imports, texts) for part in tree if not _idle(part)]
    if not isinstance(tree, ast.AST):
        return repr(tree)
    if isinstance(tree, ast.Name | ast.Attribute):
        chain = ast.unparse(tree)
        if chain.replace(".", "").isidentifier():
            names.add(chain)
            return chain
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str) and not texts:
        return ""
    if isinstance(tree, ast.Raise) and isinstance(tree.exc, ast.Call):
        tree = ast.Raise(tree.exc.func)
    if isinstance(tree, ast.Call):
        head, _, rest = ast.unparse(tree.func).partition(".")
        texts = not _silent(f"{imports.get(head)}.{rest}".rstrip("."))
    annotation = ast.unparse(tree.annotation) if isinstance(tree, ast.AnnAssign) else ""
    plain: list[object] = [kind for kind in FIELD_KINDS if kind in annotation]
    for name, part in ast.iter_fields(tree):
        if name not in UNREAD and part != []:
            plain.append([name, _plain(part, names, imports, texts)])
    return [type(tree).__name__, *plain]


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
