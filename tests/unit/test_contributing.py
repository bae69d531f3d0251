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
fm.methods.MyScore = kind
fm.methods.__all__.append("MyScore")
"""


def test_the_printed_strategy_passes_what_every_strategy_owes(tmp_path):
    """Its file and a line in ``methods``: no test names it, and none makes an exception."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (printed,) = (textwrap.dedent(block) for block in blocks if "class MyScore" in block)
    (tmp_path / "my_score.py").write_text(printed, encoding="utf-8")
    (tmp_path / "adds_my_score.py").write_text(ADDS, encoding="utf-8")
    plugins = ["-p", "adds_my_score", "-p", "no:nbval", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *plugins,
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
    assert "skipped" not in found.stdout
