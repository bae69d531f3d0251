"""What takes long to import is imported when it is needed, by everybody alike."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pandas", "matplotlib", "sklearn", "scipy.stats", "scipy.optimize", "anywidget")


def test_the_package_starts_without_what_it_may_not_need() -> None:
    program = "import sys, fedlab_mini; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(HEAVY) & set(done.stdout.split())
