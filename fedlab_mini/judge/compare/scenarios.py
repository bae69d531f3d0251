"""Scenarios of the comparison: eight clients, dealt and corrupted in nine ways.

Below: data, corrupt, partition, federation. Chapter 10 names them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...engine.model import Model, logistic, mlp
from ...streams import stream
from ...worlds.corrupt import DataCorruption, flip_labels
from ...worlds.data import Dataset, load
from ...worlds.federation import Federation, federation
from ...worlds.partition import Split, dirichlet_labels, dirichlet_sizes
from ...worlds.scenarios import irrelevant_digits

CLIENTS = 8
SAMPLES = {"digits": 400, "mnist5k": 400, "sms-synthetic": 800, "sms": 800}  # of all clients
LEVELS = tuple(k / 10 for k in range(CLIENTS))  # share of wrong labels, or of noise, by client
Made = tuple[Federation, Model]


@dataclass(frozen=True)
class noisy_inputs(DataCorruption):
    """Gaussian noise on every input; its standard deviation in units of that of all the inputs."""

    level: float

    def change(
        self, x: Tensor, y: Tensor, classes: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """See `DataCorruption`."""
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        return x + self.level * x.std() * noise, y


def dealt(split: Split | None = None, corrupt: Callable[[float], object] | None = None):
    """A scenario: how samples are dealt, and what is done to client k at the level k / 10."""

    def make(source: str, seed: int) -> Made:
        wrong = {} if corrupt is None else {k: corrupt(s) for k, s in enumerate(LEVELS) if k}
        data, few = _data(source), SAMPLES[source]
        return federation(
            data, clients=CLIENTS, samples=few, split=split, corrupt=wrong, seed=seed
        ), _net(data)

    return make


def irrelevant(source: str, seed: int) -> Made:
    """Two clients whose labels say nothing: odd digits named as even ones; in texts, coin flips."""
    data = _data(source)
    if data.classes == 2:
        wrong = dict.fromkeys((2, 5), flip_labels(0.5))
        few = SAMPLES[source]
        return federation(data, clients=CLIENTS, samples=few, corrupt=wrong, seed=seed), _net(data)
    given = {"split": _each(SAMPLES[source] // CLIENTS), "validation": 180, "test": 180}
    fed = irrelevant_digits(data, CLIENTS - 2, 2, seed=seed, **given)  # type: ignore[arg-type]
    return fed, mlp(data.x[0].numel(), 32, 5)


def replicas(source: str, seed: int) -> Made:
    """Six alike clients; two more send what the first one has."""
    data = _data(source)
    fed = federation(data, clients=CLIENTS - 2, samples=SAMPLES[source], seed=seed)
    pairs = [fed.client(k) for k in (*range(CLIENTS - 2), 0, 0)]
    return Federation.from_datasets(
        pairs, validation=fed.validation, test=fed.test, classes=data.classes, name=data.name
    ), _net(data)


def rare_class(source: str, seed: int) -> Made:
    """Clients of one size; the last holds all samples of the last class that are with clients."""
    data = _data(source)
    fed = federation(data, clients=1, samples=SAMPLES[source], seed=seed)
    x, y = fed.client(0)
    each, last = len(y) // CLIENTS, data.classes - 1
    rare, other = (y == last).nonzero().flatten(), (y != last).nonzero().flatten()
    parts = list(other[: each * (CLIENTS - 1)].split(each))
    parts.append(torch.cat([rare, other[each * (CLIENTS - 1) :]])[:each])
    return Federation.from_datasets(
        [(x[i], y[i]) for i in parts],
        validation=fed.validation,
        test=fed.test,
        classes=data.classes,
        name=data.name,
    ), _net(data)


SCENARIOS: dict[str, Callable[[str, int], Made]] = {
    "alike": dealt(),
    "sizes": dealt(dirichlet_sizes(1.0, floor=5)),
    "Dirichlet 0.5": dealt(dirichlet_labels(0.5, floor=5)),
    "Dirichlet 0.1": dealt(dirichlet_labels(0.1, floor=5)),
    "wrong labels": dealt(corrupt=flip_labels),
    "noisy inputs": dealt(corrupt=lambda level: noisy_inputs(3 * level)),
    "irrelevant": irrelevant,
    "replicas": replicas,
    "rare class": rare_class,
}


def lesser(scenario: str, fed: Federation) -> list[int] | None:
    """Ids of the clients known to be of less use, before any training; None: nothing is known.

    Graded scenarios: the worse half; irrelevant clients; rare class: all but its holder
    """
    if scenario in ("wrong labels", "noisy inputs"):
        return [k for k, level in enumerate(LEVELS) if level >= LEVELS[len(LEVELS) // 2]]
    if scenario == "irrelevant":
        return sorted(fed.corrupted)
    return list(range(CLIENTS - 1)) if scenario == "rare class" else None


def resampled(fed: Federation, seed: int) -> Federation:
    """The same federation; the server's validation samples are drawn again from themselves."""
    x, y = fed.validation
    pick = torch.randint(len(y), (len(y),), generator=stream(seed, "validation drawn again"))
    return replace(fed, validation=(x[pick], y[pick]))


def _each(many: int) -> Split:
    """A split that deals ``many`` random samples to everybody, and no more."""

    def split(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        order = torch.randperm(len(y), generator=generator)
        return list(order[: many * clients].tensor_split(clients))

    return split


def _data(source: str) -> Dataset:
    words = 200 if source.startswith("sms") else None
    return load(source, dtype=torch.float64, vocabulary=words)


def _net(data: Dataset) -> Model:
    inputs = data.x[0].numel()
    return logistic(inputs, 2) if data.classes == 2 else mlp(inputs, 32, data.classes)
