"""CONTRIBUTING.md: the strategy that it prints is one, and gives its users what every one owes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDS = """
import importlib
import pathlib

import fedlab_mini as fm

fm.methods.__path__.append(str(pathlib.Path(__file__).parent))
kind = importlib.import_module("fedlab_mini.methods.my_score").MyScore
fm.MyScore = fm.methods.MyScore = kind
fm.methods.__all__.append("MyScore")
"""


def recipe() -> str:
    """The section on adding a method."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.split("## Add a method")[1].split("\n## ")[0]


def test_the_printed_strategy_passes_what_every_strategy_owes(tmp_path):
    """Its file and a line in ``methods``: no test names it, and none makes an exception."""
    (printed,) = re.findall(r"```python\n(.*?)```", recipe(), flags=re.DOTALL)
    (tmp_path / "my_score.py").write_text(textwrap.dedent(printed), encoding="utf-8")
    (tmp_path / "adds_my_score.py").write_text(ADDS, encoding="utf-8")
    options = ["-q", "-p", "adds_my_score", "-p", "no:nbval", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "-k",
            "MyScore",
            "tests/unit/test_strategies.py",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
    passed = re.search(r"(\d+) passed", found.stdout)
    assert passed
    assert int(passed[1]) > 20
    assert "skipped" not in found.stdout


def test_the_recipe_names_five_files():
    steps = re.findall(r"^(\d)\. `([^`]+)`", recipe(), flags=re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4", "5"]
    for _, path in steps:
        assert (ROOT / path).parent.is_dir()
        assert "NAME" in path or (ROOT / path).exists()
