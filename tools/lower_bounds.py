"""Test the package with the oldest versions that pyproject.toml allows.

    python tools/lower_bounds.py
    python tools/lower_bounds.py torch==2.13.0    with this version of torch

A separate environment is made in a temporary folder, with the requirements of the package and
of its tests; the oracles and the axioms run in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

import chapters

TESTERS = ("pytest", "pytest-xdist", "hypothesis")
TESTS = ("tests/oracles", "tests/properties/test_axioms.py")


def oldest(needs: list[str]) -> list[str]:
    """Each requirement at its lower bound: numpy>=2.0 becomes numpy==2.0."""
    return [re.sub(r">=([^,]+).*", r"==\1", need) for need in needs]


def main() -> None:
    text = (chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    testers = [x for x in project["optional-dependencies"]["test"] if x.startswith(TESTERS)]
    named = {re.split("==", word)[0]: word for word in sys.argv[1:]}
    wanted = [named.get(x.split("==")[0], x) for x in oldest(project["dependencies"])]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = next(p for p in Path(folder).glob("[bS]*/python*") if p.stem == "python")
        for words in (
            ["-m", "pip", "install", "--quiet", *wanted, *testers],
            # deprecation warnings between other packages are not our fault
            ["-m", "pytest", "-q", "-n", "2", "-W", "ignore::DeprecationWarning", *TESTS],
        ):
            if subprocess.run([python, *words], cwd=chapters.ROOT, check=False).returncode:
                sys.exit(f"failed with {', '.join(wanted)}")


if __name__ == "__main__":
    main()
