"""Sweeps on workers: measured wall time over what the model of chapter 11 says, and CPU seconds.

Twenty trainings of four lengths on one and on two Dask workers. Wall time here, not CPU time,
because a schedule is what is measured; the model gets the wall times that the tasks had.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from importlib.util import find_spec

import joblib

import fedlab_mini as fm

from .retraining import digits
from .timing import Result

NAME = "sweeps"
TASKS = [5, 10, 20, 40] * 5  # rounds
Seconds = tuple[float, float]  # wall and CPU


def training(rounds: int) -> Seconds:
    """A training, or only a journey without rounds."""
    start, used = time.perf_counter(), time.process_time()
    if rounds:
        fm.train(digits(), fm.mlp(64, 32, 10), fm.FedAvg(), rounds=rounds)
    return time.perf_counter() - start, time.process_time() - used


def sweep(tasks: Sequence[int]) -> tuple[float, list[Seconds]]:
    """Wall seconds of all tasks, and the seconds of each."""
    start = time.perf_counter()
    each = joblib.Parallel(batch_size=1)(joblib.delayed(training)(rounds) for rounds in tasks)
    return time.perf_counter() - start, each


def finished(times: Sequence[float], workers: int, sending: float) -> float:
    """When all is done: whoever is free takes the next task (chapter 11)."""
    free, sent = [0.0] * workers, 0.0
    for seconds in times:
        sent += sending
        heapq.heappush(free, max(sent, heapq.heappop(free)) + seconds)
    return max(free)


def run(repetitions: int) -> list[Result]:
    """Twenty trainings on one and on two workers: the wall time beside the model's."""
    if find_spec("distributed") is None:
        print("Dask: not installed; make setup WITH=flower", flush=True)
        return []
    from distributed import Client

    here = {rounds: min(training(rounds)[1] for _ in range(3)) for rounds in TASKS[:4]}
    alone, results = sum(here[rounds] for rounds in TASKS), []
    plain = {"dashboard_address": ":0", "silence_logs": "ERROR"}
    with Client(n_workers=2, threads_per_worker=1, **plain) as cluster:
        addresses = list(cluster.scheduler_info()["workers"])
        for workers in (1, 2):
            walls, used = [], []
            with joblib.parallel_config(backend="dask", workers=addresses[:workers]):
                sweep([1] * 4)  # workers load what they need
                for _ in range(repetitions):
                    sending = sweep([0] * 20)[0] / 20
                    wall, each = sweep(TASKS)
                    walls.append(wall / finished([own for own, _ in each], workers, sending))
                    used.append(sum(cpu for _, cpu in each) / alone)
            what = f"20 trainings, {workers} Dask worker{'s' * (workers > 1)}"
            results.append(Result(NAME, f"{what}: wall time / the model's", tuple(walls)))
            results.append(Result(NAME, f"{what}: CPU seconds / alone in one process", tuple(used)))
    return results
