"""Rounds: what a server sees of a round, what a strategy is, and how a server reaches clients.

Chapter 1 introduces them. The server of [McMahan et al. 2017] averages. Here a strategy decides who
is selected and with what weight, gives scores, and may send clients a message after a round.
Its state is passed in and returned, and it stores nothing in itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .model import Model
from .outputs import fresh_copy

State = dict[str, Tensor]  # all that later rounds depend on; a history's file contains it


@dataclass(frozen=True)
class Server:
    """What a strategy may know before round 1: K, the model, the validation set, a seed."""

    clients: int
    classes: int
    net: Model
    validation: tuple[Tensor, Tensor]
    seed: int

    def copy(self) -> Server:
        """A server with copies of the model and of the validation samples."""
        # There are no samples if rounds are scored without any.
        samples: Any = tuple(part.clone() for part in self.validation)
        return replace(self, net=fresh_copy(self.net), validation=samples)


@dataclass(frozen=True)
class Round:
    """What a strategy sees of round ``t`` (1, 2, ...): m participants, but not their data.

    theta [P]; clients [m] ids; sizes [m] samples; updates [m, P] local minus global parameters;
    missing: ids of selected clients that sent nothing usable; memo: its games, for reuse.
    A strategy may keep all of it, because the next round uses other memory. But it may write into
    copies only.
    """

    t: int
    theta: Tensor
    clients: Tensor
    sizes: Tensor
    updates: Tensor
    missing: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def copy(self) -> Round:
        """A round that shares no memory with this one and has an empty ``memo``."""
        names = ("theta", "clients", "sizes", "updates", "missing")
        return replace(self, **{name: getattr(self, name).clone() for name in names})


class Step(NamedTuple):
    """What a strategy returns for a round.

    theta [P]  the next global model; weights [m] of the round's participants in it
    state      all that later rounds depend on
    evaluated  how many models were evaluated on the validation samples: the cost
    named      ids of clients that a defence accuses; it decides nothing, the history keeps it
    """

    theta: Tensor
    weights: Tensor
    state: State
    evaluated: int = 0
    named: tuple[int, ...] = ()


class Message(Protocol):
    """What a server asks of some clients besides training; each answers from its own data.

    Only label standardisation (chapter 9) asks.

    The client runs ``answer`` with the model that it receives, its samples, its first labels and
    its present labels. It returns new labels [n]; the server learns only which clients changed any.
    """

    @property
    def clients(self) -> Tensor: ...

    def answer(
        self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor
    ) -> Tensor: ...


class Strategy(Protocol):
    """The rule by which a server makes a model of updates: options, and functions of a state.

    ``methods.fedavg.FedAvg`` is the base to inherit from. A strategy stores nothing in itself. All
    that it remembers is in the state that it returns, so the same object can be used for several
    training runs. ``message`` and ``heard`` are the only way to reach clients besides training.
    """

    def init(self, server: Server) -> State:
        """The state before round 1."""

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids of the clients that are selected for round ``t``."""

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The round's result; ``state`` is a copy, so ``step`` may write into it."""

    def scores(self, server: Server, state: State) -> Tensor:
        """Contribution of every client so far, [K]."""

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """What the server sends to clients besides its model, after round ``t``; None: nothing."""

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The state after the clients ``changed`` have changed labels; ``state`` is a copy, too."""


def copied(state: State) -> State:
    """A copy of the state that shares no memory with it."""
    return {name: tensor.clone() for name, tensor in state.items()}


class Workers(Protocol):
    """The clients' side of a round: the interface through which a server reaches its K clients.

    sizes [K]  how many samples each client holds; any number for a client that never answers
    memory     what a history must store of the clients, tensors by name; ``restore`` loads it again
    labels     all clients' labels at the end, if this process has them; otherwise empty
    """

    @property
    def sizes(self) -> Tensor: ...
    @property
    def memory(self) -> State: ...
    @property
    def labels(self) -> Tensor: ...

    def restore(self, memory: State) -> None: ...

    @property
    def of_clients(self) -> Callable[[], dict[str, str]]:
        """A function that returns all that the clients' training depends on, part by part."""

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which of the clients ``chosen`` sent something in round ``t``, and their updates [m, P].

        ids [m] in the order of ``chosen``; last_step [P] is for attacks that read it
        """

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of the ``clients`` that changed labels after a message in round ``t``."""
