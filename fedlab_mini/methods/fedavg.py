"""FedAvg: the base of every strategy. Chapter 1 derives it.

A strategy is the server's side of a round: override ``select``, ``weights`` or ``aggregate``.
"""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from ..rounds import Message, Round, Server
from ..streams import stream


class FedAvg:
    """Federated averaging: theta + sum_k (n_k / n) delta_k over the participants.

    per_round  how many clients are drawn at random each round; None: all
    weighting  "size" (n_k / n) or "uniform" (1 / m)

    scores [K]   mean aggregation weight of every client so far: contribution by size
    applied [K]  the weights of the last round, 0 for absent clients
    evaluations  models the server has evaluated
    raises       ValueError naming the argument         source [McMahan et al. 2017, Algorithm 1]
    """

    def __init__(self, per_round: int | None = None, weighting: str = "size"):
        if per_round is not None and (not isinstance(per_round, int) or per_round < 1):
            raise ValueError(f"per_round: expected a whole number of at least 1, got {per_round!r}")
        if weighting not in ("size", "uniform"):
            raise ValueError(f'weighting: expected "size" or "uniform", got {weighting!r}')
        self.per_round, self.weighting = per_round, weighting
        self.evaluations = 0

    def __repr__(self) -> str:
        inits = [
            vars(kind)["__init__"] for kind in type(self).__mro__[:-1] if "__init__" in vars(kind)
        ]
        names = dict.fromkeys(name for init in inits for name in inspect.signature(init).parameters)
        given = [f"{name}={getattr(self, name)!r}" for name in names if hasattr(self, name)]
        return f"{type(self).__name__}({', '.join(given)})"

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
        counts = torch.tensor([self.rounds, self.evaluations])
        kind = torch.tensor(list(type(self).__name__.encode()))
        return {
            "kind": kind,
            "counts": counts,
            "total": self.total.clone(),
            "applied": self.applied.clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where ``state_dict`` was taken; call ``start`` before.

        ValueError if the state belongs to another strategy or number of clients
        """
        own = self.state_dict()
        shapes = {name: list(part.shape) for name, part in state.items()}
        same = shapes == {name: list(part.shape) for name, part in own.items()}
        if not same or not torch.equal(state["kind"], own["kind"]):
            raise ValueError(f"state: {type(self).__name__} of these clients cannot hold {shapes}")
        self.rounds, self.evaluations = state["counts"].tolist()
        self.total, self.applied = state["total"].clone(), state["applied"].clone()
