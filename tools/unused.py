"""List unused public names, and options of public names, that no page or study has.

    python tools/unused.py

It reads chapters, pages, labs, examples, studies and command lines. An option counts as used if
its name occurs anywhere as a keyword or a key. Exits with 1 if the list has more than
``ALLOWED``. Runs every week.
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
USERS += ("fedlab_bench", "fedlab_flower", "notebooks/labs", "CONTRIBUTING.md")
CELL = re.compile(
    r"^```(?:\{code-cell\}[^\n]*|python)\n(?:---\n.*?---\n|(?::[^\n]*\n)*)(.*?)^```$", re.M | re.S
)
# Closed forms of chapter 2, which the reference shows; what is given by place, or by the package;
# choices of their papers'; like their neighbours.
ALLOWED = re.findall(
    r"\S+",
    """
glove Game.client_epochs Game.shapley
cnn.shape load.part board.families picture.place recorded.purpose noisy_digits.noise_set
skewed_digits.skew removal_curves.fractions score.per
guided.tolerance truncated.tolerance CGSV.gamma0 LabelStandardisation.permutations
SFedAvg.permutations Taylor.order CappedTaylor.order
""",
)


def used() -> tuple[set[str], set[str]]:
    """The last words of all names (``train`` of ``fm.train``), and all keywords and keys."""
    words, keys = set[str](), set[str]()
    for root in (chapters.ROOT / name for name in USERS):
        for path in [root] if root.is_file() else [*root.rglob("*.py"), *root.rglob("*.md")]:
            text, nodes = path.read_text(encoding="utf-8"), list[ast.AST]()
            for cell in CELL.findall(text) if path.suffix == ".md" else [text]:
                with suppress(SyntaxError):  # part of a cell, a command of IPython
                    nodes += ast.walk(ast.parse(cell))
            for node in nodes:
                words |= {getattr(node, "attr", ""), str(getattr(node, "id", ""))}
                words |= {node.name} if isinstance(node, ast.alias) else set()
                keys |= {node.arg or ""} if isinstance(node, ast.keyword) else set()
                keys |= {getattr(key, "value", "") for key in getattr(node, "keys", ())}
    return words, keys


def options(value: object) -> list[str]:
    """The optional parameters of a function or class, except those of records."""
    record = dataclasses.is_dataclass(value) and not hasattr(value, "step")
    own = getattr(value, "__module__", "").startswith("fedlab") and callable(value)
    own &= not (isinstance(value, type) and issubclass(value, Exception))
    if not own or (record and value is not fm.LocalSGD):
        return []
    given = inspect.signature(value).parameters.values()
    return [one.name for one in given if one.default is not one.empty and one.name[0] != "_"]


def unused() -> Iterator[str]:
    """All unused ``name`` and ``name.option``."""
    words, keys = used()
    named = {name: getattr(room, name) for room in (fm, fm.methods, fb) for name in room.__all__}
    named |= {
        n: f for n, f in vars(plots).items() if getattr(f, "__module__", "") == plots.__name__
    }
    for name, value in named.items():
        if name not in words:
            yield name
        else:
            yield from (f"{name}.{option}" for option in options(value) if option not in keys)


if __name__ == "__main__":
    surplus = sorted({name for name in unused() if name[0] != "_"} - {*ALLOWED})
    print("\n".join(surplus) or "every public name and option has a user")
    sys.exit(bool(surplus))
