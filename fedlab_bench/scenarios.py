"""Scenarios: eight clients, dealt and corrupted in nine ways; ``compare`` takes them by name.

Chapter 10 names them; the bench builds on them. Below: fedlab_mini's worlds and engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedlab_mini.engine.model import Model
from fedlab_mini.engine.networks import logistic, mlp
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import DataCorruption, flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import Split, dirichlet_labels, dirichlet_sizes
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
    """Gaussian noise on every input; its standard deviation in units of that of all the inputs."""

    level: float

    def change(
        self, x: Tensor, y: Tensor, classes: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """See `DataCorruption`."""
        # In double precision first: the same noise in every type of the data.
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        return x + self.level * x.std() * noise, y


def dealt(
    split: Split | None = None, corrupt: Callable[[float], object] | None = None
) -> Scenario:
    """A scenario: how samples are dealt, and what is done to client k at the level k / 10."""

    def make(source: str, seed: int) -> Made:
        dataset, samples = _dataset(source), SAMPLES[source]
        # Client 0 stays as it is: its level is zero.
        graded = list(enumerate(LEVELS))[1:]
        wrongs = (
            {}
            if corrupt is None
            else {client: corrupt(level) for client, level in graded}
        )
        fed = federation(
            dataset,
            clients=CLIENTS,
            samples=samples,
            split=split,
            corrupt=wrongs,
            seed=seed,
        )
        return fed, _net(dataset)

    return make


def irrelevant(source: str, seed: int) -> Made:
    """Two clients whose labels say nothing: odd digits named as even ones; in texts, coin flips."""
    dataset, samples = _dataset(source), SAMPLES[source]
    if dataset.classes == 2:
        wrongs = dict.fromkeys((2, 5), flip_labels(0.5))
        fed = federation(
            dataset, clients=CLIENTS, samples=samples, corrupt=wrongs, seed=seed
        )
        return fed, _net(dataset)
    # These federations take no number of samples, so the split deals as many as elsewhere.
    split = _each(samples // CLIENTS)
    fed = irrelevant_digits(
        dataset, CLIENTS - 2, 2, split=split, validation=180, test=180, seed=seed
    )
    return fed, mlp(dataset.x[0].numel(), 32, 5)


def replicas(source: str, seed: int) -> Made:
    """Six alike clients; two more send what the first one has."""
    dataset = _dataset(source)
    fed = federation(dataset, clients=CLIENTS - 2, samples=SAMPLES[source], seed=seed)
    holders = (*range(CLIENTS - 2), 0, 0)
    return _rebuilt(fed, dataset, [fed.client(client) for client in holders])


def rare_class(source: str, seed: int) -> Made:
    """Clients of one size; the last holds all samples of the last class that are with clients."""
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


def _rebuilt(
    fed: Federation, dataset: Dataset, pairs: list[tuple[Tensor, Tensor]]
) -> Made:
    """Other clients before the same server."""
    rebuilt = Federation.from_datasets(
        pairs,
        validation=fed.validation,
        test=fed.test,
        classes=dataset.classes,
        name=dataset.name,
    )
    return rebuilt, _net(dataset)


def noisier_inputs(level: float) -> noisy_inputs:
    """Noise of three times the level. It has a name, as kept cells go by what made them."""
    return noisy_inputs(3 * level)


SCENARIOS: dict[str, Scenario] = {
    "alike": dealt(),
    "sizes": dealt(dirichlet_sizes(1.0, floor=5)),
    "Dirichlet 0.5": dealt(dirichlet_labels(0.5, floor=5)),
    "Dirichlet 0.1": dealt(dirichlet_labels(0.1, floor=5)),
    "wrong labels": dealt(corrupt=flip_labels),
    "noisy inputs": dealt(corrupt=noisier_inputs),
    "irrelevant": irrelevant,
    "replicas": replicas,
    "rare class": rare_class,
}


def resampled(fed: Federation, seed: int) -> Federation:
    """The same federation; the server's validation samples are drawn again from themselves."""
    inputs, labels = fed.validation
    generator = stream(seed, "validation drawn again")
    drawn = torch.randint(len(labels), (len(labels),), generator=generator)
    return replace(fed, validation=(inputs[drawn], labels[drawn]))


def _each(size: int) -> Split:
    """A split that deals ``size`` random samples to everybody, and no more."""

    def split(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        order = torch.randperm(len(y), generator=generator)
        return list(order[: size * clients].tensor_split(clients))

    return split


def _dataset(source: str) -> Dataset:
    # Texts are counts of their commonest words; images have no vocabulary.
    vocabulary = 200 if source.startswith("sms") else None
    return load(source, dtype=torch.float64, vocabulary=vocabulary)


def _net(dataset: Dataset) -> Model:
    inputs = dataset.x[0].numel()
    return (
        logistic(inputs, 2) if dataset.classes == 2 else mlp(inputs, 32, dataset.classes)
    )
