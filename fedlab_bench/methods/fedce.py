"""FedCE: which update has another direction, and without which update the model is worse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.methods.numerics import bounded, of_usual_size
from fedlab_mini.methods.round_scores import RoundScore, Scored
from fedlab_mini.parse.settings import between

from .neighbours import ROUNDING


@dataclass(frozen=True, eq=False, kw_only=True)
class FedCE(RoundScore):
    """Contribution from the direction of an update and from the error of the model without it.

    Coefficients lambda start equal and have sum 1. A round redistributes only the sum of its own
    clients, so a small round makes no client large. With their lambda scaled to sum 1 in the round,

        direction  g_k = 1 - mean of cos(delta_k, R_k) over the client's rounds,
                   R_k = sum_{j != k} lambda_j delta_j
        error      e_k = mean of 1 and the errors of theta + R_k / (1 - lambda_k) in earlier rounds
        new        lambda = g + e or g * e, where g, e and lambda are scaled to sum 1

    mix     "plus", as in the authors' recipe, or "times"
    floor   least value of g, e and lambda
    metric  "accuracy": the error is 1 minus it, as published; "loss": the error is the loss

    scores [K]  lambda; 0 for clients never seen
    Departures: in the paper, each client judges the model without it on its own samples, which a
    server does not see; here the server's samples serve all. In the paper, lambda is the
    aggregation weight; here federated averaging does not change. In the paper, all clients are in
    every round; the redistribution within a round is ours, and lambda sums to 1 after the floor.
    Cost        m evaluations per round
    source      [Jiang et al. 2023], and its authors' code in NVFLARE
    """

    mix: Literal["plus", "times"] = "plus"
    floor: Annotated[float, between(0, 1, "[)")] = 1e-3
    metric: str = "accuracy"
    discount: float = field(default=1.0, init=False, repr=False)
    memory: float = field(default=0.0, init=False, repr=False)

    def init(self, server: Server) -> State:
        """The state before round 1: RoundScore's, and the sums over a client's rounds."""
        ones = torch.ones(server.clients, dtype=torch.float64)
        # The sums of errors begin with an error of 1.
        sums = {"cosines": torch.zeros_like(ones), "errors": ones}
        return super().init(server) | {"coefficients": ones / server.clients} | sums

    def scores(self, server: Server, state: State) -> Tensor:
        """The coefficients of the clients, [K]."""
        return state["coefficients"] * (state["seen"] > 0)

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The new coefficients of the round's clients, [m]."""
        clients, updates = round.clients, round.updates.double().cpu()
        old = state["coefficients"][clients]
        _, rest = self._without(updates, old / old.sum())
        state["cosines"][clients] += torch.cosine_similarity(
            of_usual_size(updates), of_usual_size(rest), dim=1
        )
        # ``step`` counts a round after its score, so "seen" does not include this round.
        rounds = state["seen"][clients] + 1
        direction = self._scaled(1 - state["cosines"][clients] / rounds)
        # Errors of earlier rounds; those of this round are measured later, with new coefficients.
        error = self._scaled(state["errors"][clients] / rounds)
        mixed = direction + error if self.mix == "plus" else direction * error
        new = self._scaled(mixed)
        new = new / new.sum()
        others, rest = self._without(updates, new)
        state["errors"][clients] += self._error(server, round, rest / others)
        # Absent clients keep their coefficients, so the sum of all coefficients does not change.
        absent = state["coefficients"].sum() - old.sum()
        state["coefficients"][clients] = new * (1 - absent)
        return state["coefficients"][clients], len(clients)

    @staticmethod
    def _without(updates: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the others' shares, [m, 1], and of their weighted updates, [m, P]."""
        others = shares[None] * (1 - torch.eye(len(shares), dtype=shares.dtype))
        # A single client has no others, and 0 / 1 does not change the model.
        total = others.sum(1, keepdim=True)
        return torch.where(total > 0, total, 1), others @ updates

    def _error(self, server: Server, round: Round, steps: Tensor) -> Tensor:
        """The error of the round's model after each step, [m]."""
        models = round.theta + steps.to(round.theta)
        measured = server.net.evaluate(models, *server.validation, self.metric).cpu()
        return bounded(measured) if self.metric == "loss" else 1 - measured

    def _scaled(self, amounts: Tensor) -> Tensor:
        """Amounts scaled to sum 1, then at least the floor; equal if all are 0."""
        total = amounts.sum()
        # Updates with the same direction have cosines of 1, up to rounding.
        if not total > ROUNDING:
            return torch.full_like(amounts, 1 / len(amounts))
        return (amounts / total).clamp(min=self.floor)
