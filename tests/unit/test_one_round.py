"""What a round passes, and what a reader reads to understand one: few files, named in one place."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import pytest

import fedlab_mini as fm

PACKAGE = Path(fm.__file__).parent
MOST_FILES, MOST_CALLS, MOST_LINES = 7, 90, 1_360
PINNED = (3, 11)  # of .ci/run: other versions of Python call comprehensions otherwise


class Watched(fm.CGSV):
    """CGSV that notes which functions Python calls between the choices of rounds 2 and 3."""

    def select(self, server, state, t):
        if t == 2:
            NOTED.clear()
            sys.setprofile(note)
        if t == 3:
            sys.setprofile(None)
        return super().select(server, state, t)


NOTED: list[Path] = []  # the file of each call


def note(frame, event, argument):
    if event == "call":
        NOTED.append(Path(frame.f_code.co_filename))


@pytest.fixture(scope="module")
def calls() -> list[str]:
    """The package's files, one for each call of a function in a round after the first."""
    fed = fm.federation(fm.load("digits"), clients=10, seed=0)
    try:
        fm.train(fed, fm.mlp(64, 32, 10), Watched(), rounds=3)
    finally:
        sys.setprofile(None)
    inside = [path for path in NOTED if path.is_relative_to(PACKAGE)]
    return [path.relative_to(PACKAGE).as_posix() for path in inside]


def to_read() -> list[str]:
    """The files that the package's docstring names, in order."""
    return re.findall(r"[\w/]+\.py", fm.__doc__)


def test_a_round_passes_few_files_and_calls(calls):
    assert {"engine/train.py", "engine/local.py"} < set(calls)
    assert len(set(calls)) <= MOST_FILES, set(calls)
    if sys.version_info[:2] == PINNED:
        assert 40 < len(calls) <= MOST_CALLS, sorted(calls)


def test_a_round_can_be_read():
    assert to_read()[0] == "engine/plain.py"
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert ", ".join(f"`{name}`" for name in to_read()) in readme
    assert sum(code_lines(PACKAGE / name) for name in to_read()) <= MOST_LINES


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def code_lines(path: Path) -> int:
    """Lines that hold a token, docstrings and comments left out."""
    text = path.read_text(encoding="utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = [token for token in tokens if token.type not in skipped and token.string]
    lines = {n for token in held for n in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(node, DOCUMENTED)
            and ast.get_docstring(node) is not None
        ):
            lines -= {*range(body[0].lineno, body[0].end_lineno + 1)}
    return len(lines)


def test_what_a_round_passes_is_what_to_read(calls):
    """Streams of random numbers and the method itself explain themselves by their names."""
    assert set(calls) - {"streams.py", "methods/cgsv.py"} <= set(to_read())
