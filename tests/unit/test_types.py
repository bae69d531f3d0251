"""A type checker accepts the package and README's examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_and_the_readmes_examples_have_no_type_error(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "fedlab_mini", str(tmp_path / "example.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
