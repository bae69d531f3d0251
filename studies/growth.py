"""Growth: the cost of a round and its scores for growing federations and models.

Chapter 11 reads these results. CPU seconds of one core; the fastest of a few tries.
Below: training, methods, tables.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from matplotlib.figure import Figure

from fedlab_bench.methods.gtg import GTGShapley
from fedlab_mini.engine.local import round_updates
from fedlab_mini.engine.minibatches import LocalSGD, Shuffles
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, Strategy, copied
from fedlab_mini.games import round_tables as tables
from fedlab_mini.games import shapley
from fedlab_mini.gate.networks import mlp
from fedlab_mini.gate.training import train
from fedlab_mini.methods.cgsv import CGSV
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.round_scores import RoundValue, Taylor
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.streams import one_thread, stream
from fedlab_mini.worlds.federation import Federation

from .protocols import study
from .results import Results
from .study import Row

LOCAL, EACH, SERVER, ASKED = LocalSGD(batch=20, lr=0.1), 20, 360, 100
CLIENTS = (100, 1_000, 10_000)  # ASKED of them participate
ROUND = (4, 8, 10, 12, 14, 30, 100, 300, 1_000)  # clients per round
HIDDEN = {1e3: 13, 1e4: 133, 1e5: 1_333, 1e6: 13_333, 1e7: 133_333}  # units; 75 parameters each
METHODS: dict[str, tuple[Strategy, int, float]] = {  # most clients, most parameters of 10 clients
    "FedAvg": (FedAvg(), 1_000, 1e7),
    "CGSV": (CGSV(), 1_000, 1e7),
    "second order": (Taylor(2), 1_000, 1e6),
    "leave one out": (RoundValue(shapley.leave_one_out), 1_000, 1e6),
    "S-FedAvg": (SFedAvg(m=None, metric="loss", exact=False), 300, 1e4),
    "GTG-Shapley": (GTGShapley(), 100, 1e4),
    "Shapley": (RoundValue(shapley.exact), 14, 1e4),
}
MEMORY = """
import pathlib, resource, sys
import fedlab_mini as fm
from studies import growth
clients, seed = map(int, sys.argv[1:])
growth.rounds(growth.crowd(clients, seed), 3, seed)
status = pathlib.Path("/proc/self/status")  # elsewhere a child may inherit its parent's peak
if status.exists():
    peak = int(status.read_text().partition("VmHWM:")[2].split()[0])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; bytes on macOS
print(peak / 1024 ** (2 if sys.platform == "darwin" else 1))
"""


def crowd(clients: int, seed: int) -> Federation:
    """Clients with 20 samples each of 64 Gaussian inputs; a linear rule gives the 10 labels."""
    generator = stream(seed, "growth", clients)
    x = torch.randn(clients * EACH + SERVER, 64, generator=generator)
    y = (x @ torch.randn(64, 10, generator=generator)).argmax(1)
    kept, sizes = (x[-SERVER:], y[-SERVER:]), torch.full((clients,), EACH)
    return Federation(
        x=x[:-SERVER], y=y[:-SERVER], sizes=sizes, validation=kept, test=kept, classes=10
    )


def fastest(work: Callable[[], object], tries: int = 3) -> float:
    """CPU seconds of the fastest try on one thread."""
    taken = []
    for _ in range(tries):
        with one_thread():
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    return min(taken)


def rounds(fed: Federation, many: int, seed: int) -> None:
    """Run this many rounds of federated averaging with 100 clients each."""
    train(fed, mlp(64, 32, 10), FedAvg(per_round=ASKED), rounds=many, local=LOCAL, seed=seed)


def a_round(fed: Federation, net: Model, seed: int) -> tuple[Round, float]:
    """One round of all clients, and the CPU seconds of their local training."""
    theta, ids = net.init(seed), torch.arange(fed.clients)
    still, shuffles = torch.zeros_like(theta), Shuffles(fed, LOCAL, seed)
    updates = round_updates(fed, net, theta, ids, shuffles, 1, still)
    seconds = fastest(lambda: round_updates(fed, net, theta, ids, shuffles, 1, still))
    return Round(1, theta, ids, fed.sizes, updates), seconds


def scoring(strategy: Strategy, round: Round, server: Server) -> float:
    """CPU seconds of the strategy's own work on a round."""
    state = strategy.init(server)

    def work() -> None:
        tables.forget(round)
        strategy.step(server, copied(state), round)

    work()  # memory is touched for the first time
    return fastest(work, 2)


def growth_rows(
    seed: int,
    *,
    clients: Sequence[int] = CLIENTS,
    per_round: Sequence[int] = ROUND,
    parameters: Sequence[float] = tuple(HIDDEN),
) -> Iterator[Row]:
    """Seconds per round @ clients, @ clients per round, and @ parameters; MiB of a process.

    clients     of a federation, 100 or more
    per_round   clients of a round
    parameters  of HIDDEN, with ten clients
    """
    for many in clients:
        fed = crowd(many, seed)
        # The difference between two lengths of a run does not include the start.
        short, long = (fastest(partial(rounds, fed, number, seed), 5) for number in (2, 42))
        yield "", "federation", f"seconds a round @ {many}", (long - short) / 40
        words = [sys.executable, "-c", MEMORY, str(many), str(seed)]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        yield "", "federation", f"MiB @ {many}", float(printed)
    # The number of clients with one model, then the model with ten clients.
    ladders = [("clients", many, many, 32) for many in per_round]
    ladders += [("parameters", int(P), 10, HIDDEN[P]) for P in parameters]
    for what, place, many, hidden in ladders:
        fed, net = crowd(many, seed), mlp(64, hidden, 10)
        round, seconds = a_round(fed, net, seed)
        yield "", "local training", f"seconds, {what} @ {place}", seconds
        server = Server(many, 10, net, fed.validation, seed)
        for method, (strategy, most, largest) in METHODS.items():
            if many <= most and 1.1 * largest >= net.P:
                yield "", method, f"seconds, {what} @ {place}", scoring(strategy, round, server)


def growth_figure(results: Results) -> Figure:
    """Seconds of one core against clients per round, one line per method."""
    lines = {}
    for method in ("local training", *METHODS):
        at, values = results.curve("seconds, clients", method)
        line = torch.full((len(values), len(ROUND)), math.nan, dtype=torch.float64)
        line[:, [ROUND.index(int(clients)) for clients in at]] = values
        lines[{"second order": "Taylor score"}.get(method, method)] = line
    ends = {method: int((~line[0].isnan()).nonzero()[-1]) for method, line in lines.items()}
    figure = plots.curves(
        lines,
        x=ROUND,
        xlabel="clients a round",
        ylabel="CPU seconds a round",
        title="What scores cost beside the training they score",
        log=True,
    )
    (axis,) = figure.axes
    if (inside := axis.get_legend()) is not None:
        inside.remove()  # it would lie on the lines
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    figure.set_size_inches(6.5, 3.3)
    said = [f"{n} {lines[n][:, e].mean():.2g} s at {ROUND[e]}" for n, e in ends.items()]
    vars(figure)["alt"] = f"Lines of CPU seconds against clients a round; ends: {', '.join(said)}."
    return figure


PROBE = {"clients": (100,), "per_round": (4, 8), "parameters": (1e3,)}
STUDIES = (study("growth", growth_rows, figure=growth_figure, probe=PROBE),)
