"""Partition: which client holds which samples. Each split deals sample positions to clients.

Chapter 1 uses it. A split gets the labels, never the inputs, and returns one ascending index
tensor per client. The tensors are disjoint, together hold all samples, and none is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Generator, Tensor

from ..parse import checks
from ..parse.settings import Count, Settings, between

Split = Callable[[Tensor, int, Generator], list[Tensor]]
Alpha = Annotated[float, between(1e-300, 1e300)]


class LabelSplit(Settings):
    """The base of the splits in this file: ``split(y, clients, generator)`` checks, deals, sorts.

    y [N] integers, number of clients K; returns K index tensors
    raises  TypeError or ValueError naming the argument, for example for too few samples
    """

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        labels = checks.wholes("y", y, ["N"])
        clients = checks.whole("clients", clients)
        checks.instance("generator", generator, Generator, "a torch.Generator")
        _check_enough(labels, clients, least=1)
        groups = self.deal(labels.cpu(), clients, generator)
        # Sorted, because the order in which a split deals must not affect the minibatches.
        return [group.sort().values.to(labels.device) for group in groups]

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """The positions of ``y`` that each client gets, in any order."""
        raise NotImplementedError(f"{type(self).__name__} does not say who gets what")


@dataclass(frozen=True)
class IID(LabelSplit):
    """Samples are shuffled and dealt evenly: client sizes differ by at most one."""

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        positions = _shuffled(torch.arange(len(y)), generator)
        return list(positions.tensor_split(clients))


@dataclass(frozen=True)
class ByClass(LabelSplit):
    """Client k holds c = classes_per_client classes: k*c, k*c+1, ..., starting again at the end.

    A class that several clients hold is shuffled and divided evenly among them. Only classes that
    occur count. ValueError if a client would lack a class, or a class a client.
    """

    classes_per_client: Count = 1

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        dealt_shares: list[list[Tensor]] = [[] for _ in range(clients)]
        holders = self._holders(y.unique().tolist(), clients)
        for label, members in holders.items():
            samples = _shuffled((y == label).nonzero()[:, 0], generator)
            if len(samples) < len(members):
                has = f"{len(samples)} samples for {len(members)} clients"
                raise ValueError(f"clients: class {label} has {has}")
            shares = samples.tensor_split(len(members))
            for client, class_share in zip(members, shares, strict=True):
                dealt_shares[client].append(class_share)
        return [torch.cat(shares) for shares in dealt_shares]

    def _holders(self, present: list[int], clients: int) -> dict[int, list[int]]:
        """The clients that hold each class."""
        each = checks.whole("classes_per_client", self.classes_per_client, 1, len(present))
        if clients * each < len(present):
            raise ValueError(
                f"classes_per_client: {clients} clients x {each} cannot hold all {len(present)} "
                "classes; increase it, or select classes with Dataset.only_classes"
            )
        # Taken in turn, so that the classes' numbers of holders differ by at most one.
        slots = range(clients * each)
        return {
            label: [slot // each for slot in slots[first :: len(present)]]
            for first, label in enumerate(present)
        }


@dataclass(frozen=True)
class SortedShards(LabelSplit):
    """Samples are sorted by label and cut into equal shards, which are dealt at random to clients.

    [McMahan et al. 2017, Section 3]: with two shards, a client holds about two classes.
    """

    shards_per_client: Count = 2

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        _check_enough(y, clients, self.shards_per_client)
        shuffled = _shuffled(torch.arange(len(y)), generator)
        # The sort is stable, so the order within a label stays random.
        by_label = shuffled[y[shuffled].argsort(stable=True)]
        shards = by_label.tensor_split(clients * self.shards_per_client)
        numbers = _shuffled(torch.arange(len(shards)), generator)
        hands = numbers.view(clients, -1).tolist()
        return [torch.cat([shards[number] for number in hand]) for hand in hands]


@dataclass(frozen=True)
class Dirichlet(LabelSplit):
    """The base of both Dirichlet splits: ``alpha`` of the shares, and the least size of clients."""

    alpha: Alpha = 0.5
    floor: Count = 1

    def sizes(self, total: int, clients: int, generator: Generator) -> list[int]:
        """Whole numbers with sum ``total``, from the rounded running sums of one sample [K].

        Gamma(alpha) is Gamma(alpha + 1) * U^(1 / alpha); with logarithms, nothing underflows to 0.
        """
        shape = torch.full((clients,), self.alpha + 1, dtype=torch.float64)
        # torch.distributions does not accept a generator.
        gamma = torch._standard_gamma(shape, generator=generator)
        # In (0, 1], so that the logarithm is finite.
        uniform = 1 - torch.rand(clients, generator=generator, dtype=torch.float64)
        log_weights = gamma.log() + uniform.log() / self.alpha
        running_shares = log_weights.softmax(0).cumsum(0)
        # Running sums are rounded, because rounded shares may not add up to the total.
        cuts = (running_shares * total).round().long().clamp(max=total)
        # Rounding must not lose the last sample.
        cuts[-1] = total
        start = torch.zeros(1, dtype=torch.long)
        return cuts.diff(prepend=start).tolist()


@dataclass(frozen=True)
class DirichletLabels(Dirichlet):
    """Each class is divided among the clients in proportions drawn from Dirichlet(alpha, ...).

    alpha   small: few clients share a class; large: nearly iid
    floor   least number of samples per client; a smaller client gets some from the largest one

    Shares are drawn per class, over clients [Yurochkin et al. 2019], so sizes differ, too.
    (Hsu et al. 2019 draw per client, over classes.)
    """

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        _check_enough(y, clients, self.floor)
        dealt_shares: list[list[Tensor]] = [[] for _ in range(clients)]
        for label in y.unique():
            samples = _shuffled((y == label).nonzero()[:, 0], generator)
            sizes = self.sizes(len(samples), clients, generator)
            for client, class_share in enumerate(samples.split(sizes)):
                dealt_shares[client].append(class_share)
        groups = [torch.cat(shares) for shares in dealt_shares]
        return _raise_to_floor(groups, self.floor, generator)


@dataclass(frozen=True)
class DirichletSizes(Dirichlet):
    """Labels iid, sizes unequal: ``floor`` samples each, the rest in Dirichlet(alpha) proportions.

    [F-RCCE's setting: Dirichlet(0.5) sizes; the floor is our choice, as the text states none]
    """

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        _check_enough(y, clients, self.floor)
        positions = _shuffled(torch.arange(len(y)), generator)
        above_floor = len(y) - clients * self.floor
        extra_sizes = self.sizes(above_floor, clients, generator)
        return list(positions.split([self.floor + extra for extra in extra_sizes]))


def _check_enough(y: Tensor, clients: int, least: int) -> None:
    if len(y) < clients * least:
        each = "one sample" if least == 1 else f"{least} samples or shards"
        raise ValueError(f"clients: {clients} clients need {each} each, got {len(y)} samples")


def _shuffled(index: Tensor, generator: Generator) -> Tensor:
    return index[torch.randperm(len(index), generator=generator)]


def _raise_to_floor(groups: list[Tensor], floor: int, generator: Generator) -> list[Tensor]:
    """Move random samples from the largest group until every group has ``floor``."""
    groups = list(groups)
    for client in range(len(groups)):
        while len(groups[client]) < floor:
            sizes = [len(group) for group in groups]
            # The largest group gives samples, because it can stay above the floor.
            largest = sizes.index(max(sizes))
            missing = floor - sizes[client]
            moved_count = min(missing, sizes[largest] - floor)
            shuffled = _shuffled(groups[largest], generator)
            groups[client] = torch.cat([groups[client], shuffled[:moved_count]])
            groups[largest] = shuffled[moved_count:]
    return groups
