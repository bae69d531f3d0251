"""Sweep: independent tasks through joblib, on this machine or wherever joblib's backend runs them.

Chapter 11 shows it. Compared with ``joblib.Parallel``, results come one after another with every
backend, so that each can be saved at once, and tasks are cut into blocks that fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from joblib import Parallel, effective_n_jobs
from joblib.parallel import get_active_backend
from torch import Tensor

from ..worlds.federation import Federation
from .minibatches import LocalSGD
from .model import Model

BLOCK_BYTES = 64 << 20  # for the global models and steps of one block of runs
# The most runs in a block; if a process is killed, it loses one block.
RUNS = 128
# The same if no client uses a part of its data: 256 coalitions are then tasks for 8 workers.
WHOLE_RUNS = 32


def spread(tasks: Iterable[Any], n_jobs: int | None = None, ordered: bool = True) -> Iterator[Any]:
    """Results of ``joblib.delayed`` calls, one after another, so that each can be saved at once.

    n_jobs   processes, -1 for all; None: one, or what ``joblib.parallel_config`` says
    ordered  whether results come in the order of the tasks, or in the order in which they finish
    If a backend returns whole lists only (as Ray's does), each list has one task per worker.
    """
    if not getattr(get_active_backend()[0], "supports_return_generator", False):
        return _lists(iter(tasks), n_jobs)
    results_as = "generator" if ordered else "generator_unordered"
    return Parallel(n_jobs=n_jobs, return_as=results_as)(tasks)


def _lists(tasks: Iterator[Any], n_jobs: int | None) -> Iterator[Any]:
    """Results list by list, for backends that return nothing before a list is done."""
    with Parallel(n_jobs=n_jobs) as workers:  # started once for all lists
        while task_list := list(islice(tasks, effective_n_jobs(n_jobs))):
            yield from workers(task_list)


def block_size(
    fed: Federation, net: Model, theta: Tensor, participation: Tensor, local: LocalSGD
) -> int:
    """How many runs a block has, so that its memory is bounded and there are enough tasks.

    The number of workers does not matter, so that it does not change the bytes of a result.
    """
    run_bytes = 3 * net.P * theta.element_size()  # its model, its step, the step before
    # Clients that use all their data have the same minibatches in every run.
    if ((participation > 0) & (participation < 1)).any():
        # Different shares have different minibatches.
        run_bytes += 24 * len(fed.y) * local.epochs
        most = RUNS
    else:
        most = WHOLE_RUNS
    return min(most, max(1, BLOCK_BYTES // run_bytes))
