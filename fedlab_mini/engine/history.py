"""History: what a training has done so far, how it gets to disk and back, and what it leaves.

Chapter 1 introduces it. Below: checkpoint, rounds. Above: train, guard.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
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
    table = pandas.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    return table if index is None else table.rename_axis(index)


@dataclass(frozen=True)
class Cost:
    """What a result cost: client epochs trained and models evaluated, beside seconds."""

    client_epochs: float = 0.0
    model_evaluations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class History:
    """What happened: T rounds, K clients.

    accuracy, loss [T + 1]  on the test set, index 0 before training
    scores, weights [T, K]  contribution after, and aggregation weight in, each round
    selected [T, K]         who was asked to take part
    theta [P]               the final model; cost: see ``Cost``
    strategy                a copy of the one that was trained, with its state at the end; the one
                            that was given to ``train`` may be used again and changes nothing here
    labels [n]              all clients' labels at the end; they differ from the federation's only
                            where a strategy's message made clients rename theirs
    """

    accuracy: Tensor
    loss: Tensor
    scores: Tensor
    weights: Tensor
    selected: Tensor
    theta: Tensor
    strategy: Strategy
    cost: Cost = field(default_factory=Cost)
    labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    def __repr__(self) -> str:
        rounds, clients = self.scores.shape
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


COLUMNS = ("accuracy", "loss", "scores", "weights", "selected")


@dataclass
class Log:
    """The rounds so far, and all that the next ones depend on beside the strategy's state.

    theta, last_step [P]  the global model, and what the last round added to it, for attackers
    client_memory         what the clients have changed, such as labels; see ``rounds.Workers``
    accuracy, loss        of the models so far, scores, weights, selected [K] of the rounds so far
    seconds               of earlier, interrupted calls
    """

    theta: Tensor
    last_step: Tensor
    client_memory: Tensor
    accuracy: list[Tensor] = field(default_factory=list)
    loss: list[Tensor] = field(default_factory=list)
    scores: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    selected: list[Tensor] = field(default_factory=list)
    client_epochs: float = 0.0
    seconds: float = 0.0

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(self.scores)

    def columns(self) -> dict[str, Tensor]:
        """What was noted of every model and round, stacked."""
        return {name: torch.stack(getattr(self, name)) for name in COLUMNS}

    def history(self, strategy: Strategy, seconds: float, labels: Tensor) -> History:
        """What the training leaves behind after this many seconds of this call."""
        cost = Cost(self.client_epochs, strategy.evaluations, self.seconds + seconds)
        # Stacked only now: a round appends, and copies nothing.
        columns = self.columns()
        return History(**columns, theta=self.theta, strategy=strategy, cost=cost, labels=labels)

    def save(
        self, path: str | os.PathLike, mark: files.Mark, strategy: Strategy, seconds: float
    ) -> None:
        """Write the rounds so far, and the strategy's state, under the work's fingerprint."""
        arrays = self.columns() | {
            "theta": self.theta,
            "last_step": self.last_step,
            "client_memory": self.client_memory,
            "costs": torch.tensor([self.client_epochs, self.seconds + seconds]).double(),
        }
        arrays |= {f"strategy.{name}": value for name, value in strategy.state_dict().items()}
        files.save(path, mark, **{name: to_numpy(array) for name, array in arrays.items()})


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
    # The strategy's state at an earlier round is not in the file.
    if (done := len(saved["scores"])) > rounds:
        raise ValueError(f"checkpoint: {path} holds {done} rounds, {rounds} asked")
    arrays = {name: torch.from_numpy(array) for name, array in saved.items()}
    names = [name for name in arrays if name.startswith("strategy.")]
    strategy.load_state_dict({name.removeprefix("strategy."): arrays[name] for name in names})
    client_epochs, seconds = arrays["costs"].tolist()
    return Log(
        theta=arrays["theta"].to(fresh.theta),
        last_step=arrays["last_step"].to(fresh.theta),
        client_memory=arrays["client_memory"].to(fresh.client_memory),
        client_epochs=client_epochs,
        seconds=seconds,
        **{name: list(arrays[name]) for name in COLUMNS},
    )
