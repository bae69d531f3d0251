"""Rounds: what a server may see of a round, what a strategy is, and how clients are reached.

Chapter 1 introduces them. Below: model. Above: history, train, methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .model import Model

State = dict[str, Tensor]  # all that the coming rounds depend on; what a file holds


@dataclass(frozen=True)
class Server:
    """What a strategy may know before round 1: K, the model, the validation set, a seed."""

    clients: int
    classes: int
    net: Model
    validation: tuple[Tensor, Tensor]
    seed: int

    def copy(self) -> Server:
        """A server that shares neither the model nor the validation samples with this one."""
        twin = replace(self, net=self.net.copy())
        if len(self.validation):  # none where rounds are scored without samples
            inputs, labels = self.validation
            twin = replace(twin, validation=(inputs.clone(), labels.clone()))
        return twin


@dataclass(frozen=True)
class Round:
    """What a strategy sees of round ``t`` (1, 2, ...): m participants, nothing of their data.

    theta [P]; clients [m] ids; sizes [m] samples; updates [m, P] local minus global parameters;
    missing: ids of clients that were asked and sent nothing usable.
    All of it may be kept, as the next round writes to other memory; who changes something of it
    works on a copy. memo: what was computed of it.
    """

    t: int
    theta: Tensor
    clients: Tensor
    sizes: Tensor
    updates: Tensor
    missing: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    memo: dict[Any, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def copy(self) -> Round:
        """A round that shares no memory with this one; what is computed of it is computed anew."""
        parts = {name: part for name, part in vars(self).items() if torch.is_tensor(part)}
        copies: dict[str, Any] = {name: part.clone() for name, part in parts.items()}
        return replace(self, **copies)


class Step(NamedTuple):
    """What a strategy makes of a round.

    theta [P]  the next global model; weights [m] of the round's participants in it
    state      all that the coming rounds depend on
    evaluated  models that were judged on the validation samples: the bill
    """

    theta: Tensor
    weights: Tensor
    state: State
    evaluated: int = 0


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
    """The server's side of a round: a frozen configuration, and functions of (server, state).

    ``methods.fedavg.FedAvg`` is the base to inherit from. It keeps nothing to itself: all that it
    remembers is the state that it returns, so the same object may train twice. ``message`` and
    ``heard`` are the only channel beside training.
    """

    def init(self, server: Server) -> State:
        """The state before round 1."""
        ...

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids of the clients asked to take part in round ``t``."""
        ...

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The round's outcome; ``state`` is a copy of its own, to write into."""
        ...

    def scores(self, server: Server, state: State) -> Tensor:
        """Contribution of every client so far, [K]."""
        ...

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """What clients are asked beside training, after round ``t``; None: nothing."""
        ...

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The state after the clients ``changed`` said that they changed labels; a copy, too."""
        ...


class ReadOnly(dict[str, Tensor]):
    """A state for the calls that only read it."""

    def __setitem__(self, name: str, value: Tensor) -> None:
        raise ValueError(
            f'state["{name}"]: only what step and heard return is remembered; write there'
        )


def copied(state: State) -> State:
    """The same state in memory of its own."""
    return {name: tensor.clone() for name, tensor in state.items()}


class Workers(Protocol):
    """The clients' side of a round: the K clients of a training, as its server reaches them.

    sizes [K]  samples each of them holds; for a client that never answers, any number
    memory     what of theirs a history has to hold; ``restore`` takes it back
    labels     all clients' labels at the end, if they are here; else empty
    """

    @property
    def sizes(self) -> Tensor: ...
    @property
    def memory(self) -> Tensor: ...
    @property
    def labels(self) -> Tensor: ...

    def restore(self, memory: Tensor) -> None: ...

    @property
    def made_from(self) -> Callable[[], dict[str, str]]:
        """Called, it says all that their training depends on, part by part."""
        ...

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, last_step: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Who of the clients ``chosen`` sent something in round ``t``, and the updates [m, P].

        ids [m] in the order of ``chosen``; last_step [P] what the server added to the model last
        """
        ...

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of those of the ``clients`` that changed labels on a message after round ``t``."""
        ...
