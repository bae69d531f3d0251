"""Progress: a bar for long work, on a terminal or in a notebook only.

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
    """Whether a notebook runs this."""
    ipython = sys.modules.get("IPython")  # imported by a notebook, not by this package
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def bar(
    steps: Iterable[Any] | None,
    what: str,
    total: int | None = None,
    done: int = 0,
    delay: float = 1,
) -> tqdm:
    """A bar over ``steps``, or one to ``update`` by hand; it disappears when the work is done.

    It shows on a terminal or in a notebook, unless TQDM_DISABLE is set.
    delay  seconds before the bar appears, so that short work shows none; 0 for very long steps
    """
    # A remote terminal may report a size of 0, for which tqdm would show no bar.
    columns, lines = (None, None) if in_notebook() else shutil.get_terminal_size()
    shows = in_notebook() or sys.stderr.isatty()
    return tqdm(
        steps,
        desc=what,
        total=total,
        initial=done,
        disable=not shows or bool(os.environ.get("TQDM_DISABLE")),
        leave=False,
        delay=delay,
        ncols=columns,
        nrows=lines,
    )
