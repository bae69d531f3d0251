"""Federation: who holds what. Client data, the server's own samples, and what was corrupted.

Chapter 1 introduces it. All client samples lie in one tensor, client after client, so that a
minibatch of many clients is one gather.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .corrupt import DataCorruption, UpdateAttack
from .data import Dataset
from .partition import Split, iid
from .streams import stream

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Federation:
    """The data of K clients and of the server.

    x [n, ...], y [n]    all client samples; client k owns ``offsets[k]:offsets[k+1]``
    sizes [K]            samples a client holds, ``n_k``
    validation, test     the server's samples (x, y): for decisions, and for reports
    classes              number of classes
    truth                {client id: what was done to its data or updates}, for judging only
    attacks              {client id: the update attack it runs after local training}
    noise [K]            share of a client's samples that its data corruptions changed, for judging
    unusable             ids of clients whose data are not finite: they never take part
    """

    x: Tensor
    y: Tensor
    sizes: Tensor
    validation: Samples
    test: Samples
    classes: int
    truth: Mapping[int, str] = field(default_factory=dict)
    attacks: Mapping[int, UpdateAttack] = field(default_factory=dict)
    unusable: frozenset[int] = frozenset()
    name: str = "federation"
    noise: Tensor = None  # type: ignore[assignment]  # zeros unless given

    def __post_init__(self) -> None:
        if self.noise is None:
            object.__setattr__(self, "noise", torch.zeros(len(self.sizes), dtype=torch.float64))

    @property
    def clients(self) -> int:
        """Number of clients, K; their ids are 0..K-1."""
        return len(self.sizes)

    @property
    def offsets(self) -> Tensor:
        """Where each client's samples begin: [K + 1]."""
        return torch.cat([torch.zeros(1, dtype=torch.long), self.sizes.cumsum(0)])

    @property
    def corrupted(self) -> set[int]:
        """Ids of the clients whose data or updates were corrupted on purpose."""
        return set(self.truth)

    @property
    def label_counts(self) -> Tensor:
        """How many samples of each class every client holds: [K, classes]."""
        owner = torch.repeat_interleave(torch.arange(self.clients), self.sizes)
        flat = torch.bincount(
            owner * self.classes + self.y.cpu(), minlength=self.clients * self.classes
        )
        return flat.view(self.clients, self.classes)

    def client(self, k: int) -> Samples:
        """The samples (x [n_k, ...], y [n_k]) of client ``k``; ValueError for an unknown id."""
        if not 0 <= k < self.clients:
            raise ValueError(f"k: expected a client id in 0..{self.clients - 1}, got {k}")
        low, high = self.offsets[k : k + 2].tolist()
        return self.x[low:high], self.y[low:high]

    def server(self, part: str) -> Samples:
        """The server's ``"validation"`` or ``"test"`` samples."""
        if part not in ("validation", "test"):
            raise ValueError(f'on: expected "validation" or "test", got {part!r}')
        return self.validation if part == "validation" else self.test

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Federation:
        """The same federation on another device or in another floating-point type."""

        def move(pair: Samples) -> Samples:
            return pair[0].to(device=device, dtype=dtype), pair[1].to(device=device)

        (x, y), validation, test = move((self.x, self.y)), move(self.validation), move(self.test)
        return replace(self, x=x, y=y, validation=validation, test=test)

    def __repr__(self) -> str:
        low, high = int(self.sizes.min()), int(self.sizes.max())
        size = f"{low}" if low == high else f"{low}-{high}"
        bad = f", corrupted {sorted(self.corrupted)}" if self.truth else ""
        return (
            f"Federation({self.name}: {self.clients} clients x {size} samples, "
            f"{self.classes} classes, "
            f"validation {len(self.validation[1])}, test {len(self.test[1])}{bad})"
        )

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Samples],
        *,
        validation: Samples,
        test: Samples,
        classes: int | None = None,
        name: str = "federation",
        truth: Mapping[int, str] | None = None,
    ) -> Federation:
        """Anybody's data: one ``(x [n_k, ...], y [n_k])`` a client; ids are the positions 0..K-1.

        validation, test  the server's samples, in the same form
        classes           number of classes; by default the highest label + 1
        truth             {client id: what is wrong with its data}, where you know; for judging only

        Clients with NaN or infinite inputs stay in the federation, never take part, and are named
        in a warning.
        raises  ValueError or TypeError naming the argument: no client, an empty client, shapes that
                differ, labels that are no integers in range, server samples that are not finite
        """
        if len(datasets) < 1:
            raise ValueError("datasets: expected at least one client, got none")
        named = [(f"datasets[{k}]", pair) for k, pair in enumerate(datasets)]
        named += [("validation", validation), ("test", test)]
        for label, pair in named:
            _check_pair(label, pair, like=datasets[0])
        top = 1 + max(int(y.max()) for _, (_, y) in named)
        if classes is not None and top > classes:
            raise ValueError(f"classes: {classes} given, but the labels go up to {top - 1}")
        for label, (x, _) in named[-2:]:
            if not torch.isfinite(x).all():
                raise ValueError(f"{label}: the inputs hold NaN or infinite values")
        broken = frozenset(k for k, (x, _) in enumerate(datasets) if not torch.isfinite(x).all())
        if len(broken) == len(datasets):
            raise ValueError("datasets: the inputs of every client hold NaN or infinite values")
        if broken:
            warnings.warn(
                f"datasets: client {', '.join(map(str, sorted(broken)))} holds NaN or infinite "
                "inputs and is excluded from training",
                stacklevel=2,
            )
        return cls(
            x=torch.cat([x for x, _ in datasets]),
            y=torch.cat([y for _, y in datasets]).long(),
            sizes=torch.tensor([len(y) for _, y in datasets]),
            validation=(validation[0], validation[1].long()),
            test=(test[0], test[1].long()),
            classes=classes or top,
            unusable=broken,
            name=name,
            truth={} if truth is None else truth,
        )


