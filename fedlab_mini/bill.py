"""Bill: what a sweep costs before it is run, from its tasks' seconds and bytes.

Chapter 11 shows it: when do more workers still help? Beside: sweep, which runs the tasks.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable

from torch import Tensor

from .checks import instance, number, reals, whole


def parcel(task: object) -> int:
    """Bytes that travel to a worker for one ``joblib.delayed`` call: its pickle, data and all."""
    call, given, named = instance("task", task, tuple, "joblib.delayed(f)(...)")  # type: ignore
    instance("task", call, Callable, "joblib.delayed(f)(...)")  # type: ignore[arg-type]
    return len(pickle.dumps((call, given, named)))


def makespan(seconds: Tensor, workers: int, *, send: float = 0.0, start: float = 0.0) -> float:
    """Seconds until the last of a sweep's tasks has ended, simulated event by event.

    seconds  [N] of every task, in the order in which they are sent
    workers  whoever of them is free first gets the next task
    send     seconds that one sender needs for a task: bytes over bandwidth, and a scheduler's work
    start    seconds before anything runs
    returns  start + about max(N send, (sum + N send) / workers), and at most one task longer where
             nothing is sent [Graham 1969]; beyond sum / (N send) workers more of them do not help
    raises   ValueError or TypeError naming the argument
    """
    times = reals("seconds", seconds, ["N"]).tolist()
    if min(times) < 0:
        raise ValueError("seconds: expected numbers of at least 0")
    send, start = number("send", send, 0), number("start", start, 0)
    free = [start] * min(whole("workers", workers), len(times))
    sender = end = start
    for each in times:
        sender = max(sender, free[0]) + send
        end = max(end, sender + each)
        heapq.heapreplace(free, sender + each)
    return end
