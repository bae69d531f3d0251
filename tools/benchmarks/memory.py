"""Peak memory of ``fm.simulate`` while the number of runs times clients grows tenfold; memory and
CPU time of a training of ten clients per round, while the number of all clients grows to 100,000.

Each size runs in a process of its own; what counts is the peak above the memory held before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from .timing import Result
from .worker import Worker

NAME = "memory"
SAMPLES, GROWTH = 20, 1.5
MODEL, MANY, ROUNDS = [64, 32, 10], 100_000, 300
SIZES = {(64, 32, 10): ((500, 20), (1000, 100)), (784, 200, 10): ((40, 10), (200, 20))}


def simulation(*, widths: list[int], runs: int, clients: int) -> Callable[[], dict]:
    """A work for ``worker``: one simulated round of all clients in every run."""
    import torch

    import fedlab_mini as fm

    fed, net, local = random_federation(widths, clients)

    def repeat() -> dict:
        before = peak()
        fm.simulate(fed, net, torch.ones(runs, 1, clients, dtype=torch.bool), local=local)
        return {"added": peak() - before, "stack": runs * clients * net.P * 4 / (1 << 20)}

    return repeat


def training(*, widths: list[int], clients: int) -> Callable[[], dict]:
    """A work for ``worker``: a training of ten clients per round, beside one of a single round."""
    import fedlab_mini as fm

    fed, net, local = random_federation(widths, clients)

    def cost(rounds: int) -> tuple[float, float]:
        """CPU seconds of a training, and the most memory that the process holds meanwhile."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        began = time.process_time()
        fm.train(fed, net, fm.FedAvg(per_round=10), rounds=rounds, local=local)
        return time.process_time() - began, peak()

    def repeat() -> dict:
        (start, one), (seconds, held) = cost(1), cost(ROUNDS + 1)
        milliseconds = 1000 * (seconds - start) / ROUNDS
        return {"added": held - one, "milliseconds": milliseconds, "held": held}

    return repeat


def random_federation(widths: list[int], clients: int) -> tuple:
    """Clients with random samples, a perceptron, and one epoch of local training."""
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
    return fed, fm.mlp(*widths), fm.LocalSGD(epochs=1, batch=SAMPLES, lr=0.1)


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
    """What simulate() adds for ten times the runs and clients, and train() for 100,000 clients."""
    results = trainings(repetitions)
    for widths, sizes in SIZES.items():
        model = "-".join(map(str, widths))
        added: dict[tuple[int, int], list[float]] = {size: [] for size in sizes}
        for _ in range(repetitions):
            for size in sizes:
                given = {"widths": widths, "runs": size[0], "clients": size[1]}
                work = "tools.benchmarks.memory:simulation"
                with Worker(sys.executable, work, **given) as worker:
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


def trainings(repetitions: int) -> list[Result]:
    """Ten clients per round of a hundred and of 100,000: memory, and CPU time of a round."""
    added, held, ratios = [], [], []
    work = "tools.benchmarks.memory:training"
    for _ in range(repetitions):
        times = {}
        for clients in (100, MANY):
            with Worker(sys.executable, work, widths=MODEL, clients=clients) as worker:
                answer = worker.run()
            times[clients] = answer["milliseconds"]
        ratios.append(times[MANY] / times[100])
        held.append(answer["held"])
        # Beside few data, since what looks at all data once hides what the rounds add.
        with Worker(sys.executable, work, widths=[1, 2], clients=MANY) as worker:
            added.append(worker.run()["added"])
    what = f"10 of {MANY:,} clients per round, {ROUNDS} rounds"
    return [
        Result(NAME, f"{what}: what they add to the first's memory", tuple(added), unit="MiB"),
        Result(NAME, f"{what}: held, data included", tuple(held), 2048, True, "MiB"),
        Result(NAME, f"{what}: CPU of a round, to 10 of 100", tuple(ratios), 1.5, True),
    ]
