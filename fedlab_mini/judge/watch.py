"""Watch: strategies and functions of a round's game that score rounds, and change nothing.

Builds on own, engine and games. Above: ``fm.score``, compare, studies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..engine.rounds import Round, Server, State, Step, Strategy, copied
from ..games.estimate import Estimate
from ..games.training_games import round_game
from ..parse.checks import instance, reals
from ..parse.metric import Metric
from ..streams import one_thread
from .own import FunctionScore, is_guest, takes_round


class Watch:
    """Strategies that watch rounds, and functions that value each round's game.

    ``fm.train(..., watch=Watch(...))`` also shows it the rounds of a run, without any effect

    spare  a method that fails in a round is noted in ``failed``, and its scores are NaN
    """

    def __init__(
        self,
        methods: Mapping[str, Any],
        server: Server,
        metric: Metric = "loss",
        *,
        spare: bool = False,
    ):
        self.methods, self.server, self.metric, self.spare = methods, server, metric, spare
        self.failed: dict[str, Exception] = {}
        self.strategies: dict[str, Strategy] = {}
        self.servers: dict[str, Server] = {}
        self.states: dict[str, State] = {}
        self.totals: dict[str, Tensor] = {}  # sums of values over the rounds, [K]
        # How many models each strategy evaluates if it runs alone.
        self.evaluated = dict.fromkeys(methods, 0)
        self.rounds = 0  # rounds with a usable update
        self.present = torch.zeros(server.clients, dtype=torch.long)  # rounds of a client
        self.guests = {name for name, method in methods.items() if is_guest(method)}
        for method_name, method in methods.items():
            # A guest writes only to its own copy.
            own = server.copy() if method_name in self.guests else server
            self.servers[method_name] = own
            strategy = method
            if not hasattr(method, "step"):
                kinds = "a strategy, or a function of a game or of (round, server)"
                instance(f"methods: {method_name}", method, Callable, kinds)  # type: ignore[arg-type]
                if not takes_round(method):
                    self.totals[method_name] = torch.zeros(server.clients, dtype=torch.float64)
                    continue
                strategy = FunctionScore(function=method)
            self.strategies[method_name] = strategy
            self.states[method_name] = strategy.init(own)

    @one_thread()
    def __call__(self, this: Round, step: Step | None = None) -> Tensor:
        """Show all methods a round; return the model after federated averaging."""
        if not len(this.clients):
            return this.theta
        self.rounds += 1
        self.present[this.clients] += 1
        for method_name in [name for name in self.methods if name not in self.failed]:
            try:
                self._show(method_name, this)
            except Exception as error:  # a method may fail in any way
                if not self.spare:
                    raise
                self.failed[method_name] = error
        shares = (this.sizes / this.sizes.sum()).to(this.updates)
        return this.theta + shares @ this.updates

    def _show(self, method_name: str, this: Round) -> None:
        # A guest gets a copy, so it cannot change the round of others or the next model.
        own = this.copy() if method_name in self.guests else this
        if method_name not in self.strategies:
            self.totals[method_name][this.clients] += self._value(method_name, own)
            return
        strategy, told = self.strategies[method_name], self.servers[method_name]
        done = strategy.step(told, copied(self.states[method_name]), own)
        self.states[method_name] = done.state
        self.evaluated[method_name] += done.evaluated

    def _value(self, method_name: str, this: Round) -> Tensor:
        """A function's values of a round's game, [m]."""
        # Each method gets its own game, so its result does not depend on earlier methods.
        server = self.servers[method_name]
        game = round_game(
            server.net,
            this.theta,
            this.updates,
            *server.validation,
            metric=self.metric,
            weights=this.sizes.to(this.updates),
        )
        estimate = self.methods[method_name](game)
        return instance(method_name, estimate, Estimate, "what fm.exact returns").values

    def scores(self, by_round: bool = False) -> dict[str, Tensor]:
        """Each method's scores of all clients, [K], after all rounds."""
        rounds = max(1, self.rounds)
        own_rounds = self.present.clamp(min=1)
        scores, totals = {}, dict(self.totals)
        for method_name, strategy in self.strategies.items():
            if method_name in self.failed:
                continue
            state = self.states[method_name]
            said = strategy.scores(self.servers[method_name], state)
            found = reals(f"{method_name}.scores", said, [self.server.clients]).cpu().double()
            scores[method_name], total = found, state.get("total")
            # Is the score a mean over rounds?
            if total is not None and torch.equal(found, total / rounds):
                totals[method_name] = total
        for method_name, total in totals.items():
            scores[method_name] = total / (own_rounds if by_round else rounds)
        unknown = torch.full((self.server.clients,), torch.nan, dtype=torch.float64)
        scores |= dict.fromkeys(self.failed, unknown)
        return {method_name: scores[method_name] for method_name in self.methods}
