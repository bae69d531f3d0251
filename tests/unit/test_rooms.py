"""The rooms of the packages: imports run downwards only, what is imported is declared and quick."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import chapters

ORDER = (  # whoever stands in a line may import from the lines above it
    ("parse", "keep", "streams", "version"),
    ("worlds",),
    ("engine",),
    ("games",),
    ("methods",),
    ("judge",),
    ("show",),
    ("gate",),
    ("pay",),
    ("command", "", "__main__"),  # the package itself, too, which names what is public
    ("fedlab_bench", "fedlab_flower"),
    ("studies",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
HEAVY = {"pandas", "matplotlib", "sklearn", "scipy.stats", "scipy.optimize", "anywidget"}
PACKAGE = [p for name in chapters.PACKAGES for p in sorted((chapters.ROOT / name).rglob("*.py"))]
FILES = [*PACKAGE, *sorted(chapters.ROOT.glob("studies/*.py"))]


def dotted(path: Path) -> str:
    """A file's module, such as ``fedlab_mini.engine.train``."""
    parts = path.relative_to(chapters.ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """Where a module lies: its first part below ``fedlab_mini``, or its package."""
    if module == "fedlab_mini.methods":  # it names what is public, as the package itself does
        return ""
    package, *below = module.split(".")
    return package if package != "fedlab_mini" else below[0] if below else ""


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The file and a module it imports, inside functions too; relative ones by their whole name."""
    here = dotted(path)
    folder = here if path.name == "__init__.py" else here.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((here, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = folder.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (start, node.module)))
            # The version stands where packages have it, and is part of a fingerprint.
            yield from (
                (here, module if "." in module else f"{module}.{alias.name}")
                for alias in node.names
                if alias.name != "__version__"
            )


ALL = [found for path in FILES for found in imports(path)]
OWN = [i for i in ALL if i[1].split(".")[0] in (*chapters.PACKAGES, "studies")]


def test_imports_run_downwards_only():
    sides = {"fedlab_bench", "fedlab_flower"}  # which do not know each other
    for file, module in OWN:
        assert LEVEL[room(module)] <= LEVEL[room(file)], f"{file} takes {module}"
        assert {room(module), room(file)} != sides
        if file == "fedlab_mini.engine.plain":  # the readable loop needs little
            assert room(module) in {"parse", "streams", "worlds", "engine"}


def test_what_is_imported_is_declared():
    """A package that only another one brings along may be gone tomorrow."""
    text = (chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.match(r"[\w.-]+", line)[0].lower() for lines in lists for line in lines}
    sources = packages_distributions()
    outside = {module.split(".")[0] for _, module in ALL} - sys.stdlib_module_names
    for name in sorted(outside - {*chapters.PACKAGES, "studies"}):
        assert declared & {x.lower() for x in sources.get(name, [name])}, f"{name} is not declared"


def test_the_package_starts_without_what_takes_long_to_import_and_may_not_be_needed():
    program = "import sys, fedlab_mini; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
