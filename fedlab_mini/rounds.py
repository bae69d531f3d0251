"""Rounds: what a server may see of a round, what a strategy is, what a training leaves behind.

Chapter 1 introduces them. Below: federation, model. Above: training, methods.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from . import checkpoint as files
from .model import Model

COLUMNS = ("scores", "weights", "selected")


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
    The next round overwrites ``updates``: clone what you want to keep.
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

    clients: Tensor

    def answer(
        self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor
    ) -> Tensor: ...


class Strategy(Protocol):
    """The server's side of a round; ``methods.fedavg.FedAvg`` is the base to inherit from.

    ``message`` and ``hear`` are the only channel beside training; who has nothing to say may lack
    both.
    """

    scores: Tensor
    applied: Tensor
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
    theta [P]               the final model; strategy: with its state; cost: see ``Cost``
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


@dataclass
class Log:
    """What a training has done so far, and how it gets to disk and back."""

    theta: Tensor
    previous: Tensor  # the server's last step, for attackers that replay it
    curve: list[tuple[float, float]]
    labels: Tensor  # of all client samples, as the clients now have them
    rows: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    epochs: float = 0.0
    seconds: float = 0.0  # of earlier, interrupted calls

    @property
    def done(self) -> int:
        return len(self.rows)

    def columns(self) -> list[Tensor]:
        return [torch.stack(column) for column in zip(*self.rows, strict=True)]

    def history(self, strategy: Strategy, seconds: float) -> History:
        scores, weights, selected = self.columns()
        accuracy, loss = torch.tensor(self.curve, dtype=torch.float64).T
        cost = Cost(self.epochs, strategy.evaluations, self.seconds + seconds)
        made = (self.theta, strategy, cost, self.labels)
        return History(accuracy, loss, scores, weights, selected, *made)

    def save(self, path: str | os.PathLike, mark: str, strategy: Strategy, seconds: float) -> None:
        arrays = dict(zip(COLUMNS, self.columns(), strict=True))
        arrays |= {"theta": self.theta, "previous": self.previous, "labels": self.labels}
        arrays |= {f"strategy.{name}": part for name, part in strategy.state_dict().items()}
        arrays |= {"curve": torch.tensor(self.curve, dtype=torch.float64)}
        arrays |= {"spent": torch.tensor([self.epochs, self.seconds + seconds]).double()}
        arrays = {name: part.detach().cpu().numpy() for name, part in arrays.items()}
        files.save(path, mark, **arrays)


def resume(
    path: str | os.PathLike | None,
    mark: str,
    strategy: Strategy,
    rounds: int,
    theta: Tensor,
    labels: Tensor,
) -> Log | None:
    """The training that ``path`` holds, with its strategy's state restored; None if there is none.

    ValueError if it belongs to other work or is longer than asked for.
    """
    saved = None if path is None else files.begin(path, mark)
    if saved is None:
        return None
    part = {name: torch.from_numpy(array) for name, array in saved.items()}
    if len(part["scores"]) > rounds:
        raise ValueError(f"checkpoint: {path} holds {len(part['scores'])} rounds, {rounds} asked")
    strategy.load_state_dict(
        {name[9:]: value for name, value in part.items() if name.startswith("strategy.")}
    )
    rows = list(zip(*(part[name].unbind() for name in COLUMNS), strict=True))
    curve = [tuple(pair) for pair in part["curve"].tolist()]
    models = (part["theta"].to(theta), part["previous"].to(theta))
    labels = part["labels"].to(labels)
    return Log(*models, curve, labels, rows, *part["spent"].tolist())
