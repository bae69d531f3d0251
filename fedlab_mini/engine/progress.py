"""Progress: one bar for long work, on a terminal and in a notebook, nowhere else.

Used by train, simulate and whatever else takes long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm


def watched() -> bool:
    """Is somebody looking: a terminal, or a notebook; TQDM_DISABLE says no."""
    if os.environ.get("TQDM_DISABLE"):
        return False
    ipython = sys.modules.get("IPython")  # imported by a notebook, not by us
    shell = getattr(ipython, "get_ipython", lambda: None)()
    in_notebook = "IPKernelApp" in getattr(shell, "config", {})
    return in_notebook or sys.stderr.isatty()


def bar(
    steps: Iterable[Any] | None, what: str, total: int | None = None, done: int = 0
) -> tqdm:
    """A bar over ``steps``, or one to ``update`` by hand; it goes away when the work is done."""
    return tqdm(
        steps,
        desc=what,
        total=total,
        initial=done,
        disable=not watched(),
        leave=False,
        delay=1,
    )
