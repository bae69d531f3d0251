"""Progress: shown where somebody looks, silent elsewhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from fedlab_mini.engine import progress

KERNEL = SimpleNamespace(get_ipython=lambda: SimpleNamespace(config={"IPKernelApp": {}}))
SHELL = SimpleNamespace(get_ipython=lambda: SimpleNamespace(config={}))


@pytest.mark.parametrize(
    ("ipython", "terminal", "disabled", "expected"),
    [
        (None, False, "", False),
        (None, True, "", True),
        (None, True, "1", False),
        (SHELL, False, "", False),
        (KERNEL, False, "", True),
        (KERNEL, False, "1", False),
    ],
)
def test_a_bar_shows_where_somebody_looks(monkeypatch, ipython, terminal, disabled, expected):
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    assert progress.watched() is expected
