"""What a round passes, and what a reader reads to understand one: few files, named in one place."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import fedlab_mini as fm

PACKAGE = Path(fm.__file__).parent
MOST_FILES, MOST_LINES = 10, 2040


class Watched(fm.CGSV):
    """CGSV that notes whose functions Python calls between the choices of rounds 2 and 3."""

    def select(self, t):
        if t == 2:
            self._files = {sys._getframe().f_back.f_code.co_filename}  # whoever asks
            sys.setprofile(self._note)
        if t == 3:
            sys.setprofile(None)
        return super().select(t)

    def _note(self, frame, event, argument):
        if event == "call":
            self._files.add(frame.f_code.co_filename)


def files_of_a_round(make_fed) -> list[str]:
    """The files of the package of which a function is called in one round after the first."""
    strategy = Watched()
    try:
        fm.train(make_fed((9, 4, 20)), fm.mlp(6, 4, 3), strategy, rounds=3)
    finally:
        sys.setprofile(None)
    paths = [Path(name) for name in strategy._files]
    inside = [path.relative_to(PACKAGE) for path in paths if path.is_relative_to(PACKAGE)]
    return sorted(path.as_posix() for path in inside)


def to_read() -> list[str]:
    """The files that the package's docstring names, in order."""
    return re.findall(r"[\w/]+\.py", fm.__doc__)


def test_a_round_passes_few_files(make_fed):
    files = files_of_a_round(make_fed)
    assert "engine/train.py" in files
    assert "engine/updates.py" in files
    assert len(files) <= MOST_FILES, files


def test_a_round_can_be_read():
    assert to_read()[0] == "engine/plain.py"
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert ", ".join(f"`{name}`" for name in to_read()) in readme
    lines = {name: len((PACKAGE / name).read_text().splitlines()) for name in to_read()}
    assert sum(lines.values()) <= MOST_LINES, lines


def test_what_a_round_passes_is_what_to_read(make_fed):
    """Checks, streams of random numbers, the history that a round is noted in, and the method
    itself explain themselves by their names.
    """
    known = {"checks.py", "streams.py", "engine/history.py", "methods/cgsv.py"}
    assert set(files_of_a_round(make_fed)) - known <= set(to_read())
