"""Without Flower, Dask and Ray: the reference page is made, and tests that need them say so.

What only they bring is hidden from a process of its own, whether or not it is installed here.
"""

import re
import subprocess
import sys

import pytest
import yaml

import chapters

HIDE = """
import importlib, sys
from importlib.metadata import packages_distributions

extras = set(sys.argv[1].split(","))
lacking = {module for module, names in packages_distributions().items() if set(names) <= extras}

class Nothing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in lacking:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
"""
PAGE = """
from sphinx.ext.autodoc.mock import mock

with mock(sys.argv[2].split(",")):
    for module in sys.argv[3].split(","):
        importlib.import_module(module)
"""
COLLECT = """
import pytest

sys.exit(pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *sys.argv[2].split(",")]))
"""


def hidden(program: str, *words: list[str]) -> subprocess.CompletedProcess:
    """What a program does where the extras are not installed."""
    pinned = (chapters.ROOT / "requirements-flower.txt").read_text(encoding="utf-8")
    extras = re.findall(r"(?m)^([\w.-]+)==", pinned)
    command = [sys.executable, "-c", HIDE + program, *map(",".join, (extras, *words))]
    return subprocess.run(command, cwd=chapters.ROOT, capture_output=True, text=True, timeout=300)


def test_the_reference_page_is_made():
    settings = yaml.safe_load((chapters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    mocked = settings["sphinx"]["config"]["autodoc_mock_imports"]
    page = (chapters.ROOT / "book" / "api.md").read_text(encoding="utf-8")
    modules = re.findall(r"auto\w+:: (fedlab_flower(?:\.[a-z]\w*(?=\.))?)", page)
    assert "fedlab_flower.ledger" in modules
    done = hidden(PAGE, mocked, modules)
    assert not done.returncode, done.stderr


def test_what_needs_them_is_left_out_with_a_word():
    done = hidden(COLLECT, ["tests/flower", "tests/cluster"])
    assert "error" not in done.stdout.lower(), done.stdout
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