def federation(
    data: Dataset,
    *,
    clients: int = 10,
    split: Split | None = None,
    corrupt: Mapping[int, object] | None = None,
    validation: int | Dataset = 360,
    test: int | Dataset = 360,
    samples: int | None = None,
    seed: int = 0,
) -> Federation:
    """Deal a data set to clients and to the server, then corrupt whom you name.

    split             how the clients' samples are dealt (see ``partition``); default ``iid()``
    corrupt           {client id: a data corruption, an update attack, or a list of them}
    validation, test  how many random samples the server keeps; or a Dataset of its own
    samples           how many samples all clients hold together; default: all that are left
    raises            ValueError or TypeError naming the argument
    """
    check_deal(data, clients)
    order = torch.randperm(len(data), generator=stream(seed, "server samples"))
    kept: dict[str, Samples] = {}
    for label, wanted in (("validation", validation), ("test", test)):
        kept[label], order = _server_samples(label, wanted, data, order)
    if samples is not None:
        if not clients <= samples <= len(order):
            raise ValueError(f"samples: expected {clients}..{len(order)}, got {samples}")
        order = order[:samples]
    order = order.sort().values
    groups = _deal(split or iid(), data.y[order], clients, stream(seed, "split"))
    pairs = [(data.x[order[g]], data.y[order[g]]) for g in groups]
    pairs, truth, attacks, noise = _corrupt(pairs, corrupt or {}, data.classes, seed)
    fed = Federation.from_datasets(pairs, **kept, classes=data.classes, name=data.name)
    return replace(fed, truth=truth, attacks=attacks, noise=noise)


def check_deal(data: Dataset, clients: int) -> None:
    """TypeError or ValueError unless there are a Dataset and at least one client to deal it to."""
    if not isinstance(data, Dataset):
        raise TypeError(f"data: expected a Dataset (see fm.load), got {type(data).__name__}")
    if isinstance(clients, bool) or not isinstance(clients, int) or clients < 1:
        raise ValueError(f"clients: expected a whole number of at least 1, got {clients!r}")


