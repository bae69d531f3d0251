"""Federation: the clients' data, the server's own samples, and what was corrupted.

Chapter 1 introduces it. One tensor holds all client samples, client after client, so that a
minibatch of many clients needs one gather.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..parse import checks
from ..parse.samples import Samples, by_client, samples_of
from ..streams import stream
from .attacks import UpdateAttack
from .data import Dataset
from .data.dataset import MOST_CLASSES
from .deal import Corruption, check_deal, deal, server_samples
from .partition import IID, Split


@dataclass(frozen=True, eq=False)
class Federation:
    """The data of K clients and of the server.

    x [n, ...], y [n]    all client samples; client k owns ``offsets[k]:offsets[k+1]``
    sizes [K]            number of samples of each client, ``n_k``
    validation, test     the server's samples (x, y): for decisions, and for reports
    classes              number of classes; 0: ``y`` holds numbers [n, ...] for a loss of your own
    `truth`              {client id: what was done to its data or updates}, for judging only
    attacks              {client id: the update attack that it runs after local training}
    noise [K]            share of a client's samples that its data corruptions changed, for judging
    unusable             ids of clients with data that are not finite: they never participate
    names [K], notes     the clients' names, and {client id: what sets it apart}, for display
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
    names: tuple[str, ...] = ()
    notes: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = checks.whole("classes", self.classes, 0, MOST_CLASSES)
        # All arrays are copied, so that the caller's later changes have no effect here.
        x, y = _copied(samples_of("x, y", (self.x, self.y), classes))
        sizes = checks.wholes("sizes", self.sizes, ["K"], 1).cpu().clone()
        clients = len(sizes)
        if int(sizes.sum()) != len(y):
            raise ValueError(f"sizes: add up to {int(sizes.sum())}, but there are {len(y)} samples")
        server = {
            # The server's samples must be finite, because they cannot be left out as a client can.
            part: _copied(samples_of(part, getattr(self, part), classes, like=x, finite=True))
            for part in ("validation", "test")
        }
        attacks = by_client("attacks", self.attacks, clients)
        for k, attack in attacks.items():
            checks.instance(f"attacks[{k}]", attack, UpdateAttack, "such as fm.attacks.Replay()")
        unusable = checks.distinct_ids("unusable", self.unusable, clients).tolist()
        if not set(_not_finite(x, sizes)) <= set(unusable):
            raise ValueError("x: has NaN or infinite values of clients that are not in unusable")
        if len(unusable) == clients:
            raise ValueError("unusable: expected at least one usable client, got all")
        noise = torch.zeros(clients).double() if self.noise is None else self.noise
        names = checks.texts("names", self.names)
        if names and not len(names) == len(set(names)) == clients:
            raise checks.refusal("names", f"{clients} different names", names)
        checks.store(
            self,
            x=x,
            y=y,
            sizes=sizes,
            **server,
            classes=classes,
            truth=by_client("truth", self.truth, clients),
            attacks=attacks,
            unusable=frozenset(unusable),
            name=checks.text("name", self.name),
            noise=checks.reals("noise", noise, [clients]).clone(),
            names=names,
            notes=by_client("notes", self.notes, clients),
        )

    @property
    def clients(self) -> int:
        """Number of clients, K; their ids are 0..K-1."""
        return len(self.sizes)

    @property
    def offsets(self) -> Tensor:
        """The positions at which each client's samples begin, and the end: [K + 1]."""
        return torch.cat([torch.zeros(1, dtype=torch.long), self.sizes.cumsum(0)])

    @property
    def corrupted(self) -> set[int]:
        """Ids of the clients whose data or updates were corrupted on purpose."""
        return set(self.truth)

    @property
    def label_counts(self) -> Tensor:
        """How many samples of each class every client holds: [K, classes]; [K, 0] without any."""
        if not self.classes:
            return torch.zeros(self.clients, 0, dtype=torch.long)
        cells = _client_of_samples(self.sizes) * self.classes + self.y.cpu()
        counts = torch.bincount(cells, minlength=self.clients * self.classes)
        return counts.view(self.clients, self.classes)

    def client(self, k: int) -> Samples:
        """Copies of client ``k``'s samples (x [n_k, ...], y [n_k]); ValueError for unknown ids."""
        k = checks.whole("k", k, 0, self.clients - 1)
        start, stop = self.offsets[k : k + 2].tolist()
        return _copied((self.x[start:stop], self.y[start:stop]))

    def server(self, part: str) -> Samples:
        """Copies of the server's ``"validation"`` or ``"test"`` samples."""
        checks.choice("on", part, ("validation", "test"))
        return _copied(self.validation if part == "validation" else self.test)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Federation:
        """The same federation on another device or in another floating-point type."""
        device = checks.device("device", device)
        dtype = self.x.dtype if dtype is None else checks.floating("dtype", dtype)

        def move(samples: Samples) -> Samples:
            inputs, labels = (part.to(device=device) for part in samples)
            numbers = labels.is_floating_point()
            return inputs.to(dtype=dtype), labels.to(dtype) if numbers else labels

        x, y = move((self.x, self.y))
        validation, test = move(self.validation), move(self.test)
        return replace(self, x=x, y=y, validation=validation, test=test)

    def attacked(self, attacks: Mapping[int, UpdateAttack]) -> Federation:
        """The same federation where these clients attack, {client id: ``fm.attacks``}.

        Their data stay as they are; `truth` says what they do. Other clients do what they did
        """
        attacks = by_client("attacks", attacks, self.clients)
        told = {client: repr(attack) for client, attack in attacks.items()}
        attacks, truth = {**self.attacks, **attacks}, {**self.truth, **told}
        return replace(self, attacks=attacks, truth=truth)

    def under_names(self, client: int, count: int = 2, work: str = "shared") -> Federation:
        """The same federation where one client joins under several names.

        count    how many names; the first keeps the client's id, the others come last
        work     "shared": each holds a part of the client's samples, of nearly equal sizes;
                 "copied": each holds all of them
        Each name attacks as the client does, and `truth`, `noise` and `notes` say of each what they
        say of the client
        """
        client = checks.whole("client", client, 0, self.clients - 1)
        count = checks.whole("count", count, 1, int(self.sizes[client]))
        checks.choice("work", work, ("shared", "copied"))
        old = [*range(self.clients), *[client] * (count - 1)]  # who each client was
        held = [torch.arange(*self.offsets[k : k + 2].tolist()) for k in old]
        if work == "shared":
            cuts = [i * len(held[client]) // count for i in range(1, count)]
            held[client], *held[self.clients :] = held[client].tensor_split(cuts)
        rows = torch.cat(held)

        def of_all(told: Mapping[int, Any]) -> dict[int, Any]:
            return {new: told[k] for new, k in enumerate(old) if k in told}

        names = [f"{self.names[client]} {i}" for i in range(2, count + 1)] if self.names else []
        return replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            sizes=torch.tensor(list(map(len, held))),
            unusable=frozenset(new for new, k in enumerate(old) if k in self.unusable),
            noise=self.noise[old],
            names=(*self.names, *names),
            attacks=of_all(self.attacks),
            truth=of_all(self.truth),
            notes=of_all(self.notes),
        )

    def __repr__(self) -> str:
        smallest, largest = int(self.sizes.min()), int(self.sizes.max())
        size = f"{smallest}" if smallest == largest else f"{smallest}-{largest}"
        corrupted = f", corrupted {sorted(self.corrupted)}" if self.truth else ""
        told = (
            f"Federation({self.name}: {self.clients} clients x {size} samples, "
            f"{self.classes or 'no'} classes, "
            f"validation {len(self.validation[1])}, test {len(self.test[1])}{corrupted})"
        )
        width = max(map(len, self.names), default=0)
        for client, name in enumerate(self.names):
            note = self.notes.get(client, "")
            told += f"\n  {client} {name:{width}} {self.sizes[client]:5,} samples  {note}".rstrip()
        return told

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
        """Your own data: one ``(x [n_k, ...], y [n_k])`` per client; ids are positions 0..K-1.

        Tensors, NumPy arrays or lists: x of one floating-point type (whole numbers become
        float32), y whole numbers from 0, or with ``classes=0`` any numbers [n, ...].

        validation, test  the server's samples, in the same form
        classes           number of classes; by default the highest label + 1. 0: there are none,
                          as in regression; the model then needs a loss of its own
        `truth`           {client id: what is wrong with its data}, if known; for judging only

        Clients with NaN or infinite inputs stay in the federation but never participate, and a
        warning names them. All arrays are copied.
        raises  ValueError or TypeError naming the argument: no client, an empty client, shapes that
                differ, labels that are not integers in range, server samples that are not finite
        """
        if classes is not None:
            classes = checks.whole("classes", classes, 0, MOST_CLASSES)
        # If the number of classes is too small, the later error names this number.
        kind = 0 if classes == 0 else None
        try:
            pairs = list(datasets)
        except (TypeError, RuntimeError):  # a nested tensor raises a RuntimeError
            expected = "a pair (x, y) per client"
            raise checks.refusal("datasets", expected, datasets, TypeError) from None
        if not pairs:
            raise checks.refusal("datasets", "a pair (x, y) per client", pairs)
        samples: list[Samples] = []
        # A frame's columns have the order of the first client's, wherever their names are the same.
        first = pairs[0][0] if isinstance(pairs[0], tuple | list) and pairs[0] else None
        columns = list(getattr(first, "columns", ()))
        for k, pair in enumerate(pairs):
            # The first client decides the type, because mixed types would be widened silently.
            like = samples[0][0] if samples else None
            samples.append(samples_of(f"datasets[{k}]", pair, kind, like=like, columns=columns))
        validation = samples_of("validation", validation, kind, columns=columns)
        test = samples_of("test", test, kind, columns=columns)
        if classes != 0:
            everything = [*samples, validation, test]
            needed = 1 + max(int(labels.max()) for _, labels in everything)
            classes = needed if classes is None else checks.whole("classes", classes, needed)
        x = torch.cat([inputs for inputs, _ in samples])
        sizes = torch.tensor([len(labels) for _, labels in samples])
        unusable = _not_finite(x, sizes)
        if len(unusable) == len(sizes):
            raise ValueError("datasets: the inputs of every client have NaN or infinite values")
        # The other clients can train without them, as without a client that is offline.
        if unusable:
            holds = "holds NaN or infinite inputs and is excluded from training"
            clients = ", ".join(map(str, unusable))
            warnings.warn(f"datasets: client {clients} {holds}", stacklevel=2)
        return cls(
            x=x,
            y=torch.cat([labels for _, labels in samples]),
            sizes=sizes,
            validation=validation,
            test=test,
            classes=classes,
            unusable=frozenset(unusable),
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
    """Deal a data set to clients and to the server, then corrupt the clients that you name.

    split             how the clients' samples are dealt (see ``partition``); default ``IID()``
    corrupt           {client id: a data corruption, an update attack, or a list of them}; a client
                      that none of them changes gets a warning and does not count as ``corrupted``
    validation, test  how many random samples the server keeps; or a separate Dataset
    samples           how many samples all clients hold together; default: all remaining samples
    raises            ValueError or TypeError naming the argument
    """
    clients = check_deal(data, clients)
    positions = torch.randperm(len(data), generator=stream(seed, "server samples"))
    # The server draws first, so its samples do not depend on the split and the corruption.
    validation_samples, positions = server_samples("validation", validation, data, positions)
    test_samples, positions = server_samples("test", test, data, positions)
    if samples is not None:
        positions = positions[: checks.whole("samples", samples, clients, len(positions))]
    # Sorted, so that a split sees the labels in the order of the data set.
    positions = positions.sort().values
    split = IID() if split is None else split
    groups = deal(split, data.y[positions], clients, stream(seed, "split"))
    dealt_samples = [(data.x[positions[group]], data.y[positions[group]]) for group in groups]
    corrupted = Corruption(dealt_samples, data.classes, seed)
    corrupted.apply({} if corrupt is None else corrupt)
    fed = Federation.from_datasets(
        corrupted.samples,
        validation=validation_samples,
        test=test_samples,
        classes=data.classes,
        name=data.name,
    )
    return replace(fed, truth=corrupted.truth, attacks=corrupted.attacks, noise=corrupted.noise)


def _copied(samples: Samples) -> Samples:
    """Copies, so that pickling a slice for a worker does not pickle the whole tensor."""
    inputs, labels = samples
    return inputs.clone(), labels.clone()


def _client_of_samples(sizes: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(sizes)), sizes)


def _not_finite(x: Tensor, sizes: Tensor) -> list[int]:
    """Ids of the clients that hold NaN or infinite inputs."""
    finite = x.flatten(1).isfinite().all(1).cpu()
    return _client_of_samples(sizes)[~finite].unique().tolist()
