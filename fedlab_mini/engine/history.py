"""History: what a training has done so far, how it gets to disk and back, and what it leaves.

Chapter 1 introduces it. Below: files, rounds. Above: train, guard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..checks import home
from .files import read_arrays, whole_file
from .rounds import State, Strategy, copied

if TYPE_CHECKING:
    import pandas


def frame(index: str | None = None, **columns: Tensor) -> pandas.DataFrame:
    """Columns [N] of any device as a pandas table; ``index`` names its rows, ids 0..N-1."""
    import pandas  # here, since it takes a second to import

    # Pandas reads no tensors of other devices.
    table = pandas.DataFrame(
        {name: column.cpu().numpy() for name, column in columns.items()}
    )
    return table if index is None else table.rename_axis(index)


@dataclass(frozen=True)
class Cost:
    """What a result cost: client epochs trained and models evaluated, beside seconds."""

    client_epochs: float = 0.0
    model_evaluations: int = 0
    seconds: float = 0.0


class Rows:
    """One row [K] per round, kept as what it changes in the row before.

    So rows grow with the clients that take part, not with all. A row that changes more than a third
    of its entries is kept whole, as the first one is.
    """

    def __init__(self) -> None:
        # Each row: the ids that change, None for all of them, and their values.
        self.changes: list[tuple[Tensor | None, Tensor]] = []
        self.last = torch.empty(0)

    def append(self, row: Tensor) -> None:
        """The next round's row, which may be written to afterwards."""
        ids = None
        if self.changes:
            # Bits, since 0.0 and -0.0 are other bytes; NumPy, since torch takes twice as long.
            changed = to_numpy(_bits(row)) != to_numpy(_bits(self.last))
            ids = torch.from_numpy(np.flatnonzero(changed)).to(row.device)
        if ids is None or 3 * len(ids) > len(row):
            self.last = row.clone()
            self.changes.append((None, self.last))
            return
        # The whole row that was kept before stays as it is.
        if self.changes[-1][1] is self.last:
            self.last = self.last.clone()
        values = row[ids]
        self.last[ids] = values
        self.changes.append((ids.int(), values))

    def __len__(self) -> int:
        return len(self.changes)

    def __getitem__(self, place: int) -> Tensor:
        """The last row, [-1]; for others see ``stacked``."""
        if place != -1 or not self.changes:
            raise IndexError(f"rows: only the last of {len(self)} can be taken, [-1]")
        return self.last.clone()

    def stacked(self) -> Tensor:
        """All rows, [T, K]."""
        table = self.last.new_empty(len(self), len(self.last))
        for t, (ids, values) in enumerate(self.changes):
            if ids is None:
                table[t] = values
            else:
                table[t] = table[t - 1]
                table[t, ids] = values
        return table

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The rows as arrays for a file: how many entries each changes (-1: all), which, values."""
        counts = [-1 if ids is None else len(ids) for ids, _ in self.changes]
        ids = [ids for ids, _ in self.changes if ids is not None]
        return {
            f"{name}.counts": np.array(counts, dtype=np.int32),
            f"{name}.clients": to_numpy(torch.cat(ids))
            if ids
            else np.empty(0, dtype=np.int32),
            f"{name}.values": to_numpy(torch.cat([values for _, values in self.changes])),
        }

    @staticmethod
    def from_arrays(name: str, arrays: Mapping[str, Tensor]) -> Rows:
        """The rows that ``arrays`` gave."""
        counts, ids, values = (
            arrays[f"{name}.{part}"] for part in ("counts", "clients", "values")
        )
        whole = counts < 0
        # Other rows hold one value per id; what is left are the K values of each whole row.
        clients = (len(values) - len(ids)) // int(whole.sum())
        rows = Rows()
        ids_by_row = ids.split(counts.clamp(min=0).tolist())
        values_by_row = values.split(torch.where(whole, clients, counts).tolist())
        for row_ids, row_values, is_whole in zip(
            ids_by_row, values_by_row, whole, strict=True
        ):
            if is_whole:
                rows.last = row_values.clone()
            else:
                rows.last[row_ids] = row_values
            rows.changes.append((None if is_whole else row_ids, row_values))
        return rows

    def copy(self) -> Rows:
        """The rows so far; others may be appended to the original."""
        other = Rows()
        other.changes, other.last = self.changes.copy(), self.last.clone()
        return other


def _bits(row: Tensor) -> Tensor:
    """A row of any type as whole numbers that are equal where all bits are."""
    return row.view({1: torch.uint8, 4: torch.int32, 8: torch.int64}[row.element_size()])


@dataclass(frozen=True)
class History:
    """What happened: T rounds, K clients; and all that a training needs to go on from here.

    accuracy, loss [T + 1]  on the test set, index 0 before training
    scores, weights [T, K]  contribution after, and aggregation weight in, each round
    selected [T, K]         who was asked to take part
    rows                    the last three, as what each round changed; tables when asked for
    theta [P]               the final model; cost: see ``Cost``
    state                   what the strategy remembers at the end
    strategy                the one that was trained; None where the history was loaded
    labels [n]              all clients' labels at the end; they differ from the federation's only
                            where a strategy's message made clients rename theirs
    last_step [P], memory, first_length
                            what the last round added to the model, what the clients have changed,
                            and the first model's length: the next round depends on them
    made_from               called, it says what decided the training: {part: words or a hash}
    """

    accuracy: Tensor
    loss: Tensor
    rows: Mapping[str, Rows] = field(repr=False)
    theta: Tensor
    strategy: Strategy | None
    cost: Cost
    state: State
    labels: Tensor
    last_step: Tensor
    memory: Tensor
    first_length: float
    made_from: Callable[[], Mapping[str, str]]

    @cached_property
    def scores(self) -> Tensor:
        """Contribution after each round, [T, K]."""
        return self.rows["scores"].stacked()

    @cached_property
    def weights(self) -> Tensor:
        """Aggregation weight in each round, [T, K]; 0 for who took no part."""
        return self.rows["weights"].stacked()

    @cached_property
    def selected(self) -> Tensor:
        """Who was asked to take part in each round, [T, K]."""
        return self.rows["selected"].stacked()

    def __repr__(self) -> str:
        rounds, clients = len(self.rows["scores"]), len(self.rows["scores"].last)
        return (
            f"History({rounds} rounds, {clients} clients, "
            f"accuracy {self.accuracy[0]:.3f} -> {self.accuracy[-1]:.3f}, "
            f"{self.cost.client_epochs:.0f} client epochs)"
        )

    def to_frame(self) -> pandas.DataFrame:
        """A tidy pandas table: a row for every round 1..T and client 0..K-1.

        columns  round, client, score, weight, selected; accuracy and loss of the model after the
                 round, the same for all its clients (before round 1: ``accuracy[0]``, ``loss[0]``)
        """
        rounds, clients = self.scores.shape
        return frame(
            round=torch.arange(1, rounds + 1).repeat_interleave(clients),
            client=torch.arange(clients).repeat(rounds),
            score=self.scores.flatten(),
            weight=self.weights.flatten(),
            selected=self.selected.flatten(),
            accuracy=self.accuracy[1:].repeat_interleave(clients),
            loss=self.loss[1:].repeat_interleave(clients),
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write all of it to ``path`` (npz), whole or not at all; ``load`` reads it back.

        raises  ValueError where a setting is a lambda; OSError naming the file
        """
        try:
            words = json.dumps(dict(self.made_from()))
        except ValueError as error:
            raise ValueError(f"save: {error}") from None
        arrays = {name: to_numpy(getattr(self, name)) for name in TENSORS}
        arrays |= {f"state.{name}": to_numpy(part) for name, part in self.state.items()}
        numbers = [self.first_length, *vars(self.cost).values()]
        arrays |= {"made_from": np.array(words), "numbers": np.array(numbers)}
        for name in NOTED:
            arrays |= self.rows[name].arrays(name)
        with whole_file(home(path)) as part, open(part, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def load(path: str | os.PathLike) -> History:
        """The history that ``save`` has written; ValueError where the file holds none."""
        arrays = read_arrays("path", home(path))
        try:
            words, numbers = (
                json.loads(str(arrays.pop("made_from"))),
                arrays.pop("numbers"),
            )
            parts = {name: torch.from_numpy(array) for name, array in arrays.items()}
            rows = {name: Rows.from_arrays(name, parts) for name in NOTED}
            tensors = {name: parts[name] for name in TENSORS}
        except (KeyError, ValueError) as error:
            raise ValueError(f"path: {path} holds no history ({error})") from error
        first_length, client_epochs, model_evaluations, seconds = numbers.tolist()
        prefix = "state."
        return History(
            **tensors,
            rows=rows,
            strategy=None,
            cost=Cost(client_epochs, int(model_evaluations), seconds),
            state={
                n.removeprefix(prefix): p
                for n, p in parts.items()
                if n.startswith(prefix)
            },
            first_length=first_length,
            made_from=partial(dict, words),
        )


TENSORS = ("accuracy", "loss", "theta", "labels", "last_step", "memory")
NOTED = ("scores", "weights", "selected")  # of each round and client


@dataclass
class Log:
    """The rounds so far, as a training writes them; ``history`` is what it leaves behind.

    Fields as in ``History``; seconds are those of earlier calls
    """

    theta: Tensor
    last_step: Tensor
    memory: Tensor
    state: State
    first_length: float
    accuracy: list[Tensor] = field(default_factory=list)
    loss: list[Tensor] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=lambda: {n: Rows() for n in NOTED})
    client_epochs: float = 0.0
    model_evaluations: int = 0
    seconds: float = 0.0

    @staticmethod
    def after(start: History, fresh: Log) -> Log:
        """The log of a training that goes on from ``start``; ``fresh`` has devices and types."""
        return Log(
            theta=start.theta.to(fresh.theta, copy=True),
            last_step=start.last_step.to(fresh.theta, copy=True),
            memory=start.memory.to(fresh.memory, copy=True),
            state={
                n: start.state[n].to(part.device, copy=True)
                for n, part in fresh.state.items()
            },
            first_length=start.first_length,
            accuracy=list(start.accuracy),
            loss=list(start.loss),
            rows={name: rows.copy() for name, rows in start.rows.items()},
            **vars(start.cost),
        )

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.rows["scores"])

    def note(self, **rows: Tensor) -> None:
        """The rows [K] of a round: scores, weights, selected."""
        for name, row in rows.items():
            self.rows[name].append(row)

    def history(
        self,
        strategy: Strategy,
        seconds: float,
        labels: Tensor,
        made_from: Callable[[], Mapping[str, str]],
    ) -> History:
        """What the training leaves behind after this many seconds of this call."""
        return History(
            accuracy=torch.stack(self.accuracy),
            loss=torch.stack(self.loss),
            rows={name: rows.copy() for name, rows in self.rows.items()},
            theta=self.theta,
            strategy=strategy,
            cost=Cost(self.client_epochs, self.model_evaluations, self.seconds + seconds),
            state=copied(self.state),
            labels=labels.clone(),
            last_step=self.last_step,
            memory=self.memory.clone(),
            first_length=self.first_length,
            made_from=made_from,
        )


def to_numpy(array: Tensor) -> np.ndarray:
    """A tensor of any device as an array."""
    return array.detach().cpu().numpy()
