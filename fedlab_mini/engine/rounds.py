"""Rounds: what a server may see of a round, what a strategy is, what a training leaves behind.

Chapter 1 introduces them. Below: model. Above: log, loop, methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from .model import Model

if TYPE_CHECKING:
    import pandas


def frame(index: str | None = None, **columns: Tensor) -> pandas.DataFrame:
    """Columns [N] of any device as a pandas table; ``index`` names its rows, ids 0..N-1."""
    import pandas  # here, since it takes a second to import

    table = pandas.DataFrame({name: part.cpu().numpy() for name, part in columns.items()})
    return table if index is None else table.rename_axis(index)


@dataclass(frozen=True)
class Cost:
    """What a result cost: client epochs trained and models evaluated, beside seconds."""

    client_epochs: float = 0.0
    model_evaluations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Server:
    """What a strategy may know before round 1: K, the model, the validation set, a seed."""

    clients: int
    classes: int
    net: Model
    validation: tuple[Tensor, Tensor]
    seed: int


@dataclass(frozen=True)
class Round:
    """What a strategy sees of round ``t`` (1, 2, ...): m participants, nothing of their data.

    theta [P]; clients [m] ids; sizes [m] samples; updates [m, P] local minus global parameters;
    missing: ids of clients that were asked and sent nothing usable.
    All of it may be kept: the next round writes to other memory then.
    """

    t: int
    theta: Tensor
    clients: Tensor
    sizes: Tensor
    updates: Tensor
    missing: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))


class Message(Protocol):
    """What a server asks of some clients beside training; each answers from its own data.

    ``answer`` is run by the client: with the model it is sent, its samples, its labels as they were
    at first and as they are now. It returns its new labels [n]; the server hears who changed any.
    """

    @property
    def clients(self) -> Tensor: ...

    def answer(
        self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor
    ) -> Tensor: ...


class Strategy(Protocol):
    """The server's side of a round; ``methods.fedavg.FedAvg`` is the base to inherit from.

    ``message`` and ``hear`` are the only channel beside training; who has nothing to say may lack
    both.
    """

    applied: Tensor

    @property
    def scores(self) -> Tensor: ...

    evaluations: int

    def start(self, server: Server) -> None: ...
    def select(self, t: int) -> Tensor: ...
    def aggregate(self, round: Round) -> Tensor: ...
    def message(self, t: int) -> Message | None: ...
    def hear(self, clients: Tensor) -> None: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


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
        return (
            f"History({len(self.scores)} rounds, {self.scores.shape[1]} clients, "
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
