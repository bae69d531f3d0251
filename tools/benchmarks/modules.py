"""Modules of one's own: no perceptrons, so neither trained nor evaluated by hand.

One epoch of all clients, ``fm.train`` against the plain loop on the same module; and the losses of
many models, ``Model.evaluate`` against loading each into the module.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedlab_mini as fm

from .loop import PlainLoop, engine_order
from .timing import Result, cpu, interleave, ratios

NAME = "modules"
CLIENTS, ROUNDS, MODELS = 100, 3, 100
LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.1)


def between(*layers: nn.Module) -> fm.Model:
    """64-32-10 with these layers between the two Linear ones."""
    return fm.Model(nn.Sequential(nn.Linear(64, 32), *layers, nn.Linear(32, 10)))


class Skip(nn.Module):
    """A class of one's own, 64-32-10 with a skip and a learned scale."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 32)
        self.scale, self.head = nn.Parameter(torch.ones(())), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        return self.head(h + self.scale * torch.tanh(self.second(h)))


@dataclass(frozen=True)
class Case:
    """A model, the data that it is trained on, and how many times less CPU is wanted."""

    name: str
    net: fm.Model
    source: str
    target: float | None


def cases() -> tuple[Case, ...]:
    """A stack by hand, stacks by vmap, and modules that are asked alone."""
    return (
        Case("ReLU 64-32-10", between(nn.ReLU()), "digits", None),
        Case("Tanh 64-32-10", between(nn.Tanh()), "digits", 3.0),
        Case("LayerNorm 64-32-10", between(nn.LayerNorm(32), nn.ReLU()), "digits", 3.0),
        Case("own class 64-32-10", fm.Model(Skip()), "digits", 8.0),
        Case("dropout 64-32-10", between(nn.ReLU(), nn.Dropout(0.2)), "digits", 1.0),
        Case("cnn(channels=(4, 8)), 8 x 8", fm.cnn((1, 8, 8), channels=(4, 8)), "digits", 1.15),
        Case("cnn(channels=(4, 8)), 28 x 28", fm.cnn(channels=(4, 8)), "mnist5k", None),
        Case("cnn(), 28 x 28", fm.cnn(), "mnist5k", 1.0),
    )


def federation(source: str) -> fm.Federation:
    """All samples but the server's over 100 clients: 11 of digits, 40 of mnist5k."""
    return fm.federation(fm.load(source), clients=CLIENTS, validation=360, test=360, seed=0)


def check_equal(fed: fm.Federation, net: fm.Model) -> float:
    """Largest difference from the loop after one round in float64, on the same minibatches."""
    fed, theta = fed.to(dtype=torch.float64), net.init(0, dtype=torch.float64)
    order = engine_order(fed, LOCAL, 0)
    loop = PlainLoop(fed, net.module, batch=LOCAL.batch, lr=LOCAL.lr, order=order)
    updates = fm.local_updates(fed, net, theta, local=LOCAL)
    weights = fed.sizes.to(theta) / fed.sizes.sum()
    difference = float((theta + weights @ updates - loop.train(theta, 1)).abs().max())
    assert difference < 1e-9, f"engine and loop differ by {difference}"
    return difference


def losses(module: nn.Module, thetas: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of many models [C, P], one loaded into the module after another."""
    found = []
    with torch.no_grad():
        for theta in thetas:
            nn.utils.vector_to_parameters(theta, module.parameters())
            found.append(cross_entropy(module(x), y))
    return torch.stack(found)


def measured(case: Case, repetitions: int) -> list[Result]:
    """Training and evaluation of one model, each in turns with its loop."""
    fed, net = federation(case.source), case.net
    theta = net.init(0)
    loop = PlainLoop(fed, net.module, batch=LOCAL.batch, lr=LOCAL.lr)
    alone, blind = copy.deepcopy(net.module).eval(), copy.copy(net)
    blind.evaluate = lambda thetas, x, y, metric: thetas.new_zeros(1)
    thetas = theta + fm.local_updates(fed, net, theta, local=LOCAL)[:MODELS]
    x, y = fed.validation
    difference = (net.evaluate(thetas, x, y, "loss") - losses(alone, thetas, x, y)).abs().max()
    assert difference < 1e-4, f"losses differ by {difference}"
    given = {"rounds": ROUNDS, "local": LOCAL, "theta": theta}
    sides = {
        "loop": cpu(lambda: loop.train(theta, ROUNDS)),
        "train": cpu(lambda: fm.train(fed, blind, fm.FedAvg(), **given)),
        "one by one": cpu(lambda: losses(alone, thetas, x, y)),
        "evaluate": cpu(lambda: net.evaluate(thetas, x, y, "loss")),
    }
    seconds = interleave(sides, repetitions)
    what = f"{case.name}, K = {CLIENTS}"
    return [
        Result(
            NAME, f"{what}: loop / train", ratios(seconds["loop"], seconds["train"]), case.target
        ),
        Result(
            NAME,
            f"{case.name}, {MODELS} models: one by one / evaluate",
            ratios(seconds["one by one"], seconds["evaluate"]),
        ),
    ]


def run(repetitions: int) -> list[Result]:
    """100 clients, batches of 32, one epoch a round, 3 rounds; losses of 100 models."""
    results = []
    for case in cases():
        if "dropout" not in case.name:  # the loop draws other noise
            difference = check_equal(federation(case.source), case.net)
            print(f"{case.name}: float64, one round, engine - loop: {difference:.1e}", flush=True)
        results += measured(case, repetitions)
    return results
