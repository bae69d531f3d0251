"""Peak memory of ``fm.simulate`` while the number of runs times clients grows.

Each size runs in a process of its own; what counts is the peak above the memory held before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from .timing import Result
from .worker import Worker

NAME = "memory"
SAMPLES, MIB = 20, 1 << 20
SIZES = {(64, 32, 10): ((100, 10), (1000, 10), (1000, 100)), (784, 200, 10): ((20, 10), (200, 50))}


def simulation(*, widths: list[int], runs: int, clients: int) -> Callable[[], dict]:
    """A work for ``worker``: one simulated round of all clients in every run."""
    import resource

    import torch

    import fedlab_mini as fm

    generator = torch.Generator().manual_seed(0)

    def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(count, widths[0], generator=generator)
        return x, torch.randint(0, widths[-1], (count,), generator=generator)

    datasets = [samples(SAMPLES) for _ in range(clients)]
    fed = fm.Federation.from_datasets(datasets, validation=samples(200), test=samples(1))
    net, local = fm.mlp(*widths), fm.LocalSGD(epochs=1, batch=SAMPLES, lr=0.1)

    def peak() -> float:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / MIB if sys.platform == "darwin" else most / 1024

    def repeat() -> dict:
        before = peak()
        fm.simulate(fed, net, torch.ones(runs, 1, clients, dtype=torch.bool), local=local)
        return {"before": before, "added": peak() - before}

    return repeat
