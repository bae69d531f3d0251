"""An autograder for a lab: the book's own checks in a file that otter-grader and Gradescope take.

With `alone`, it also contains what a lab imports of this book, and the versions that the book is
tested with.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import tomllib
import warnings
from pathlib import Path

import nbformat

import chapters
import labs


def archive(lab: str, target: Path, *, alone: bool = False) -> Path:
    """The autograder for one lab; with `alone` also what it imports, as Gradescope needs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that otter loads
        from otter.generate import main as generate

    stored = nbformat.read(labs.STUDENT / f"{lab}.ipynb", as_version=4)
    studies = any("import studies" in cell.source.splitlines() for cell in stored.cells)
    parts = [*chapters.PACKAGES] if alone else []
    parts += ["studies", "data/results", "data/ledger.csv"] if alone and studies else []
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in stored.metadata["otter"]["tests"].items():
            chapters.write_atomic(Path("tests", f"{name}.py"), text)
        config = {"assignment_name": lab, "show_all_public": True}
        Path("otter_config.json").write_text(json.dumps(config), encoding="utf-8")
        if alone:
            project = tomllib.loads((chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            needs = pinned(project["project"]["dependencies"])
            Path("requirements.txt").write_text("\n".join(needs), encoding="utf-8")
            skip = shutil.ignore_patterns("__pycache__", "parts")
            for part in parts:
                if (chapters.ROOT / part).is_dir():
                    shutil.copytree(chapters.ROOT / part, part, ignore=skip)
                else:
                    shutil.copy(chapters.ROOT / part, part)
        files = list(dict.fromkeys(Path(part).parts[0] for part in parts))
        generate(output_path=str(target), files=files, python_version="3.12", no_environment=True)
    return target


def pinned(needs: list[str]) -> list[str]:
    """These requirements, and the kernel's, in the versions that the book is tested with."""
    text = (chapters.ROOT / "requirements.txt").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^([\w.-]+)(==[^\s;]+)", text, re.MULTILINE))
    names = [re.split(r"[^\w.-]", need)[0] for need in needs]
    return [name + versions[name] for name in (*names, "ipython", "ipykernel")]
