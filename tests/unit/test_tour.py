"""The tour on the page *Install and run* runs as it is printed, in a folder of a reader's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tour_runs_as_printed(tmp_path):
    text = (ROOT / "book" / "run.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert any("fb.compare(" in block for block in blocks)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    # The frame of the comparison is what it prints last.
    assert re.search(r"CGSV +-?[\d.]+\nleave one out +-?[\d.]+", ran.stdout), ran.stdout[-2000:]
