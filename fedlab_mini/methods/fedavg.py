"""FedAvg: federated averaging [McMahan et al. 2017], the base of every strategy. Chapter 1.

A strategy is the server's side of a round: a frozen configuration, and functions of the server and
of a state. What differs from the paper: clients send updates, weights may also be equal, and the
mean weight is a score. Override ``select``, ``weights`` or ``step``. Annotations check
the options. If a paper has another default, write ``= ours(value, printed=...)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from ..engine.rounds import Message, Round, Server, State, Step
from ..parse.settings import Count, Settings, options_of
from ..streams import stream

Weighting = Literal["size", "uniform"]


def versus(choices: Mapping[str, tuple[object, object]]) -> dict[str, dict[str, str]]:
    """The choices {name: (printed, ours)} whose two values differ, as text."""

    def word(value: object) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value or "none")

    return {
        setting: {"as printed": word(printed), "ours": word(ours)}
        for setting, (printed, ours) in choices.items()
        if printed != ours
    }


class Configuration(Settings):
    """An object whose attributes cannot change: a strategy stores things only in its state."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name}: a strategy's attributes are fixed; add to init's state "
            f'an entry "{name}", and write to state["{name}"] in step'
        )


@dataclass(frozen=True, eq=False)
class FedAvg(Configuration):
    """Federated averaging: theta + sum_k (n_k / n) delta_k over the participants.

    per_round  how many clients are drawn at random each round; None: all
    weighting  "size" (n_k / n) or "uniform" (1 / m)

    scores [K]  mean aggregation weight of every client so far: contribution by size
    state       rounds: the number of rounds; total [K]: the sum of a client's scores over them
    raises      ValueError or TypeError naming the argument
    source      [McMahan et al. 2017, Algorithm 1]
    """

    per_round: Count | None = None
    weighting: Weighting = "size"

    @classmethod
    def printed(cls, **asked: Any) -> Self:
        """The name that ``literal=True`` had in version 2.0; kept for one release."""
        told = f"{cls.__name__}.printed() is now {cls.__name__}(literal=True)"
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        options: dict[str, Any] = {"literal": True} if options_of(cls) else {}
        return cls(**options | asked)

    @classmethod
    def departures(cls) -> dict[str, dict[str, str]]:
        """Paper versus code, for ``plots.table``: options with a default other than the paper's."""
        return versus({name: (both.printed, both.ours) for name, both in options_of(cls).items()})

    def init(self, server: Server) -> State:
        """The state before round 1."""
        if self.per_round is not None and self.per_round > server.clients:
            raise ValueError(f"per_round: {self.per_round} of {server.clients} clients")
        total = torch.zeros(server.clients, dtype=torch.float64)
        return {"rounds": torch.tensor(0), "total": total}

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids of the clients that are selected for round ``t``."""
        if self.per_round is None:
            return torch.arange(server.clients)
        order = torch.randperm(server.clients, generator=stream(server.seed, "selection", t))
        # Sorted, so that sums over the same clients do not depend on the order of the ids.
        return order[: self.per_round].sort().values

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """Aggregation weights [m] of the round's participants."""
        amounts = round.sizes.double()
        if self.weighting == "uniform":
            amounts = torch.ones_like(amounts)
        return (amounts / amounts.sum()).to(round.updates)

    def _checked_weights(self, server: Server, state: State, round: Round) -> Tensor:
        """The result of ``weights``, which subclasses may override: checked, [m]."""
        given, like = self.weights(server, state, round), round.updates
        found = torch.as_tensor(given, dtype=like.dtype, device=like.device)
        if found.shape != round.clients.shape:
            expected = f"an array [{len(like)}], got one of shape {list(found.shape)}"
            raise ValueError(f"{type(self).__name__}.weights: expected {expected}")
        return found

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The new global model [P], the weights behind it, and the new state."""
        weights = self._checked_weights(server, state, round)
        self.count(state, round, weights)  # the scores of FedAvg are its weights
        # Chapter 1, step 4: [m] @ [m, P] -> [P]; the mean of models is theta + the mean update.
        return Step(round.theta + weights @ round.updates, weights, state)

    def scores(self, server: Server, state: State) -> Tensor:
        """Contribution of every client so far, [K]."""
        return state["total"] / state["rounds"].clamp(min=1)

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """What the server sends to clients besides its model, after round ``t``; None: nothing."""
        return None

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The state after the clients ``changed`` reported that they changed something."""
        return state

    @staticmethod
    def count(state: State, round: Round, scores: Tensor) -> None:
        """Count the round in the state, and add its clients' scores [m] to their totals."""
        if "rounds" not in state:
            raise ValueError(
                "init: write super().init(server) | {...}, because count needs its entries"
            )
        state["rounds"] += 1
        state["total"][round.clients] += scores.detach().double().cpu()
