"""Chapters import nothing but what the package and the cell for Colab in the FAQ bring."""

import ast
import re
import sys
import tomllib

import chapters

NAMES = {"scikit-learn": "sklearn"}
OWN = {"flwr", "cloudpickle", "distributed", "contributions", "run"}  # of chapter 11


def test_chapters_import_nothing_that_their_package_does_not_bring():
    project = tomllib.loads((chapters.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    brought = [re.match(r"[\w-]+", line)[0] for line in [*project["dependencies"], "myst-nb"]]
    known = {NAMES.get(name, name.replace("-", "_")) for name in brought}
    known |= {*chapters.PACKAGES, "studies", "IPython", *sys.stdlib_module_names}
    for source in chapters.numbered():
        found = set()
        for cell in chapters.read_text(source).cells:
            if cell.cell_type == "code":
                code = re.sub(r"^[!%].*$", "", cell.source, flags=re.MULTILINE)
                for node in ast.walk(ast.parse(code)):
                    if isinstance(node, ast.Import):
                        found |= {name.name.split(".")[0] for name in node.names}
                    elif isinstance(node, ast.ImportFrom) and node.module:
                        found.add(node.module.split(".")[0])
        assert found <= (known | OWN if source.stem.startswith("11") else known), source


def test_the_cell_for_colab_installs_the_checkout_and_moves_to_where_studies_are_found():
    cell = re.search(
        r"```text\n(.*?)```", (chapters.ROOT / "book/run.md").read_text("utf-8"), re.S
    )[1]
    clone, install, move = (line.split() for line in cell.splitlines() if line[:1] in ("!", "%"))
    assert f"./{clone[-1]}" in install
    assert chapters.ROOT / move[-1].removeprefix(f"{clone[-1]}/") == chapters.NOTEBOOKS
    assert 'sys.path.append("..")' in cell
