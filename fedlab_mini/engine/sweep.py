"""Sweep: independent tasks through joblib, on this machine or where its backend in force runs them.

Chapter 11 shows it. Below: checks, model. Above: simulate, compare, studies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from joblib import Parallel, effective_n_jobs
from joblib.parallel import get_active_backend
from torch import Tensor

from ..checks import whole
from ..worlds.federation import Federation
from .minibatches import LocalSGD
from .model import Model

BLOCK_BYTES = 64 << 20  # of global models and their steps that one block of runs may hold
# The most runs of a block: the task of a sweep, and what a kill loses a process.
RUNS = 128
# Where clients take part or not, so that 256 coalitions are tasks for 8 workers.
WHOLE_RUNS = 32


def spread(
    tasks: Iterable[Any], n_jobs: int | None = None, ordered: bool = True
) -> Iterator[Any]:
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


def _lists(tasks: Iterator[Any], n_jobs: int | None) -> Iterator[Any]:
    """Results list by list, where nothing comes back before a whole list is done."""
    with Parallel(n_jobs=n_jobs) as workers:  # started once for all lists
        while task_list := list(islice(tasks, effective_n_jobs(n_jobs))):
            yield from workers(task_list)


def block_size(
    fed: Federation, net: Model, theta: Tensor, participation: Tensor, local: LocalSGD
) -> int:
    """How many runs a block has, so that its memory is bounded and workers have enough to do.

    It does not depend on the workers: one or many, the bytes are the same.
    """
    run_bytes = 3 * net.P * theta.element_size()  # its model, its step, the step before
    # Whole clients have the same minibatches in every run.
    if ((participation > 0) & (participation < 1)).any():
        # Every share has minibatches of its own.
        run_bytes += 24 * len(fed.y) * local.epochs
        most = RUNS
    else:
        most = WHOLE_RUNS
    return min(most, max(1, BLOCK_BYTES // run_bytes))
