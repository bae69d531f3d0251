"""Partition: who holds what. Each split deals sample positions to clients.

Chapter 1 uses it. A split is called with the labels and gives one index tensor a client:
disjoint, together all samples, no client empty, ascending. It sees labels only, never inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

Split = Callable[[Tensor, int, Generator], list[Tensor]]


@dataclass(frozen=True)
class iid:
    """Samples shuffled and dealt evenly: client sizes differ by at most one."""

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """y [N], number of clients K -> K index tensors; ValueError if N < K."""
        _check_call(y, clients, generator, least=1)
        order = _shuffled(torch.arange(len(y)), generator)
        return _in_order(order.tensor_split(clients), y)


@dataclass(frozen=True)
class by_class:
    """Client k holds c = classes_per_client classes: k*c, k*c+1, ..., counted round.

    A class held by several clients is shuffled and shared evenly among them.
    """

    classes_per_client: int = 1

    def __post_init__(self) -> None:
        _check_count("classes_per_client", self.classes_per_client)

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """y [N], number of clients K -> K index tensors.

        Only classes that occur in ``y`` count. ValueError if a client cannot have that many
        classes, if K clients cannot hold all, or if a class has fewer samples than holders.
        """
        _check_call(y, clients, generator, least=1)
        present = y.cpu().unique().tolist()
        self._check_fit(len(present), clients)
        holders: dict[int, list[int]] = {c: [] for c in present}
        for slot in range(clients * self.classes_per_client):
            holders[present[slot % len(present)]].append(slot // self.classes_per_client)
        dealt: list[list[Tensor]] = [[] for _ in range(clients)]
        for c, members in holders.items():
            samples = _shuffled((y.cpu() == c).nonzero()[:, 0], generator)
            if len(samples) < len(members):
                raise ValueError(
                    f"clients: class {c} has {len(samples)} samples for {len(members)} clients"
                )
            for k, share in zip(members, samples.tensor_split(len(members)), strict=True):
                dealt[k].append(share)
        return _in_order([torch.cat(shares) for shares in dealt], y)

    def _check_fit(self, classes: int, clients: int) -> None:
        if self.classes_per_client > classes:
            raise ValueError(
                f"classes_per_client: {self.classes_per_client} asked for, there are {classes}"
            )
        if clients * self.classes_per_client < classes:
            raise ValueError(
                f"classes_per_client: {clients} clients x {self.classes_per_client} cannot hold "
                f"all {classes} classes; raise it, or leave classes out with Dataset.only_classes"
            )


@dataclass(frozen=True)
class sorted_shards:
    """Samples sorted by label and cut into equal shards, dealt at random to the clients.

    [McMahan et al. 2017, Section 3]: with two shards a client holds about two classes.
    """

    shards_per_client: int = 2

    def __post_init__(self) -> None:
        _check_count("shards_per_client", self.shards_per_client)

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """y [N], number of clients K -> K index tensors; ValueError if N < number of shards."""
        _check_call(y, clients, generator, least=self.shards_per_client)
        order = _shuffled(torch.arange(len(y)), generator)
        order = order[y.cpu()[order].argsort(stable=True)]
        shards = order.tensor_split(clients * self.shards_per_client)
        hands = _shuffled(torch.arange(len(shards)), generator).view(clients, -1).tolist()
        return _in_order([torch.cat([shards[s] for s in hand]) for hand in hands], y)


@dataclass(frozen=True)
class dirichlet_labels:
    """Each class is cut among the clients in proportions drawn from Dirichlet(alpha, ..., alpha).

    alpha   small: few clients share a class; large: nearly iid
    floor   samples every client has at least; who has fewer takes some from the largest client

    The draw is per class, over clients [Yurochkin et al. 2019], so client sizes differ too.
    (Hsu et al. 2019 draw per client, over classes.)
    """

    alpha: float = 0.5
    floor: int = 1

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        _check_count("floor", self.floor)

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """y [N], number of clients K -> K index tensors; ValueError if N < K * floor."""
        _check_call(y, clients, generator, least=self.floor)
        dealt: list[list[Tensor]] = [[] for _ in range(clients)]
        for c in y.cpu().unique():
            samples = _shuffled((y.cpu() == c).nonzero()[:, 0], generator)
            sizes = _whole(_dirichlet(self.alpha, clients, generator), len(samples))
            for k, share in enumerate(samples.split(sizes)):
                dealt[k].append(share)
        groups = [torch.cat(shares) for shares in dealt]
        return _in_order(_raise_to_floor(groups, self.floor, generator), y)


@dataclass(frozen=True)
class dirichlet_sizes:
    """Labels iid, sizes unequal: ``floor`` samples each, the rest in Dirichlet(alpha) proportions.

    [F-RCCE's setting: Dirichlet(0.5) sizes; the floor is ours, since the text states none]
    """

    alpha: float = 0.5
    floor: int = 1

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        _check_count("floor", self.floor)

    def __call__(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """y [N], number of clients K -> K index tensors; ValueError if N < K * floor."""
        _check_call(y, clients, generator, least=self.floor)
        order = _shuffled(torch.arange(len(y)), generator)
        spare = len(y) - clients * self.floor
        extra = _whole(_dirichlet(self.alpha, clients, generator), spare)
        return _in_order(order.split([self.floor + n for n in extra]), y)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < float("inf"):
        raise ValueError(f"alpha: expected a finite number above 0, got {alpha!r}")


def _check_call(y: Tensor, clients: int, generator: Generator, *, least: int) -> None:
    if not torch.is_tensor(y) or y.ndim != 1 or y.is_floating_point() or y.dtype == torch.bool:
        given = f"{list(y.shape)} of {y.dtype}" if torch.is_tensor(y) else type(y).__name__
        raise TypeError(f"y: expected a tensor of integer labels [N], got {given}")
    if not isinstance(generator, Generator):
        raise TypeError(f"generator: expected a torch.Generator, got {type(generator).__name__}")
    _check_count("clients", clients)
    if len(y) < clients * least:
        each = "one sample" if least == 1 else f"{least} samples or shards"
        raise ValueError(f"clients: {clients} clients need {each} each, there are {len(y)} samples")


def _shuffled(index: Tensor, generator: Generator) -> Tensor:
    return index[torch.randperm(len(index), generator=generator)]


def _in_order(groups: Sequence[Tensor], y: Tensor) -> list[Tensor]:
    return [group.sort().values.to(y.device) for group in groups]


def _dirichlet(alpha: float, clients: int, generator: Generator) -> Tensor:
    """One draw [K] from Dirichlet(alpha, ..., alpha), float64, safe for a very small alpha.

    Gamma(alpha) is Gamma(alpha + 1) * U^(1 / alpha); in logarithms nothing underflows to zero.
    """
    shape = torch.full((clients,), alpha + 1, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator)  # torch.distributions takes none
    uniform = 1 - torch.rand(clients, generator=generator, dtype=torch.float64)  # in (0, 1]
    return (gamma.log() + uniform.log() / alpha).softmax(0)


def _whole(shares: Tensor, total: int) -> list[int]:
    """Whole numbers with sum ``total`` in these proportions, cut at the rounded running sums."""
    cuts = (shares.cumsum(0) * total).round().long().clamp(max=total)
    cuts[-1] = total
    return cuts.diff(prepend=torch.zeros(1, dtype=torch.long)).tolist()


def _raise_to_floor(groups: list[Tensor], floor: int, generator: Generator) -> list[Tensor]:
    """Move random samples from the largest group until every group has ``floor``."""
    groups = list(groups)
    for k in range(len(groups)):
        while len(groups[k]) < floor:
            giver = max(range(len(groups)), key=lambda j: len(groups[j]))
            wanted = min(floor - len(groups[k]), len(groups[giver]) - floor)
            mixed = _shuffled(groups[giver], generator)
            groups[k] = torch.cat([groups[k], mixed[:wanted]])
            groups[giver] = mixed[wanted:]
    return groups
