"""Watch: one training that many methods see at once. Below: methods, games' tables."""

from __future__ import annotations

import time
from collections.abc import Mapping

from torch import Tensor

from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State, Step, Strategy
from fedlab_mini.games import round_tables
from fedlab_mini.judge.own import is_guest
from fedlab_mini.streams import one_thread
from fedlab_mini.worlds.data.dataset import Samples
from fedlab_mini.worlds.federation import Federation

from ..registry import Method
from .methods import watcher


class Watch:
    """Shows every round to many methods, on one or more servers: ``train(..., watch=Watch(...))``.

    methods  {name: method}; each may say what it likes, the model stays the training's
    servers  {name: server}: one for each set of validation samples
    """

    def __init__(self, methods: Mapping[str, Method], servers: Mapping[str, Server]):
        self.methods = methods
        self.strategies: dict[str, Strategy] = {n: watcher(m) for n, m in methods.items()}
        self.guests = {name for name, method in methods.items() if is_guest(method)}
        # What a guest writes to is its own.
        self.servers = {
            samples: {n: server.copy() if n in self.guests else server for n in methods}
            for samples, server in servers.items()
        }
        self.states: dict[str, dict[str, State]] = {
            samples: {
                n: s.init(self.servers[samples][n]) for n, s in self.strategies.items()
            }
            for samples in servers
        }
        self.evaluated: dict[str, dict[str, int]] = {
            samples: dict.fromkeys(methods, 0) for samples in servers
        }

    @staticmethod
    def of(
        methods: Mapping[str, Method],
        fed: Federation,
        net: Model,
        seed: int,
        samples: Mapping[str, Samples] | None = None,
    ) -> Watch:
        """For a training of these clients; samples default to {"": its validation samples}."""
        servers = {
            name: Server(fed.clients, fed.classes, net, validation, seed)
            for name, validation in (samples or {"": fed.validation}).items()
        }
        return Watch(methods, servers)

    def __call__(self, round: Round, step: Step) -> None:
        """Show the round to everybody."""
        self.last_round = round
        for samples, evaluated in self.evaluated.items():
            # Who evaluates most goes first: the others then find the round's table filled.
            for name in sorted(self.methods, key=lambda one: -evaluated[one]):
                own = round.copy() if name in self.guests else round
                state, server = self.states[samples][name], self.servers[samples][name]
                done = self.strategies[name].step(server, state, own)
                self.states[samples][name] = done.state
                evaluated[name] += done.evaluated

    def scores_on(self, samples: str = "") -> dict[str, Tensor]:
        """Scores [K] of every method on a set of samples, as they now are."""
        states, servers = self.states[samples], self.servers[samples]
        return {
            name: strategy.scores(servers[name], states[name]).double().cpu()
            for name, strategy in self.strategies.items()
        }

    def evaluations_of(self, method: str) -> int:
        """Models that a method evaluated, as if it had been alone."""
        return self.evaluated[""][method]

    def seconds_a_round(self, method: str) -> float:
        """CPU seconds of the last round for a method by itself, with an empty table: best of 3."""
        # The least: whatever disturbs a measurement makes it longer.
        return min(self._seconds_once(method) for _ in range(3))

    def _seconds_once(self, method: str) -> float:
        strategy, server = self.strategies[method], self.servers[""][method]
        state = strategy.init(server)
        # Otherwise the methods before it would have paid for the round's table.
        round_tables.forget(self.last_round)
        with one_thread():
            start = time.process_time()
            strategy.step(server, state, self.last_round)
            return time.process_time() - start
