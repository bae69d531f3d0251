"""What nobody uses: public names, and options of public names, that no page or study asks for.

    python tools/unused.py

Read are chapters, pages, labs, quizzes, examples, studies and command lines. An option counts as
used where it is passed to its name by keyword or by place, or where its word stands as a keyword
or a key in a file that uses the name (options that travel in a dict). Exits with 1 if the list
holds more than ``ALLOWED`` says. Runs every week.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

import chapters
import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.show import plots

USERS = ("studies", "examples", "fedlab_mini/command", "fedlab_mini/judge/registry.py")
USERS += ("fedlab_bench", "fedlab_flower")
TEXTS = ("book", "notebooks/labs", "README.md", "CONTRIBUTING.md")
FENCES = ("```{code-cell}", "```python")
# name or name.option -> why it stays though nothing above uses it
ALLOWED = dict.fromkeys(
    ("airport", "glove", "majority", "core_shortfall", "cosine_game.weights"),
    "a closed form or a measure of chapter 2, which the page of the package shows",
)
ALLOWED |= dict.fromkeys(
    ("Cost", "Game.client_epochs", "Game.name", "Game.shapley"), "what the package makes itself"
)
ALLOWED |= dict.fromkeys(
    [
        *("FRCCE.window", "LabelStandardisation.window", "SFedAvg.permutations", "fedccea.form"),
        *("fedccea.starts", "fedccea.steps", "fedccea.on", "FedCE.floor", "FedCE.mix"),
        *("GTGShapley.between", "GTGShapley.least", "GTGShapley.settled", "GTGShapley.unit"),
        *("GTGShapley.window", "GTGShapley.within", "QualityInference.metric"),
        *("beta_shapley.alpha", "beta_shapley.beta"),
    ],
    "a choice of its paper's, by the paper's name",
)
ALLOWED |= dict.fromkeys(
    [
        *("fedccea.n_jobs", "retraining_game.n_jobs", "simulate.n_jobs", "simulator.n_jobs"),
        *("fedccea.cache", "simulator.cache", "score.per"),
        *("fedccea.neutral", "fit_aam.neutral", "settle.neutral"),
    ],
    "chapter 11, *Bring your own* or the page of methods says it in words",
)
ALLOWED |= dict.fromkeys(
    [
        *("skewed_digits.corrupt", "skewed_digits.samples", "skewed_digits.test"),
        *("skewed_digits.validation", "spam.alpha", "spam.test", "load.part"),
        *("simulate.theta", "simulator.metric"),
    ],
    "is like its neighbours, which have users: to go, or to get a page",
)


def cells(text: str) -> Iterator[str]:
    """The code of a page: cells and printed examples."""
    inside, lines = False, list[str]()
    for line in text.splitlines():
        if inside and line.strip() == "```":
            yield "\n".join(lines)
            inside, lines = False, []
        elif inside:
            lines.append(line)
        elif line.strip().startswith(FENCES):
            inside = True


def trees() -> Iterator[list[ast.AST]]:
    """Of every file the parsed code, cell by cell."""
    for name in USERS:
        root = chapters.ROOT / name
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            yield [ast.parse(path.read_text(encoding="utf-8"))]
    for name in TEXTS:
        root = chapters.ROOT / name
        for path in sorted(root.rglob("*.md")) if root.is_dir() else [root]:
            parsed = []
            for cell in cells(path.read_text(encoding="utf-8")):
                try:
                    parsed.append(ast.parse(cell.split("---\n")[-1]))
                except SyntaxError:  # part of a cell, a shell command
                    continue
            yield parsed


def word(node: ast.AST) -> str:
    """The last word of a name: ``train`` of ``fm.train``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class Uses:
    """Which words a file uses, and what it passes to whom."""

    def __init__(self, parsed: list[ast.AST]):
        nodes = [node for tree in parsed for node in ast.walk(tree)]
        self.words = {word(node) for node in nodes} - {""}
        self.words |= {a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
        self.keys = {n.arg for n in nodes if isinstance(n, ast.keyword)}
        self.keys |= {
            key.value
            for n in nodes
            if isinstance(n, ast.Dict)
            for key in n.keys
            if isinstance(key, ast.Constant)
        }
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.places = [(word(call.func), len(call.args)) for call in calls]


def public() -> Iterator[tuple[str, object]]:
    """The public names of the packages, with what they name."""
    rooms: tuple[ModuleType, ...] = (fm, fb, plots)
    for room in rooms:
        names = getattr(room, "__all__", None) or [
            name
            for name, value in vars(room).items()
            if inspect.isfunction(value) and value.__module__ == room.__name__
        ]
        for name in names:
            if not name.startswith("_"):
                yield name, getattr(room, name)


def numbered(value: object) -> list[tuple[int, str]]:
    """The optional parameters of a function or class, with their places."""
    if isinstance(value, type) and issubclass(value, Exception):
        return []
    record = dataclasses.is_dataclass(value) and not hasattr(value, "step")
    if not callable(value) or (record and getattr(value, "__name__", "") != "LocalSGD"):
        return []  # records of results are not called by users
    parameters = inspect.signature(value).parameters.values()
    return [
        (place, one.name)
        for place, one in enumerate(parameters)
        if one.default is not one.empty and not one.name.startswith("_")
    ]


def unused() -> list[str]:
    """``name`` or ``name.option``, of those that nothing uses."""
    files = [Uses(parsed) for parsed in trees()]
    found = []
    for name, value in public():
        users = [file for file in files if name in file.words]
        if not users:
            found.append(name)
            continue
        # What a class inherits or refines is asked of the class that has it first.
        own = set(options(value)) - {o for base in bases(value) for o in options(base)}
        family = {name} | {n for n, other in public() if value in bases(other)}
        users = [file for file in files if family & file.words]
        keys = set().union(*(file.keys for file in users))
        passed = [n for file in users for called, n in file.places if called in family]
        found += [
            f"{name}.{option}"
            for option in own
            if option not in keys and places(value)[option] >= max(passed, default=0)
        ]
    return sorted(set(found))


def bases(value: object) -> tuple[object, ...]:
    """The classes of this package that a class inherits from."""
    if not isinstance(value, type):
        return ()
    return tuple(base for base in value.__mro__[1:] if base.__module__.startswith("fedlab"))


def places(value: object) -> dict[str, int]:
    """The place of every optional parameter."""
    return {option: place for place, option in numbered(value)}


def options(value: object) -> list[str]:
    """The optional parameters of a function or class."""
    return [option for _, option in numbered(value)]


if __name__ == "__main__":
    surplus = [name for name in unused() if name not in ALLOWED]
    print("\n".join(surplus) or "every public name and option has a user")
    sys.exit(bool(surplus))
