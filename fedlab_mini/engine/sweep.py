"""Sweep: independent tasks through joblib, on this machine or where its backend in force runs them.

Chapter 11 shows it. Below: checks. Above: simulate, compare, studies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from joblib import Parallel, effective_n_jobs
from joblib.parallel import get_active_backend

from ..checks import whole


def spread(tasks: Iterable, n_jobs: int | None = None, ordered: bool = True) -> Iterator[Any]:
    """Results of ``joblib.delayed`` calls, one after another, so that each can be kept at once.

    n_jobs   processes, -1 for all; None: one, or what ``joblib.parallel_config`` says
    ordered  in the order of the tasks, or as they end
    raises   ValueError for 0 processes, TypeError for what is no whole number
    Where a backend hands over whole lists only (Ray's), a list is one task a worker.
    """
    if n_jobs is not None and whole("n_jobs", n_jobs, -1024, 1024) == 0:
        raise ValueError("n_jobs: expected a number of processes, -1 for all, got 0")
    if not getattr(get_active_backend()[0], "supports_return_generator", False):
        return _lists(iter(tasks), n_jobs)
    results_as = "generator" if ordered else "generator_unordered"
    return Parallel(n_jobs=n_jobs, return_as=results_as)(tasks)


def _lists(tasks: Iterator, n_jobs: int | None) -> Iterator[Any]:
    """Results list by list, where nothing comes back before a whole list is done."""
    with Parallel(n_jobs=n_jobs) as workers:  # started once for all lists
        while task_list := list(islice(tasks, effective_n_jobs(n_jobs))):
            yield from workers(task_list)
