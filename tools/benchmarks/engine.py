"""One FedAvg round: local training of all clients and their weighted mean.

``fm.train`` against a plain per-client loop and against ``torch.func.vmap``; against FedLab, pfl
and Flower if they are installed. Evaluation is switched off for all.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

import fedlab_mini as fm

from .loop import PlainLoop, Vmapped, engine_order
from .timing import Result, cpu, interleave, ratios
from .worker import Worker, WorkerError, python_with

NAME = "engine"
SAMPLES, BATCH, LR = 100, 20, 0.1
WIDTHS = {(64, 32, 10): {100: 17.0, 500: 20.0}, (784, 200, 10): {100: 2.0}}  # times less CPU
CLIENTS = (1, 2, 5, 10, 100, 500)
LOCAL = fm.LocalSGD(epochs=1, batch=BATCH, lr=LR)
PEAK = 1024  # size of the square matrices whose product measures the processor's peak
SHARE = 0.45  # the target share of that peak
PEERS = (
    ("FedLab", "fedlab", "fedlab"),
    ("pfl", "pfl", "pfl"),
    ("Flower", "flwr", "flwr[simulation] psutil"),
)


def describe(widths: tuple[int, ...]) -> str:
    """A model as its widths: 64-32-10."""
    return "-".join(map(str, widths))


def random_federation(clients: int, inputs: int, dtype: torch.dtype) -> fm.Federation:
    """Random inputs and labels, because the time of a step does not depend on what is learnt."""
    generator = torch.Generator().manual_seed(clients)

    def samples(n: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, inputs, generator=generator, dtype=dtype)
        return x, torch.randint(0, 10, (n,), generator=generator)

    datasets = [samples(SAMPLES) for _ in range(clients)]
    return fm.Federation.from_datasets(datasets, validation=samples(1), test=samples(1), classes=10)


def without_evaluation(widths: tuple[int, ...]) -> fm.Model:
    """The MLP for ``train``, with an evaluation that costs nothing."""
    net = fm.mlp(*widths)
    net.evaluate = lambda thetas, x, y, metric: thetas.new_zeros(1)
    return net


def check_equal(widths: tuple[int, ...]) -> float:
    """Largest difference from the loop after two rounds in float64, on the same minibatches."""
    fed, net = random_federation(5, widths[0], torch.float64), fm.mlp(*widths)
    theta = net.init(0, dtype=torch.float64)
    loop = PlainLoop(fed, net.module, batch=BATCH, lr=LR, order=engine_order(fed, LOCAL, 0))
    other = loop.train(theta, 2)
    mine = fm.train(fed, net, fm.FedAvg(), rounds=2, local=LOCAL, seed=0, theta=theta).theta
    difference = float((mine - other).abs().max())
    assert difference < 1e-9, f"engine and loop differ by {difference}"
    return difference


def one_size(widths: tuple[int, ...], clients: int, repetitions: int) -> list[Result]:
    """The engine against loop and vmap for one model and one number of clients."""
    fed, net = random_federation(clients, widths[0], torch.float32), without_evaluation(widths)
    loop, theta = PlainLoop(fed, net.module, batch=BATCH, lr=LR), net.init(0)
    stacked = Vmapped(loop, fed, samples=SAMPLES, batch=BATCH, lr=LR)
    rounds, times = (10 if clients <= 100 else 2), max(1, 10 // clients)
    turns = repetitions if clients >= 10 else 5 * repetitions  # short runs are noisy

    def calls() -> None:
        weights = torch.full((clients,), 1 / clients)
        for t in range(1, rounds + 1):
            theta + weights @ fm.local_updates(fed, net, theta, local=LOCAL, t=t)

    left, right = torch.randn(2, PEAK, PEAK)
    given = {"rounds": rounds, "local": LOCAL, "theta": theta}  # the loop starts from theta, too
    work = {
        "train": lambda: fm.train(fed, net, fm.FedAvg(), **given),
        "loop": lambda: loop.train(theta, rounds),
        "calls": calls,
        "vmap": lambda: stacked.train(theta, rounds),
        "peak": lambda: left @ right,
    }
    seconds = interleave({name: cpu(side, times) for name, side in work.items()}, turns)
    train, what = seconds["train"], f"{describe(widths)}, K = {clients}"
    wanted = WIDTHS[widths].get(clients, 1.0)
    results = [
        Result(NAME, f"{what}: loop / train", ratios(seconds["loop"], train), wanted),
        Result(NAME, f"{what}: loop / local_updates", ratios(seconds["loop"], seconds["calls"])),
        Result(NAME, f"{what}: vmap / train", ratios(seconds["vmap"], train)),
    ]
    if widths == (784, 200, 10) and clients == 100:
        done = multiply_adds(widths) * clients * SAMPLES * rounds / PEAK**3
        share = tuple(done * ratio for ratio in ratios(seconds["peak"], train))
        results.append(Result(NAME, f"{what}: share of the matmul peak", share, SHARE, unit=""))
    return results


def multiply_adds(widths: tuple[int, ...]) -> int:
    """Multiply-adds that one sample costs: forward, weight gradients, input gradients but one."""
    layers = [a * b for a, b in itertools.pairwise(widths)]
    return 2 * sum(layers) + sum(layers[1:])


def against_peer(label: str, python: str, widths: tuple[int, ...], turns: int) -> Result:
    """The engine against one package, 100 clients, in turns."""
    clients, rounds = 100, 3
    fed, net = random_federation(clients, widths[0], torch.float32), without_evaluation(widths)
    mine = cpu(lambda: fm.train(fed, net, fm.FedAvg(), rounds=rounds, local=LOCAL))
    settings = {"samples": SAMPLES, "batch": BATCH, "lr": LR, "rounds": rounds}
    work = f"tools.benchmarks.peers:{label.lower()}"
    with Worker(python, work, widths=widths, clients=clients, **settings) as other:
        seconds = interleave({"peer": other.seconds, "train": mine}, turns)
    what = f"{describe(widths)}, K = {clients}: {label} / train"
    return Result(NAME, what, ratios(seconds["peer"], seconds["train"]))


def run(repetitions: int) -> list[Result]:
    """All comparisons of the engine, after a check that engine and loop give the same models."""
    results = []
    for widths in WIDTHS:
        print(f"{describe(widths)}: float64, 2 rounds, engine - loop: {check_equal(widths):.1e}")
        for clients in CLIENTS:
            results += one_size(widths, clients, repetitions)
        for label, module, package in PEERS:
            if python := python_with(module, package, "FEDLAB_PEERS_PYTHON"):
                try:
                    results.append(against_peer(label, python, widths, repetitions))
                except WorkerError as error:  # perhaps another release; keep the other figures
                    print(f"{label}: {error}", flush=True)
    return results
