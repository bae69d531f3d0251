"""``python -m tools.benchmarks [names] [--repetitions N] [--json FILE]``: run, print the table."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its threads

import torch

from fedlab_mini.command import writable

from . import coalitions, engine, retraining, shapley, sweeps
from .timing import Result, machine, table

MODULES = (engine, coalitions, retraining, shapley, sweeps)
BENCHMARKS = {module.NAME: module for module in MODULES}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--repetitions", type=int, default=5, help="counted turns (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if given.repetitions < 1:
        parser.error(f"--repetitions: expected at least 1, got {given.repetitions}")
    if given.json:  # now, not after an hour of measuring
        writable({"--json": Path(given.json).expanduser()}, [])
    return given


def write(path: str, results: list[Result], where: dict[str, str]) -> None:
    """The figures as JSON: date, machine, versions, every repetition."""
    rows = [
        {
            "benchmark": r.benchmark,
            "what": r.what,
            "target": r.target,
            "at_most": r.at_most,
            "unit": r.unit,
            "median": r.median,
            "values": r.values,
        }
        for r in results
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(where | {"results": rows}, file, indent=1)
        file.write("\n")


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    where = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    print(", ".join(where.values()) + f", {given.repetitions} repetitions", flush=True)
    results: list[Result] = []
    for name in given.names or BENCHMARKS:
        began = time.perf_counter()
        print(f"\n{name}: {BENCHMARKS[name].run.__doc__}", flush=True)
        results += BENCHMARKS[name].run(given.repetitions)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)
    print("\n" + table(results))
    if given.json:
        write(os.path.expanduser(given.json), results, where)


if __name__ == "__main__":
    main()
