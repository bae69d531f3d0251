"""Without Flower, Dask and Ray, tests that need them are left out with a word."""

import re
import subprocess
import sys

import pytest

import chapters

COLLECT = """
import sys
from importlib.metadata import packages_distributions
import pytest

extras = set(sys.argv[1].split(","))
lacking = {module for module, names in packages_distributions().items() if set(names) <= extras}
sys.modules.update(dict.fromkeys(lacking))  # importing one of them is an error
sys.exit(pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def test_what_needs_them_is_left_out_with_a_word():
    pinned = (chapters.ROOT / "requirements-flower.txt").read_text(encoding="utf-8")
    extras = ",".join(re.findall(r"(?m)^([\w.-]+)==", pinned))
    command = [sys.executable, "-c", COLLECT, extras, "tests/flower", "tests/cluster"]
    done = subprocess.run(command, cwd=chapters.ROOT, capture_output=True, text=True, timeout=300)
    assert "error" not in done.stdout.lower(), done.stdout
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
