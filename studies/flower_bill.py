"""Cost of Flower: CPU time of a round between processes or in one process, and of a start alone.

Chapter 11 reads these results. Below: training, flower. Beside: growth.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch

import fedlab_mini as fm
from fedlab_mini.worlds.data import DataUnavailable

from .protocols import study
from .study import Row

EXAMPLE = Path(__file__).parents[1] / "examples" / "flower"
CLIENTS, ROUNDS, MANY = 3, 3, 401  # MANY where a round takes milliseconds
NET = fm.mlp(64, 32, 10)
CHILD = """
import sys
from studies import flower_bill
print(*getattr(flower_bill, sys.argv[1])(*map(int, sys.argv[2:])))
"""


def digits() -> fm.Federation:
    """The federation of ``examples/flower``: the last client's labels are flipped."""
    wrong = {CLIENTS - 1: fm.FlipLabels(0.8)}
    fed = fm.federation(fm.load("digits"), clients=CLIENTS, corrupt=wrong, seed=0)
    return fed.to(dtype=torch.float64)


def cpu() -> float:
    """CPU seconds of this process and its children so far, including children that have ended.

    raises  DataUnavailable without Linux' /proc
    """
    parent, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended in the meantime
            words = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parent[pid], used[pid] = int(words[1]), sum(map(int, words[11:15]))
    if os.getpid() not in used:
        raise DataUnavailable("flower-bill: CPU seconds of processes are read from Linux' /proc")
    family = {os.getpid()}
    while more := {pid for pid in parent if parent[pid] in family} - family:
        family |= more
    return sum(used[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


def notebook(seed: int, rounds: int) -> tuple[float, float]:
    """CPU seconds of a process up to the end of the first and the last round of ``fm.train``."""
    seen = []

    def look(*_) -> None:
        seen.append(time.process_time())

    fm.train(digits(), NET, fm.CGSV(), rounds=rounds, seed=seed, watch=look)
    return seen[0], seen[-1]


def start() -> tuple[float]:
    """CPU seconds of a process that loads the example's app and does nothing."""
    runpy.run_path(str(EXAMPLE / "contributions.py"))
    return (time.process_time(),)


def alone(work: Callable[..., tuple[float, ...]], *numbers: int) -> list[float]:
    """The result of a function of this file for these numbers, in a separate process."""
    # In a separate process, because modules that this one has loaded would cost nothing.
    words = [sys.executable, "-c", CHILD, work.__name__, *map(str, numbers)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def processes(seed: int, rounds: int) -> tuple[float, float]:
    """CPU seconds up to the first and the last round of SuperLink, SuperNodes and their apps.

    raises  AssertionError if the scores are not those of ``fm.train``
    """
    before, marks = cpu(), []
    cluster = runpy.run_path(str(EXAMPLE / "run.py"))["cluster"]
    with tempfile.TemporaryDirectory() as name, cluster(Path(name), CLIENTS) as made:
        run = made.submit(clients=CLIENTS, rounds=rounds, seed=seed, timeout=600.0)
        for number in (1, rounds):
            while made.rounds() < number:
                time.sleep(0.1)
                if made.processes["superlink"].poll() is not None:
                    raise RuntimeError("flower-bill: the SuperLink has ended")
            marks.append(cpu() - before)
        made.wait(run, rounds)
        scores = fm.History.load(made.history).scores
    wanted = fm.train(digits(), NET, fm.CGSV(), rounds=rounds, seed=seed).scores
    torch.testing.assert_close(scores, wanted, rtol=0, atol=1e-6)
    return marks[0], marks[1]


def bill_rows(seed: int, *, rounds: int = ROUNDS, many: int = MANY) -> Iterator[Row]:
    """CPU seconds until training begins, of a round, and of a process that is only started.

    rounds  between processes, at least 2    many  in one process, at least 2
    """
    if find_spec("flwr") is None or not EXAMPLE.is_dir():
        raise DataUnavailable(
            "flower-bill: needs Flower and the folder examples/flower; make setup WITH=flower"
        )
    found = {
        "Flower's processes": (processes(seed, rounds), rounds),
        "fm.train": (alone(notebook, seed, many), many),
    }
    for name, ((first, last), trained) in found.items():
        # The difference of two lengths does not include the start.
        each = (last - first) / (trained - 1)
        yield "", name, "seconds to start", first - each
        yield "", name, "seconds a round", each
    yield "", "a ClientApp", "seconds to start", alone(start)[0]


# No probe: its rows are times, and what it measures takes minutes to start.
STUDIES = (replace(study("flower-bill", bill_rows), probe=None),)
