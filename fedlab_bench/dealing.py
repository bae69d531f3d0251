"""Dealing: data dealt to eight clients and corrupted in nine ways, which ``compare`` knows by name.

Chapter 10 describes them, and the bench uses them. Builds on fedlab_mini's worlds and engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedlab_mini.engine.model import Model
from fedlab_mini.gate.networks import logistic, mlp
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import DataCorruption, FlipLabels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import DirichletLabels, DirichletSizes, Split
from fedlab_mini.worlds.scenarios import irrelevant_digits

CLIENTS = 8
# Samples of all clients together.
SAMPLES = {"digits": 400, "mnist5k": 400, "sms-synthetic": 800, "sms": 800}
LEVELS = tuple(
    client / 10 for client in range(CLIENTS)
)  # share of wrong labels, or of noise, by client
Made = tuple[Federation, Model]
Scenario = Callable[[str, int], Made]


@dataclass(frozen=True)
class noisy_inputs(DataCorruption):
    """Gaussian noise on every input; ``level`` is in standard deviations of all inputs."""

    level: float

    def change(
        self, x: Tensor, y: Tensor, classes: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """See `DataCorruption`."""
        # Drawn in double precision, so that data of every type get the same noise.
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        return x + self.level * x.std() * noise, y


def dealt(split: Split | None = None, corrupt: Callable[[float], object] | None = None) -> Scenario:
    """A scenario: how samples are dealt, and how client k is corrupted at the level k / 10."""

    def make(source: str, seed: int) -> Made:
        dataset, samples = _dataset(source), SAMPLES[source]
        # Client 0 has level 0, so it is not corrupted.
        graded = list(enumerate(LEVELS))[1:]
        wrongs = {} if corrupt is None else {client: corrupt(level) for client, level in graded}
        fed = federation(
            dataset, clients=CLIENTS, samples=samples, split=split, corrupt=wrongs, seed=seed
        )
        return fed, _net(dataset)

    return make


def irrelevant(source: str, seed: int) -> Made:
    """Two clients with uninformative labels: odd digits labelled as even; in texts, coin flips."""
    dataset, samples = _dataset(source), SAMPLES[source]
    if dataset.classes == 2:
        wrongs = dict.fromkeys((2, 5), FlipLabels(0.5))
        fed = federation(dataset, clients=CLIENTS, samples=samples, corrupt=wrongs, seed=seed)
        return fed, _net(dataset)
    # These federations have no option ``samples``, so the split deals the usual number.
    split = _each(samples // CLIENTS)
    fed = irrelevant_digits(
        dataset, CLIENTS - 2, 2, split=split, validation=180, test=180, seed=seed
    )
    return fed, mlp(dataset.x[0].numel(), 32, 5)


def replicas(source: str, seed: int) -> Made:
    """Six similar clients, and two more with the same samples as the first client."""
    dataset = _dataset(source)
    fed = federation(dataset, clients=CLIENTS - 2, samples=SAMPLES[source], seed=seed)
    holders = (*range(CLIENTS - 2), 0, 0)
    return _rebuilt(fed, dataset, [fed.client(client) for client in holders])


def rare_class(source: str, seed: int) -> Made:
    """Clients of equal size; only the last client holds samples of the last class."""
    dataset = _dataset(source)
    fed = federation(dataset, clients=1, samples=SAMPLES[source], seed=seed)
    inputs, labels = fed.client(0)
    size = len(labels) // CLIENTS
    is_rare = labels == dataset.classes - 1
    rare, common = is_rare.nonzero().flatten(), (~is_rare).nonzero().flatten()
    shares = list(common[: size * (CLIENTS - 1)].split(size))
    holder = torch.cat([rare, common[size * (CLIENTS - 1) :]])[:size]
    pairs = [(inputs[share], labels[share]) for share in (*shares, holder)]
    return _rebuilt(fed, dataset, pairs)


def _rebuilt(fed: Federation, dataset: Dataset, pairs: list[tuple[Tensor, Tensor]]) -> Made:
    """A federation with other clients and the same server."""
    rebuilt = Federation.from_datasets(
        pairs, validation=fed.validation, test=fed.test, classes=dataset.classes, name=dataset.name
    )
    return rebuilt, _net(dataset)


def noisier_inputs(level: float) -> noisy_inputs:
    """Noise of three times the level. It is not a lambda, because cached cells need its name."""
    return noisy_inputs(3 * level)


SCENARIOS: dict[str, Scenario] = {
    "alike": dealt(),
    "sizes": dealt(DirichletSizes(1.0, floor=5)),
    "Dirichlet 0.5": dealt(DirichletLabels(0.5, floor=5)),
    "Dirichlet 0.1": dealt(DirichletLabels(0.1, floor=5)),
    "wrong labels": dealt(corrupt=FlipLabels),
    "noisy inputs": dealt(corrupt=noisier_inputs),
    "irrelevant": irrelevant,
    "replicas": replicas,
    "rare class": rare_class,
}


def resampled(fed: Federation, seed: int) -> Federation:
    """The same federation, with validation samples drawn again from the server's own."""
    inputs, labels = fed.validation
    generator = stream(seed, "validation drawn again")
    drawn = torch.randint(len(labels), (len(labels),), generator=generator)
    return replace(fed, validation=(inputs[drawn], labels[drawn]))


def _each(size: int) -> Split:
    """A split that deals ``size`` random samples to each client, and no more."""

    def split(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        order = torch.randperm(len(y), generator=generator)
        return list(order[: size * clients].tensor_split(clients))

    return split


def _dataset(source: str) -> Dataset:
    # Texts are counts of the most frequent words; images have no vocabulary.
    vocabulary = 200 if source.startswith("sms") else None
    return load(source, dtype=torch.float64, vocabulary=vocabulary)


def _net(dataset: Dataset) -> Model:
    inputs = dataset.x[0].numel()
    return logistic(inputs, 2) if dataset.classes == 2 else mlp(inputs, 32, dataset.classes)
