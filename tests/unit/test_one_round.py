"""What a round passes is what a reader reads to understand one: few files, named in one place."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import fedlab_mini as fm

PACKAGE = Path(fm.__file__).parent
MOST_FILES = 12  # streams of random numbers and the method among them


def test_a_round_passes_the_few_files_that_the_readme_says_to_read(monkeypatch):
    """Streams of random numbers and the method itself explain themselves by their names."""
    noted: list[Path] = []  # the file of each call of a function between two choices

    def note(frame, event, argument):
        if event == "call":
            noted.append(Path(frame.f_code.co_filename))

    def select(self, server, state, t):
        sys.setprofile(note if t == 2 else None)
        return fm.FedAvg.select(self, server, state, t)

    # Not a subclass: a stranger's strategy passes the gate, too.
    monkeypatch.setattr(fm.CGSV, "select", select, raising=False)
    fed = fm.federation(fm.load("digits"), clients=10, seed=0)
    try:
        fm.train(fed, fm.mlp(64, 32, 10), fm.CGSV(), rounds=3)
    finally:
        sys.setprofile(None)
    calls = [path.relative_to(PACKAGE) for path in noted if path.is_relative_to(PACKAGE)]
    files = {path.as_posix() for path in calls}
    assert {"engine/train.py", "engine/local.py"} < files
    assert len(files) <= MOST_FILES, files
    to_read = re.findall(r"[\w/]+\.py", fm.__doc__)
    assert files - {"streams.py", "methods/cgsv.py"} <= set(to_read)
    page = (PACKAGE.parent / "book" / "api.md").read_text(encoding="utf-8")
    assert ", ".join(f"`{name}`" for name in to_read) in page
