"""Deadlines of tests: one that passes on a busy machine means "not run", never "failed".

A deadline only keeps a test from waiting for ever. On a machine that has its processors to itself,
one that passes is a failure; where other programs take them, nobody knows, and the test is named.
"""

from __future__ import annotations

import re
import time

NOT_RUN = "a deadline passed, not run: "  # before the name of a test; tools/check.py looks for it
LATE = re.compile(r"time-?\s?out|timed out|didn't respond in", re.IGNORECASE)
WORK = 0.3  # CPU seconds of a look at the machine
SHARE = 0.5  # of a processor; tests that run two at a time leave each other more


def busy() -> bool:
    """Whether this process gets less than half a processor when it asks for a whole one."""
    start, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < WORK:
        pass
    return SHARE * (time.perf_counter() - start) > WORK


def passed(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, is a deadline that has passed; an assert is none."""
    while error is not None and not isinstance(error, AssertionError):
        kinds = [kind.__name__ for kind in type(error).__mro__]
        if any("Timeout" in kind for kind in kinds) or LATE.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False