def _check_pair(label: str, pair: Samples, like: Samples) -> None:
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(torch.is_tensor, pair))):
        raise TypeError(f"{label}: expected a pair of tensors (x, y), got {type(pair).__name__}")
    x, y = pair
    if y.is_floating_point() or y.dtype == torch.bool or y.ndim != 1 or len(x) != len(y):
        raise ValueError(
            f"{label}: expected x [n, ...] and integer labels y [n], got x {list(x.shape)}, "
            f"y {list(y.shape)} of {y.dtype}"
        )
    if len(y) == 0:
        raise ValueError(f"{label}: is empty; at least one sample is needed")
    if not x.is_floating_point() or x.dtype != like[0].dtype:
        raise TypeError(f"{label}: inputs are {x.dtype}; expected one floating type for all")
    if x.shape[1:] != like[0].shape[1:]:
        raise ValueError(
            f"{label}: inputs have shape {list(x.shape[1:])}, "
            f"the first client's {list(like[0].shape[1:])}"
        )
    if int(y.min()) < 0:
        raise ValueError(f"{label}: labels must be 0 or more, got {int(y.min())}")


def _server_samples(
    label: str, wanted: int | Dataset, data: Dataset, order: Tensor
) -> tuple[Samples, Tensor]:
    if isinstance(wanted, Dataset):
        if wanted.classes != data.classes:
            raise ValueError(f"{label}: has {wanted.classes} classes, the data {data.classes}")
        return (wanted.x, wanted.y), order
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise TypeError(f"{label}: expected a number of samples or a Dataset, got {wanted!r}")
    if not 1 <= wanted < len(order):
        raise ValueError(f"{label}: expected 1..{len(order) - 1} samples, got {wanted}")
    mine = order[:wanted]
    return (data.x[mine], data.y[mine]), order[wanted:]


def _deal(split: object, y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    if not callable(split) or isinstance(split, type):
        raise TypeError(f"split: expected a split such as fm.iid(), got {split!r}")
    try:
        groups = split(y, clients, generator)
    except TypeError as error:
        raise TypeError(
            f"split: expected a split such as fm.iid(), got {split!r}: {error}"
        ) from error
    joined = torch.cat(groups) if groups else torch.empty(0)
    if len(groups) != clients or len(joined.unique()) != len(joined):
        raise ValueError(f"split: {split!r} did not give {clients} disjoint groups")
    return groups


def _corrupt(
    pairs: list[Samples], corrupt: Mapping[int, object], classes: int, seed: int
) -> tuple[list[Samples], dict[int, str], dict[int, UpdateAttack], Tensor]:
    truth: dict[int, str] = {}
    noise = torch.zeros(len(pairs), dtype=torch.float64)
    attacks: dict[int, UpdateAttack] = {}
    pairs = list(pairs)
    for k, wanted in corrupt.items():
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k < len(pairs):
            raise ValueError(f"corrupt: expected client ids in 0..{len(pairs) - 1}, got {k!r}")
        wrongs = wanted if isinstance(wanted, list | tuple) else [wanted]
        touched = torch.zeros(len(pairs[k][1]), dtype=torch.bool)
        for number, wrong in enumerate(wrongs):
            if isinstance(wrong, UpdateAttack):
                attacks[k] = wrong
            elif isinstance(wrong, DataCorruption):
                x, y, changed = wrong(*pairs[k], classes, stream(seed, "corruption", k, number))
                pairs[k], touched = (x, y), touched | changed.cpu()
            else:
                raise TypeError(
                    f"corrupt[{k}]: expected a corruption such as fm.flip_labels(0.4), "
                    f"got {wrong!r}"
                )
        truth[k], noise[k] = ", ".join(map(repr, wrongs)), touched.double().mean()
    return pairs, truth, attacks, noise
