"""FedAvg: the base of every strategy. Chapter 1 derives it.

A strategy is the server's side of a round: override ``select``, ``weights`` or ``aggregate``. It
says what it is asked (its fields), what it remembers (``KEPT``), and where the book departs from
the paper (``OURS`` and ``PRINTED``); constructors, checks and states follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..checks import choice, flag, whole
from ..engine.rounds import Message, Round, Server
from ..streams import stream

Check = Callable[[str, Any], Any]  # (name, value) -> the value to keep, or a ValueError, TypeError


def optional(check: Check) -> Check:
    """A check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def versus(choices: Mapping[str, tuple[object, object]]) -> dict[str, dict[str, str]]:
    """Those of the choices {name: (printed, ours)} that differ, in words."""

    def word(value: object) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value or "none")

    return {
        name: {"as printed": word(printed), "ours": word(ours)}
        for name, (printed, ours) in choices.items()
        if printed != ours
    }


@dataclass(eq=False)
class FedAvg:
    """Federated averaging: theta + sum_k (n_k / n) delta_k over the participants.

    per_round  how many clients are drawn at random each round; None: all
    weighting  "size" (n_k / n) or "uniform" (1 / m)

    scores [K]   mean aggregation weight of every client so far: contribution by size
    applied [K]  the weights of the last round, 0 for absent clients
    evaluations  models the server has evaluated
    raises       ValueError or TypeError naming the argument
    source       [McMahan et al. 2017, Algorithm 1]
    """

    per_round: int | None = None
    weighting: str = "size"

    # attributes (or attributes of attributes) that the coming rounds depend on, set by ``start``
    KEPT: ClassVar[tuple[str, ...]] = ("rounds", "evaluations", "total", "applied")
    # what a field left at None becomes, as the book chooses and (with literal=True) as printed;
    # where PRINTED says None, the text has no such thing: literal=True drops it, whatever is given
    OURS: ClassVar[Mapping[str, object]] = {}
    PRINTED: ClassVar[Mapping[str, object]] = {}
    CHECKS: ClassVar[dict[str, Check]] = {
        "per_round": optional(whole),
        "weighting": partial(choice, accepted=("size", "uniform")),
        "literal": flag,
    }

    def __post_init__(self) -> None:
        literal = flag("literal", getattr(self, "literal", False))
        for name, printed in self.PRINTED.items():
            if literal and (printed is None or getattr(self, name) is None):
                setattr(self, name, printed)
            elif printed is not None and getattr(self, name) is None:
                setattr(self, name, self.OURS[name])
        for name, check in self.CHECKS.items():
            if hasattr(self, name):
                setattr(self, name, check(name, getattr(self, name)))

    @classmethod
    def departures(cls) -> dict[str, dict[str, str]]:
        """Paper versus code, for ``plots.table``: choices that differ, as printed and ours."""
        return versus({name: (printed, cls.OURS[name]) for name, printed in cls.PRINTED.items()})

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        if self.per_round is not None and self.per_round > server.clients:
            raise ValueError(f"per_round: {self.per_round} of {server.clients} clients")
        self.server = server
        self.evaluations = 0
        self.rounds = 0
        self.total = torch.zeros(server.clients, dtype=torch.float64)
        self.applied = torch.zeros(server.clients)

    @property
    def scores(self) -> Tensor:
        """Contribution of every client so far, [K]."""
        return self.total / max(self.rounds, 1)

    def select(self, t: int) -> Tensor:
        """Ids of the clients asked to take part in round ``t``."""
        if self.per_round is None:
            return torch.arange(self.server.clients)
        order = torch.randperm(
            self.server.clients, generator=stream(self.server.seed, "selection", t)
        )
        return order[: self.per_round].sort().values

    def weights(self, round: Round) -> Tensor:
        """Aggregation weights [m] of the round's participants."""
        share = round.sizes.double()
        if self.weighting == "uniform":
            share = torch.ones_like(share)
        return (share / share.sum()).to(round.updates)

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; records the weights that made it."""
        weights = self.weights(round)
        self.record(round, weights, weights)
        return round.theta + weights @ round.updates

    def message(self, t: int) -> Message | None:
        """What clients are asked beside training, after round ``t``; None: nothing."""
        return None

    def hear(self, clients: Tensor) -> None:
        """Ids of the clients that changed something on a message; nothing else comes back."""

    def record(self, round: Round, weights: Tensor, scores: Tensor) -> None:
        """Note the weights [m] applied in a round, and what it adds to its clients' scores [m]."""
        self.applied = torch.zeros(self.server.clients, dtype=weights.dtype, device=weights.device)
        self.applied[round.clients] = weights
        self.rounds += 1
        self.total[round.clients] += scores.detach().double().cpu()

    def state_dict(self) -> dict[str, Tensor]:
        """All that the coming rounds depend on, as tensors; ``load_state_dict`` restores it."""
        state = {"kind": torch.tensor(list(type(self).__name__.encode()))}
        for name in self.KEPT:
            value = attrgetter(name)(self)
            kind = torch.float64 if isinstance(value, float) else None
            state[name] = torch.as_tensor(value, dtype=kind).detach().clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where ``state_dict`` was taken; call ``start`` before.

        ValueError if the state belongs to another strategy or number of clients
        """
        own = self.state_dict()
        shapes = {name: list(part.shape) for name, part in state.items()}
        same = shapes == {name: list(part.shape) for name, part in own.items()}
        if not same or not torch.equal(state["kind"], own["kind"]):
            raise ValueError(f"state: {type(self).__name__} of these clients cannot hold {shapes}")
        for name in self.KEPT:
            path, _, last = name.rpartition(".")
            old: Any = attrgetter(name)(self)
            kept = state[name].clone().requires_grad_(getattr(old, "requires_grad", False))
            setattr(
                attrgetter(path)(self) if path else self,
                last,
                kept if torch.is_tensor(old) else kept.item(),
            )
