"""History: what a training has done so far, how it gets to disk and back, and what it leaves.

Chapter 1 introduces it. Below: checkpoint, rounds. Above: train, guard.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from . import checkpoint as files
from .rounds import Strategy

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
    """What happened: T rounds, K clients.

    accuracy, loss [T + 1]  on the test set, index 0 before training
    scores, weights [T, K]  contribution after, and aggregation weight in, each round
    selected [T, K]         who was asked to take part
    rows                    the last three, as what each round changed; tables when asked for
    theta [P]               the final model; cost: see ``Cost``
    strategy                a copy of the one that was trained, with its state at the end; the one
                            that was given to ``train`` may be used again and changes nothing here
    labels [n]              all clients' labels at the end; they differ from the federation's only
                            where a strategy's message made clients rename theirs
    """

    accuracy: Tensor
    loss: Tensor
    rows: Mapping[str, Rows] = field(repr=False)
    theta: Tensor
    strategy: Strategy
    cost: Cost = field(default_factory=Cost)
    labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

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


QUALITY = ("accuracy", "loss")  # of each model
NOTED = ("scores", "weights", "selected")  # of each round and client


@dataclass
class Log:
    """The rounds so far, and all that the next ones depend on beside the strategy's state.

    theta, last_step [P]  the global model, and what the last round added to it, for attackers
    client_memory         what the clients have changed, such as labels; see ``rounds.Workers``
    accuracy, loss        of the models so far; scores, weights, selected: rows [K] of the rounds
    seconds               of earlier, interrupted calls
    """

    theta: Tensor
    last_step: Tensor
    client_memory: Tensor
    accuracy: list[Tensor] = field(default_factory=list)
    loss: list[Tensor] = field(default_factory=list)
    scores: Rows = field(default_factory=Rows)
    weights: Rows = field(default_factory=Rows)
    selected: Rows = field(default_factory=Rows)
    client_epochs: float = 0.0
    seconds: float = 0.0

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.scores)

    def quality(self) -> dict[str, Tensor]:
        """Accuracy and loss of every model, stacked."""
        return {name: torch.stack(getattr(self, name)) for name in QUALITY}

    def history(self, strategy: Strategy, seconds: float, labels: Tensor) -> History:
        """What the training leaves behind after this many seconds of this call."""
        cost = Cost(self.client_epochs, strategy.evaluations, self.seconds + seconds)
        return History(
            **self.quality(),
            rows={name: getattr(self, name).copy() for name in NOTED},
            theta=self.theta,
            strategy=strategy,
            cost=cost,
            labels=labels.clone(),
        )

    def save(
        self,
        path: str | os.PathLike,
        mark: files.Mark,
        strategy: Strategy,
        seconds: float,
    ) -> None:
        """Write the rounds so far, and the strategy's state, under the work's fingerprint."""
        arrays = self.quality() | {
            "theta": self.theta,
            "last_step": self.last_step,
            "client_memory": self.client_memory,
            "costs": torch.tensor([self.client_epochs, self.seconds + seconds]).double(),
        }
        arrays |= {
            f"strategy.{name}": value for name, value in strategy.state_dict().items()
        }
        plain = {name: to_numpy(array) for name, array in arrays.items()}
        for name in NOTED:
            plain |= getattr(self, name).arrays(name)
        files.save(path, mark, **plain)


def to_numpy(array: Tensor) -> np.ndarray:
    """A tensor of any device as an array."""
    return array.detach().cpu().numpy()


def resume(
    path: str | os.PathLike, mark: files.Mark, strategy: Strategy, fresh: Log, rounds: int
) -> Log:
    """The training that ``path`` holds, its strategy's state restored; ``fresh`` if there is none.

    ValueError if it belongs to other work or is longer than asked for.
    """
    saved = files.begin(path, mark)
    if saved is None:
        return fresh
    if "scores.counts" not in saved:
        raise ValueError(f"checkpoint: {path} is one of an older version; {files.ADVICE}")
    # The strategy's state at an earlier round is not in the file.
    if (done := len(saved["scores.counts"])) > rounds:
        raise ValueError(f"checkpoint: {path} holds {done} rounds, {rounds} asked")
    arrays = {name: torch.from_numpy(array) for name, array in saved.items()}
    names = [name for name in arrays if name.startswith("strategy.")]
    strategy.load_state_dict(
        {name.removeprefix("strategy."): arrays[name] for name in names}
    )
    client_epochs, seconds = arrays["costs"].tolist()
    log = Log(
        theta=arrays["theta"].to(fresh.theta),
        last_step=arrays["last_step"].to(fresh.theta),
        client_memory=arrays["client_memory"].to(fresh.client_memory),
        client_epochs=client_epochs,
        seconds=seconds,
    )
    for name in QUALITY:
        setattr(log, name, list(arrays[name]))
    for name in NOTED:
        setattr(log, name, Rows.from_arrays(name, arrays))
    return log
