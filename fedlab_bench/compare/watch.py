"""Watch: one training that many methods see at once. Below: methods, games' tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from fedlab_mini.engine.model import one_thread
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.games import round_tables
from fedlab_mini.judge.own import is_guest
from fedlab_mini.methods.fedavg import FedAvg

from .methods import Method, watcher


@dataclass(eq=False, init=False)
class Watch(FedAvg):
    """Federated averaging that shows every round to many methods, on one or more servers.

    methods  {name: method}; each gets copies, and may say what it likes: the model stays FedAvg's
    samples  {name: validation samples}: a server for each
    """

    methods: Mapping[str, Method] = field(default_factory=dict)
    samples: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __init__(self, methods: Mapping, samples: Mapping, weighting: str = "size"):
        super().__init__(weighting=weighting)
        self.methods, self.samples = methods, samples

    def start(self, server: Server) -> None:
        """Start a copy of every method on every set of validation samples."""
        super().start(server)
        self._servers = {}
        self._watchers: dict[str, dict[str, Any]] = {}
        for name, validation in self.samples.items():
            own_server = replace(server, validation=validation)
            watchers = {method: watcher(maker) for method, maker in self.methods.items()}
            for method, strategy in watchers.items():
                guest = is_guest(self.methods[method])
                strategy.start(own_server.copy() if guest else own_server)
            self._servers[name], self._watchers[name] = own_server, watchers

    def aggregate(self, round: Round) -> Tensor:
        """Show the round to everybody; return federated averaging's model."""
        for watchers in self._watchers.values():
            # Who evaluates most goes first: the others then find the round's table filled.
            for name in sorted(watchers, key=lambda one: -watchers[one].evaluations):
                guest = is_guest(self.methods[name])
                watchers[name].aggregate(round.copy() if guest else round)
        self._last_round = round
        return super().aggregate(round)

    def scores_on(self, samples: str = "") -> dict[str, Tensor]:
        """Scores [K] of every method on a set of samples, after the training."""
        watchers = self._watchers[samples]
        return {
            name: strategy.scores.double().cpu() for name, strategy in watchers.items()
        }

    def evaluations_of(self, method: str) -> int:
        """Models that a method evaluated, as if it had been alone."""
        return self._watchers[""][method].evaluations

    def seconds_a_round(self, method: str) -> float:
        """CPU seconds of the last round for a method by itself, with an empty table: best of 3."""
        # The least: whatever disturbs a measurement makes it longer.
        return min(self._seconds_once(method) for _ in range(3))

    def _seconds_once(self, method: str) -> float:
        strategy = watcher(self.methods[method])
        strategy.start(self._servers[""])
        # Otherwise the methods before it would have paid for the round's table.
        round_tables.forget(self._last_round)
        with one_thread():
            start = time.process_time()
            strategy.aggregate(self._last_round)
            return time.process_time() - start
