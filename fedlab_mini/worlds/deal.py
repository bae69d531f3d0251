"""Deal: give a data set to the server and the clients, then corrupt the named clients.

Used by ``federation``. Builds on data, partition, corrupt and attacks.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from ..parse import checks
from ..parse.samples import Samples
from ..streams import stream
from .attacks import UpdateAttack
from .corrupt import DataCorruption, differing
from .data import Dataset
from .partition import Split


def check_deal(data: Dataset, clients: int) -> int:
    """The number of clients; TypeError or ValueError if some client would get no sample."""
    checks.instance("data", data, Dataset, "a Dataset (see fm.load)")
    clients = checks.whole("clients", clients)
    if clients > len(data):
        raise ValueError(f"clients: {clients} clients need one sample each, got {len(data)}")
    return clients


def server_samples(
    name: str, wanted: int | Dataset, data: Dataset, order: Tensor
) -> tuple[Samples, Tensor]:
    """The server's samples and the remaining positions: the first ones, or those of a Dataset."""
    if isinstance(wanted, Dataset):
        if wanted.classes != data.classes:
            raise ValueError(f"{name}: has {wanted.classes} classes, but the data {data.classes}")
        # A separate Dataset takes no samples from the clients.
        return (wanted.x, wanted.y), order
    count = checks.whole(name, wanted, 1, len(order) - 1)
    first = order[:count]
    return (data.x[first], data.y[first]), order[count:]


def deal(split: Split, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
    """Positions of every client's samples by the split, as disjoint groups."""
    refused = checks.refusal("split", "a split such as fm.IID()", split, TypeError)
    if not callable(split) or isinstance(split, type):
        raise refused
    try:
        dealt_groups = list(split(y, clients, generator))
    except TypeError as error:
        raise TypeError(f"{refused}: {error}") from error
    # Users may write their own splits, so the result is checked like any argument.
    groups = [checks.wholes("split", group, ["n"], 0, len(y) - 1) for group in dealt_groups]
    all_positions = torch.cat(groups)
    if len(groups) != clients or len(all_positions.unique()) != len(all_positions):
        raise checks.refusal("split", f"one that deals {clients} disjoint groups", split)
    return groups


class Corruption:
    """The clients' samples after their corruption, and what was done to them, for judging."""

    def __init__(self, samples: list[Samples], classes: int, seed: int) -> None:
        self.samples = samples
        self.classes = classes
        self.seed = seed
        self.truth: dict[int, str] = {}
        self.attacks: dict[int, UpdateAttack] = {}
        self.noise = torch.zeros(len(samples), dtype=torch.float64)

    def apply(self, corrupt: Mapping[int, object]) -> None:
        """Corrupt the named clients: {client id: a corruption, or a list of corruptions}."""
        checks.instance("corrupt", corrupt, Mapping, "{client id: a corruption}")
        for client_key, wanted in corrupt.items():
            client = checks.whole("corrupt", client_key, 0, len(self.samples) - 1)
            corruptions = wanted if isinstance(wanted, list | tuple) else [wanted]
            if not corruptions:
                raise checks.refusal(f"corrupt[{client}]", "one or more corruptions", wanted)
            dealt = self.samples[client]
            changed = torch.zeros(len(dealt[1]), dtype=torch.bool)
            for number, corruption in enumerate(corruptions):
                changed |= self._apply_one(client, number, corruption)
            done = ", ".join(map(repr, corruptions))
            # Compared with the original samples, because one corruption may undo another.
            if client in self.attacks or differing(dealt, self.samples[client]).any():
                self.truth[client] = done
                self.noise[client] = changed.double().mean()
            # No warning at a share of 0, which asks for no change.
            elif any(getattr(corruption, "share", 1) for corruption in corruptions):
                nothing = f"{done} changes none of its {len(changed)} samples"
                warnings.warn(
                    f"corrupt[{client}]: {nothing}; it is not called corrupted", stacklevel=3
                )

    def _apply_one(self, client: int, number: int, corruption: object) -> Tensor:
        """Which of the client's samples the corruption changed; none if it is an attack."""
        name = f"corrupt[{client}]"
        x, y = self.samples[client]
        if isinstance(corruption, UpdateAttack):
            if client in self.attacks:
                raise checks.refusal(name, "one attack at most", corruption)
            self.attacks[client] = corruption
            # Attacks act on the updates of every round, and change no sample.
            return torch.zeros(len(y), dtype=torch.bool)
        such_as = "a corruption such as fm.FlipLabels(0.4)"
        change = checks.instance(name, corruption, DataCorruption, such_as)
        # Each corruption has its own stream, so it does not affect other clients.
        generator = stream(self.seed, "corruption", client, number)
        # Each corruption acts on the result of the previous one.
        new_x, new_y, changed = change(x, y, self.classes, generator)
        self.samples[client] = new_x, new_y
        return changed.cpu()
