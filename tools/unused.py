"""What nobody uses: public names, and options of public names, that no page or study asks for.

    python tools/unused.py

Read are chapters, pages, labs, examples, studies and command lines. An option counts as used where
it is passed to its name by place, or where its word stands as a keyword or a key in a file that
uses the name. Exits with 1 if the list holds more than ``ALLOWED``. Runs every week.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

import chapters
import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.show import plots

USERS = ("studies", "examples", "fedlab_mini/command", "fedlab_mini/judge/registry.py", "book")
USERS += ("fedlab_bench", "fedlab_flower", "notebooks/labs", "README.md", "CONTRIBUTING.md")
CELL = re.compile(
    r"^```(?:\{code-cell\}[^\n]*|python)\n(?:---\n.*?---\n|(?::[^\n]*\n)*)(.*?)^```$", re.M | re.S
)
# In this order: closed forms of chapter 2, which the reference shows; what the package makes
# itself; choices of their papers'; said in words by chapter 11 or a page; like their neighbours.
ALLOWED = re.findall(
    r"\S+",
    """
airport glove majority core_shortfall cosine_game.weights
Cost Game.client_epochs Game.name Game.shapley
FRCCE.window LabelStandardisation.window SFedAvg.permutations fedccea.form fedccea.starts
fedccea.steps fedccea.on FedCE.floor FedCE.mix GTGShapley.between GTGShapley.least
GTGShapley.settled GTGShapley.unit GTGShapley.window GTGShapley.within QualityInference.metric
beta_shapley.alpha beta_shapley.beta
fedccea.n_jobs retraining_game.n_jobs simulate.n_jobs simulator.n_jobs fedccea.cache
simulator.cache score.per fedccea.neutral fit_aam.neutral settle.neutral
skewed_digits.corrupt skewed_digits.samples skewed_digits.test skewed_digits.validation spam.alpha
spam.test load.part simulate.theta simulator.metric
""",
)


def word(node: ast.AST) -> str:
    """The last word of a name: ``train`` of ``fm.train``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def uses() -> Iterator[tuple[set[str], set[str], list[tuple[str, int]]]]:
    """Of every file its words, its keywords and keys, and how many places each call fills."""
    for root in (chapters.ROOT / name for name in USERS):
        for path in [root] if root.is_file() else [*root.rglob("*.py"), *root.rglob("*.md")]:
            text, nodes = path.read_text(encoding="utf-8"), list[ast.AST]()
            for cell in CELL.findall(text) if path.suffix == ".md" else [text]:
                with suppress(SyntaxError):  # part of a cell, a command of IPython
                    nodes += ast.walk(ast.parse(cell))
            words = {word(n) for n in nodes} | {n.name for n in nodes if isinstance(n, ast.alias)}
            keys = {n.arg for n in nodes if isinstance(n, ast.keyword)}
            keys |= {getattr(k, "value", "") for n in nodes for k in getattr(n, "keys", ())}
            calls = [n for n in nodes if isinstance(n, ast.Call)]
            yield words, keys, [(word(call.func), len(call.args)) for call in calls]


def public() -> dict[str, object]:
    """The public names of the packages, with what they name."""
    drawn = {n: f for n, f in vars(plots).items() if getattr(f, "__module__", "") == plots.__name__}
    named = {name: getattr(room, name) for room in (fm, fb) for name in room.__all__}
    return {n: value for n, value in (named | drawn).items() if not n.startswith("_")}


def options(value: object) -> dict[str, int]:
    """The optional parameters of a function or class with their places; not of records."""
    if not getattr(value, "__module__", "").startswith("fedlab"):
        return {}  # a class of a library
    record = dataclasses.is_dataclass(value) and not hasattr(value, "step")
    if (record and value is not fm.LocalSGD) or not callable(value) or Exception in bases(value):
        return {}
    given = enumerate(inspect.signature(value).parameters.values())
    return {one.name: k for k, one in given if one.default is not one.empty and one.name[0] != "_"}


def bases(value: object) -> tuple[type, ...]:
    """The classes that a class inherits from."""
    return value.__mro__[1:] if isinstance(value, type) else ()


def unused() -> Iterator[str]:
    """``name`` or ``name.option``, of those that nothing uses."""
    files, names = [*uses()], public()
    for name, value in names.items():
        if not any(name in words for words, *_ in files):
            yield name
            continue
        # What a class inherits or refines is asked of the class that has it first.
        inherited = {option for base in bases(value) for option in options(base)}
        family = {name} | {n for n, other in names.items() if value in bases(other)}
        users = [file for file in files if family & file[0]]
        keys = set().union(*(keys for _, keys, _ in users))
        filled = max((n for _, _, calls in users for to, n in calls if to in family), default=0)
        for option, place in options(value).items():
            if option not in inherited | keys and place >= filled:
                yield f"{name}.{option}"


if __name__ == "__main__":
    surplus = sorted(set(unused()) - set(ALLOWED))
    print("\n".join(surplus) or "every public name and option has a user")
    sys.exit(bool(surplus))
