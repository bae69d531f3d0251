"""Peak memory of ``fm.simulate`` while the number of runs times clients grows tenfold.

Each size runs in a process of its own; what counts is the peak above the memory held before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from .timing import Result
from .worker import Worker

NAME = "memory"
SAMPLES, GROWTH = 20, 1.5
SIZES = {(64, 32, 10): ((500, 20), (1000, 100)), (784, 200, 10): ((40, 10), (200, 20))}


def simulation(*, widths: list[int], runs: int, clients: int) -> Callable[[], dict]:
    """A work for ``worker``: one simulated round of all clients in every run."""
    import torch

    import fedlab_mini as fm

    generator = torch.Generator().manual_seed(0)

    def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(count, widths[0], generator=generator)
        return x, torch.randint(0, widths[-1], (count,), generator=generator)

    datasets = [samples(SAMPLES) for _ in range(clients)]
    fed = fm.Federation.from_datasets(
        datasets, validation=samples(200), test=samples(1), classes=widths[-1]
    )
    net, local = fm.mlp(*widths), fm.LocalSGD(epochs=1, batch=SAMPLES, lr=0.1)

    def repeat() -> dict:
        before = peak()
        fm.simulate(fed, net, torch.ones(runs, 1, clients, dtype=torch.bool), local=local)
        return {"added": peak() - before, "stack": runs * clients * net.P * 4 / (1 << 20)}

    return repeat


def peak() -> float:
    """The most memory that this process has held so far, in MiB.

    Not ``ru_maxrss`` on Linux: a child begins with its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def run(repetitions: int) -> list[Result]:
    """What simulate() adds for some runs and clients, and for ten times as many."""
    results = []
    for widths, sizes in SIZES.items():
        model = "-".join(map(str, widths))
        added: dict[tuple[int, int], list[float]] = {size: [] for size in sizes}
        for _ in range(repetitions):
            for size in sizes:
                given = {"widths": widths, "runs": size[0], "clients": size[1]}
                with Worker(sys.executable, "benchmarks.memory:simulation", **given) as worker:
                    answer = worker.run()
                added[size].append(answer["added"])
        for (runs, clients), values in added.items():
            what = f"{model}, {runs} runs x {clients} clients: added by simulate()"
            results.append(Result(NAME, what, tuple(values), unit="MiB"))
        print(f"{model}: all local models of the larger size at once: {answer['stack']:,.0f} MiB")
        small, large = added.values()
        growth = tuple(b / a for a, b in zip(small, large, strict=True))
        what = f"{model}, ten times the runs x clients: memory"
        results.append(Result(NAME, what, growth, GROWTH, at_most=True))
    return results
