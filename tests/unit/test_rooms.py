"""The rooms of the packages: imports run downwards only, and nobody borrows what is not public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import chapters

ORDER = (  # whoever stands in a line may import from the lines above it
    ("checks", "streams"),
    ("worlds",),
    ("engine",),
    ("games",),
    ("methods",),
    ("judge",),
    ("show",),
    ("command", "", "__main__"),  # the package itself, too, which names what is public
    ("fedlab_bench", "fedlab_flower"),
    ("studies",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
HEAVY = {"pandas", "matplotlib", "sklearn", "scipy.stats", "scipy.optimize", "anywidget"}
PACKAGE = [p for name in chapters.PACKAGES for p in sorted((chapters.ROOT / name).rglob("*.py"))]
FILES = [*PACKAGE, *sorted(chapters.ROOT.glob("studies/*.py"))]


@dataclass(frozen=True)
class Import:
    """One name that a file takes from a module; of ``import module`` the name is empty."""

    file: str
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.file} takes {self.name or 'all'} from {self.module}"


def dotted(path: Path) -> str:
    """A file's module, such as ``fedlab_mini.engine.train``."""
    parts = path.relative_to(chapters.ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """Where a module lies: its first part below ``fedlab_mini``, or its package."""
    package, *below = module.split(".")
    return package if package != "fedlab_mini" else below[0] if below else ""


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file, those inside functions too; relative ones by their whole name."""
    here = dotted(path)
    folder = here if path.name == "__init__.py" else here.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (Import(here, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = folder.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (start, node.module)))
            for alias in node.names:
                inside = f"{module}.{alias.name}"
                known = any(dotted(file) == inside for file in FILES)
                yield Import(here, inside, "") if known else Import(here, module, alias.name)


ALL = [found for path in FILES for found in imports(path)]
OWN = [i for i in ALL if i.module.split(".")[0] in (*chapters.PACKAGES, "studies")]


def test_imports_run_downwards_only():
    """The version apart, which stands where packages have it and is part of a fingerprint."""
    mine = [i for i in OWN if i.name != "__version__"]
    assert [str(i) for i in mine if LEVEL[room(i.module)] > LEVEL[room(i.file)]] == []
    sides = {"fedlab_bench", "fedlab_flower"}  # which do not know each other
    assert [str(i) for i in mine if {room(i.module), room(i.file)} == sides] == []
    taken = {room(i.module) for i in OWN if i.file == "fedlab_mini.engine.plain"}
    assert taken <= {"checks", "streams", "worlds", "engine"}  # the readable loop needs little


def test_what_is_imported_is_declared():
    """A package that only another one brings along may be gone tomorrow."""
    text = (chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.match(r"[\w.-]+", line)[0].lower() for lines in lists for line in lines}
    sources = packages_distributions()
    outside = {i.module.split(".")[0] for i in ALL} - sys.stdlib_module_names
    for name in sorted(outside - {*chapters.PACKAGES, "studies"}):
        assert declared & {x.lower() for x in sources.get(name, [name])}, f"{name} is not declared"


def test_the_package_starts_without_what_takes_long_to_import_and_may_not_be_needed():
    program = "import sys, fedlab_mini; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
