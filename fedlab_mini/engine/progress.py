"""Progress: one bar for long work, on a terminal and in a notebook, nowhere else.

Used by train, simulate and whatever else takes long.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm


def in_notebook() -> bool:
    """Does a notebook run this?"""
    ipython = sys.modules.get("IPython")  # imported by a notebook, not by us
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def watched() -> bool:
    """Is somebody looking: a terminal, or a notebook; TQDM_DISABLE says no."""
    if os.environ.get("TQDM_DISABLE"):
        return False
    return in_notebook() or sys.stderr.isatty()


def bar(
    steps: Iterable[Any] | None,
    what: str,
    total: int | None = None,
    done: int = 0,
    delay: float = 1,
) -> tqdm:
    """A bar over ``steps``, or one to ``update`` by hand; it goes away when the work is done.

    delay  seconds before it shows: short work has none. 0 where a single step takes longer
    """
    # A terminal may say that it has no size, as a remote one does: it would show no bar.
    columns, lines = (None, None) if in_notebook() else shutil.get_terminal_size()
    return tqdm(
        steps,
        desc=what,
        total=total,
        initial=done,
        disable=not watched(),
        leave=False,
        delay=delay,
        ncols=columns,
        nrows=lines,
    )
