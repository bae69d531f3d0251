"""The processes of a sheet that is being marked: which they are, what they hold, and their end.

Each inherits its sheet's name in the environment, so one that starts a session of its own, or whose
parent has ended, is found too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil

OWNER = "FEDLAB_SHEET"  # names a sheet in the environment of every process that it starts


def end(process: subprocess.Popen[bytes], owner: str) -> None:
    """End a sheet's processes, also those that it has left behind in sessions of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for other in owned(owner):
        with contextlib.suppress(psutil.Error):
            other.kill()


def owned(owner: str) -> Iterator[psutil.Process]:
    """Every process that a sheet has started and that runs still."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(OWNER) == owner:
                yield process


def held(process: psutil.Process) -> int:
    """Bytes of memory of a process; what several share counts once in all."""
    with contextlib.suppress(psutil.Error, OSError):
        info = process.memory_full_info()
        return int(getattr(info, "pss", info.uss))
    return 0
