"""The cell for Colab in the FAQ brings all that chapters import."""

import ast
import re
import sys
import tomllib

import pytest

import chapters

ROOT = chapters.ROOT
CELL = re.search(r"```text\n(.*?)```", (ROOT / "book/faq.md").read_text("utf-8"), re.DOTALL)[1]
NAMES = {"scikit-learn": "sklearn"}


def test_the_cell_installs_the_package_and_finds_the_studies():
    clone, install, move = (
        line[1:].split() for line in CELL.splitlines() if line.startswith(("!", "%"))
    )
    assert clone[:2] == ["git", "clone"]
    assert install[:2] == ["pip", "install"]
    assert f"./{clone[-1]}" in install
    folder = ROOT / move[-1].removeprefix(f"{clone[-1]}/")
    assert folder == chapters.NOTEBOOKS
    assert (folder / ".." / "studies" / "__init__.py").exists()
    assert 'sys.path.append("..")' in CELL


@pytest.mark.parametrize("source", chapters.numbered(), ids=lambda source: source.stem)
def test_chapters_import_nothing_else(source):
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    brought = [re.match(r"[\w-]+", line)[0] for line in [*wanted, "myst-nb"]]
    known = {NAMES.get(name, name.replace("-", "_")) for name in brought}
    known |= {*chapters.PACKAGES, "studies", "IPython", *sys.stdlib_module_names}
    if source.stem.startswith("11"):
        known |= {"flwr", "cloudpickle", "distributed", "contributions", "run"}  # its own
    code = [cell.source for cell in chapters.read_text(source).cells if cell.cell_type == "code"]
    lines = [line for text in code for line in text.splitlines() if not line.startswith(("!", "%"))]
    found = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    assert found - known == set()
