"""Round scores: federated averaging that also gives each update of a round a number.

A score of your own inherits from ``RoundScore``. Values of the round's game [Song et al. 2019] and
the two series of chapter 2 are such scores. They differ from FedAvg in nothing but the score: the
trained model has the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ..engine.rounds import Round, Server, State, Step
from ..games import sampling, shapley
from ..games.estimate import Estimate
from ..games.game import Game
from ..games.round_tables import gradient, hessian_product, round_table
from ..parse.checks import choice, instance, reals, whole
from ..parse.metric import Metric
from ..parse.settings import Count, between
from .fedavg import FedAvg, Weighting

Scored = Tensor | tuple[Tensor, int]  # scores [m], maybe with a count of models


def _callable(name: str, value: object) -> Callable[..., Any]:
    if isinstance(value, type):
        raise TypeError(f"{name}: expected a function such as fm.exact, got the class {value}")
    return instance(name, value, Callable, "a function such as fm.exact")  # type: ignore


def few_or_many(game: Game) -> Estimate:
    """Shapley values of a game: exact up to 12 players, from 64 antithetic orderings with more."""
    if game.n <= 12:
        return shapley.exact(game)
    return sampling.permutation(game, 64, antithetic=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundScore(FedAvg):
    """Federated averaging that gives every update a number: inherit from it and write ``score``.

    metric    of the round's game and table, as in ``fm.round_game``
    discount  in (0, 1]: round t counts discount^(t - 1); 1 is the plain sum
    memory    in [0, 1): above 0, a moving average that keeps this share of the past replaces the
              sum; it begins with a client's first score

    scores [K]  the sum over rounds divided by their number (a round without the client counts 0),
                or the moving average
    state       FedAvg's, and now [K] the moving average; seen [K] rounds of a client
    raises      ValueError or TypeError naming the argument

    Warning: with a memory above 0, the discount decides nothing.
    """

    per_round: Count | None = None
    weighting: Weighting = "size"
    metric: Metric = "loss"
    discount: Annotated[float, between(0, 1, "(]")] = 1.0
    memory: Annotated[float, between(0, 1, "[)")] = 0.0

    def init(self, server: Server) -> State:
        """The state before round 1."""
        now = torch.zeros(server.clients, dtype=torch.float64)
        seen = torch.zeros(server.clients, dtype=torch.long)
        return super().init(server) | {"now": now, "seen": seen}

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The values of the round's updates, one number per client of the round: [m].

        A score that evaluates models also returns their number: (scores, evaluated). By default,
        the scores are the clients' weights, which is contribution by size.
        """
        return self._checked_weights(server, state, round)

    def scores(self, server: Server, state: State) -> Tensor:
        """Contribution of every client so far, [K]."""
        return state["now"] if self.memory else super().scores(server, state)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """Federated averaging's model [P]; stores the values of the round's updates."""
        weights, clients = self._checked_weights(server, state, round), round.clients
        found = self.score(server, state, round)
        found, evaluated = found if isinstance(found, tuple) else (found, 0)
        name = f"{type(self).__name__}.score"
        scores = reals(name, found, [len(clients)], dtype=torch.float64).cpu()
        # A client that is scored for the first time has no past to keep.
        memory = self.memory * (state["seen"][clients] > 0).double()
        state["now"][clients] = memory * state["now"][clients] + (1 - memory) * scores
        state["seen"][clients] += 1
        self.count(state, round, scores * self.discount ** (round.t - 1))
        return Step(round.theta + weights @ round.updates, weights, state, evaluated)

    def table(self, server: Server, round: Round, absent: str = "left out") -> Game:
        """The round's game, which all methods share."""
        absent = choice("absent", absent, ("left out", "silent"))
        return round_table(round, server, self.metric, absent)


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundValue(RoundScore):
    """A value of each round's game, such as ``RoundValue(fm.banzhaf)``; by default Shapley's.

    value   any function of a ``Game`` that returns an ``Estimate``; default: Shapley values, exact
            up to 12 clients a round
    absent  how clients outside a coalition are treated: "left out" or "silent" (``fm.round_game``)

    With Shapley values, this is multi-round reconstruction [Song et al. 2019]; with a ``discount``
    it is lambda-MR. Under partial participation it is the federated Shapley value [Wang et al.
    2020]: a client that is not selected earns 0 in that round.
    """

    value: Annotated[Callable[..., Any], _callable] = field(default=few_or_many, kw_only=False)
    absent: Literal["left out", "silent"] = "left out"

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """The values of the round's game, [m], and the number of coalitions it evaluates."""
        game = self.table(server, round, self.absent)
        with game.tally() as asked:
            estimate = self.value(game)
        estimate = instance("value", estimate, Estimate, "what fm.exact returns")
        return estimate.values, len(asked)


@dataclass(frozen=True, eq=False, kw_only=True)
class Taylor(RoundScore):
    """The effect of an update on the validation loss, from a gradient and maybe a Hessian product.

    order  1: -w_i delta_i . g; 2: -w_i delta_i . (g + H U / 2) with U = sum_j w_j delta_j, the
           Shapley value of the silent round game if the loss were quadratic
    source [Wang, J. et al. 2022, DIG-FL] for order 1; chapter 2's closed form for order 2
    """

    order: Annotated[int, partial(whole, low=1, high=2)] = field(default=2, kw_only=False)

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """First- or second-order values of the round's updates, [m]; needs no evaluation."""
        weights, updates = self._checked_weights(server, state, round), round.updates
        direction = gradient(round, server)
        if self.order == 2:
            direction = direction + hessian_product(round, server, weights @ updates) / 2
        # In float64, so that equal updates have equal scores; row by row, to copy one at a time.
        direction = direction.double()
        slopes = torch.stack([update.double() @ direction for update in updates])
        return -(weights * slopes)
