"""Sweeps: results one by one from any of joblib's backends, and what a number of processes is."""

from __future__ import annotations

import threading
import time

import joblib
import pytest

from fedlab_mini.engine.sweep import spread


def slow_first(i: int) -> int:
    """The first task ends last, or nearly so: the order of the results must not depend on it."""
    time.sleep(0.5 if i == 0 else 0)
    return i


@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("loky", 2), ("threading", None), ("multiprocessing", -1)]
)  # the last: lists
def test_results_come_in_the_order_of_the_tasks(backend, n_jobs):
    with joblib.parallel_config(backend, n_jobs=2):
        assert list(spread(map(joblib.delayed(slow_first), range(5)), n_jobs)) == [0, 1, 2, 3, 4]


def test_a_result_is_there_before_the_last_task_is_taken():
    taken, read = [], threading.Event()

    def work(i: int) -> int:
        """All but the first wait until its result is read; if it is not, they end all the same."""
        _ = i and read.wait(1)
        return i

    def tasks():
        for i in range(60):
            taken.append(i)
            yield joblib.delayed(work)(i)

    with joblib.parallel_config("threading", n_jobs=2):
        found = spread(tasks())
        assert next(found) == 0
        read.set()
        assert len(taken) < 60
        assert list(found) == list(range(1, 60))


def test_who_ends_first_is_not_held_back():
    ended = threading.Event()

    def work(i: int) -> int:
        """The first waits for the last."""
        _ = ended.wait(60) if i == 0 else ended.set() if i == 3 else None
        return i

    with joblib.parallel_config("threading", n_jobs=2):
        tasks = map(joblib.delayed(work), range(4))
        assert list(spread(tasks, ordered=False)) == [1, 2, 3, 0]
