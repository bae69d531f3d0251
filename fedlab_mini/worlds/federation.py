"""Federation: who holds what. Client data, the server's own samples, and what was corrupted.

Chapter 1 introduces it. All client samples lie in one tensor, client after client, so that a
minibatch of many clients is one gather.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .. import checks
from ..streams import stream
from .corrupt import DataCorruption, Samples, UpdateAttack
from .data import Dataset
from .partition import Split, iid


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
    raises               TypeError or ValueError naming the argument
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
        given: dict[str, object] = {"classes": checks.whole("classes", self.classes)}
        x, y = given["x"], given["y"] = _samples("x, y", (self.x, self.y), self.classes)
        sizes = given["sizes"] = checks.wholes("sizes", self.sizes, ["K"], 1).cpu()
        if int(sizes.sum()) != len(y):
            raise ValueError(f"sizes: add up to {int(sizes.sum())}, there are {len(y)} samples")
        for part in ("validation", "test"):
            given[part] = _samples(part, getattr(self, part), self.classes, like=x, finite=True)
        for part in ("truth", "attacks"):
            told = checks.instance(part, getattr(self, part), Mapping, "{client id: what}")
            given[part] = {checks.whole(part, k, 0, len(sizes) - 1): told[k] for k in told}
        for k, attack in self.attacks.items():
            checks.instance(f"attacks[{k}]", attack, UpdateAttack, "an attack such as sign_flip()")
        unusable = checks.distinct_ids("unusable", self.unusable, len(sizes)).tolist()
        if not set(_broken(x, sizes)) <= set(unusable):
            raise ValueError("x: holds NaN or infinite values of clients that are not in unusable")
        if len(unusable) == len(sizes):
            raise ValueError("unusable: expected a client that can take part, got all")
        given["unusable"] = frozenset(unusable)
        given["name"] = checks.text("name", self.name)
        given["noise"] = torch.zeros(len(sizes), dtype=torch.float64)
        if self.noise is not None:
            given["noise"] = checks.reals("noise", self.noise, [len(sizes)])
        for name, value in given.items():
            object.__setattr__(self, name, value)

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
        k = checks.whole("k", k, 0, self.clients - 1)
        low, high = self.offsets[k : k + 2].tolist()
        return self.x[low:high], self.y[low:high]

    def server(self, part: str) -> Samples:
        """The server's ``"validation"`` or ``"test"`` samples."""
        checks.choice("on", part, ("validation", "test"))
        return self.validation if part == "validation" else self.test

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Federation:
        """The same federation on another device or in another floating-point type."""
        device = checks.device("device", device)
        dtype = self.x.dtype if dtype is None else checks.floating("dtype", dtype)

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
        datasets: Iterable[Samples],
        *,
        validation: Samples,
        test: Samples,
        classes: int | None = None,
        name: str = "federation",
        truth: Mapping[int, str] | None = None,
    ) -> Federation:
        """Anybody's data: one ``(x [n_k, ...], y [n_k])`` a client; ids are the positions 0..K-1.

        Tensors, NumPy arrays or lists: x of one floating-point type (whole numbers become
        float32), y whole numbers from 0.

        validation, test  the server's samples, in the same form
        classes           number of classes; by default the highest label + 1
        truth             {client id: what is wrong with its data}, where you know; for judging only

        Clients with NaN or infinite inputs stay in the federation, never take part, and are named
        in a warning.
        raises  ValueError or TypeError naming the argument: no client, an empty client, shapes that
                differ, labels that are no integers in range, server samples that are not finite
        """
        try:
            pairs = list(datasets)
        except TypeError:
            raise TypeError(
                f"datasets: expected a pair (x, y) a client, got {checks.shown(datasets)}"
            ) from None
        if not pairs:
            raise ValueError("datasets: expected at least one client, got none")
        mine: list[Samples] = []
        for k, pair in enumerate(pairs):
            mine.append(_samples(f"datasets[{k}]", pair, like=mine[0][0] if mine else None))
        server = [_samples("validation", validation), _samples("test", test)]
        top = 1 + max(int(y.max()) for _, y in mine + server)
        x, sizes = torch.cat([x for x, _ in mine]), torch.tensor([len(y) for _, y in mine])
        broken = _broken(x, sizes)
        if len(broken) == len(sizes):
            raise ValueError("datasets: the inputs of every client hold NaN or infinite values")
        if broken:
            warnings.warn(
                f"datasets: client {', '.join(map(str, broken))} holds NaN or infinite "
                "inputs and is excluded from training",
                stacklevel=2,
            )
        return cls(
            x=x,
            y=torch.cat([y for _, y in mine]),
            sizes=sizes,
            validation=server[0],
            test=server[1],
            classes=top if classes is None else checks.whole("classes", classes, top),
            unusable=frozenset(broken),
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
    clients = check_deal(data, clients)
    order = torch.randperm(len(data), generator=stream(seed, "server samples"))
    kept: dict[str, Samples] = {}
    for label, wanted in (("validation", validation), ("test", test)):
        kept[label], order = _server_samples(label, wanted, data, order)
    if samples is not None:
        order = order[: checks.whole("samples", samples, clients, len(order))]
    order = order.sort().values
    groups = _deal(iid() if split is None else split, data.y[order], clients, stream(seed, "split"))
    pairs = [(data.x[order[g]], data.y[order[g]]) for g in groups]
    told = {} if corrupt is None else corrupt
    pairs, truth, attacks, noise = _corrupt(pairs, told, data.classes, seed)
    fed = Federation.from_datasets(
        pairs,
        validation=kept["validation"],
        test=kept["test"],
        classes=data.classes,
        name=data.name,
    )
    return replace(fed, truth=truth, attacks=attacks, noise=noise)


def check_deal(data: Dataset, clients: int) -> int:
    """The number of clients; TypeError or ValueError unless there is a Dataset to deal to them."""
    checks.instance("data", data, Dataset, "a Dataset (see fm.load)")
    return checks.whole("clients", clients)


def _samples(
    name: str,
    pair: Samples,
    classes: int | None = None,
    *,
    like: Tensor | None = None,
    finite: bool = False,
) -> Samples:
    """A checked pair: x [n, ...] floating, y [n] in 0..classes-1."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: expected a pair of arrays (x, y), got {checks.shown(pair)}")
    x = checks.reals(f"{name}: x", pair[0], ["n", "d", "..."], finite=finite)
    y = checks.wholes(f"{name}: y", pair[1], [len(x)], 0, None if classes is None else classes - 1)
    if like is not None and x.dtype != like.dtype:
        raise TypeError(f"{name}: inputs are {x.dtype}, the first client's {like.dtype}")
    if like is not None and x.shape[1:] != like.shape[1:]:
        shapes = f"shape {list(x.shape[1:])}, the first client's {list(like.shape[1:])}"
        raise ValueError(f"{name}: inputs have {shapes}")
    return x, y


def _broken(x: Tensor, sizes: Tensor) -> list[int]:
    """Ids of the clients that hold NaN or infinite inputs."""
    owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return owner[~x.flatten(1).isfinite().all(1).cpu()].unique().tolist()


def _server_samples(
    label: str, wanted: int | Dataset, data: Dataset, order: Tensor
) -> tuple[Samples, Tensor]:
    if isinstance(wanted, Dataset):
        if wanted.classes != data.classes:
            raise ValueError(f"{label}: has {wanted.classes} classes, the data {data.classes}")
        return (wanted.x, wanted.y), order
    wanted = checks.whole(label, wanted, 1, len(order) - 1)
    mine = order[:wanted]
    return (data.x[mine], data.y[mine]), order[wanted:]


def _deal(split: Split, y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    if not callable(split) or isinstance(split, type):
        raise TypeError(f"split: expected a split such as fm.iid(), got {checks.shown(split)}")
    try:
        dealt = list(split(y, clients, generator))
    except TypeError as error:
        raise TypeError(
            f"split: expected a split such as fm.iid(), got {checks.shown(split)}: {error}"
        ) from error
    groups = [checks.wholes("split", group, ["n"], 0, len(y) - 1) for group in dealt]
    if len(groups) != clients or len(torch.cat(groups).unique()) != sum(map(len, groups)):
        raise ValueError(f"split: {checks.shown(split)} did not give {clients} disjoint groups")
    return groups


def _corrupt(
    pairs: list[Samples], corrupt: Mapping[int, object], classes: int, seed: int
) -> tuple[list[Samples], dict[int, str], dict[int, UpdateAttack], Tensor]:
    truth: dict[int, str] = {}
    attacks: dict[int, UpdateAttack] = {}
    noise = torch.zeros(len(pairs), dtype=torch.float64)
    corrupt = checks.instance("corrupt", corrupt, Mapping, "{client id: a corruption}")
    for key, wanted in corrupt.items():
        k = checks.whole("corrupt", key, 0, len(pairs) - 1)
        wrongs = wanted if isinstance(wanted, list | tuple) else [wanted]
        if not wrongs:
            raise ValueError(f"corrupt[{k}]: expected a corruption or several, got {wanted!r}")
        touched = torch.zeros(len(pairs[k][1]), dtype=torch.bool)
        for number, wrong in enumerate(wrongs):
            if isinstance(wrong, UpdateAttack):
                if k in attacks:
                    raise ValueError(f"corrupt[{k}]: expected one attack at most, got {wanted!r}")
                attacks[k] = wrong
                continue
            such_as = "a corruption such as fm.flip_labels(0.4)"
            act = checks.instance(f"corrupt[{k}]", wrong, DataCorruption, such_as)
            x, y, changed = act(*pairs[k], classes, stream(seed, "corruption", k, number))
            pairs[k], touched = (x, y), touched | changed.cpu()
        truth[k], noise[k] = ", ".join(map(repr, wrongs)), touched.double().mean()
    return pairs, truth, attacks, noise
