"""Cell: one scenario, one seed: train, watch, judge.

Below: scenarios, methods, judge, training, games.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from ...engine.local import LocalSGD
from ...engine.model import one_thread
from ...engine.rounds import Round, Server
from ...engine.train import train
from ...games import round_tables as tables
from ...games import shapley
from ...games.training_games import retraining_game
from ...methods.fedavg import FedAvg
from ...methods.fedccea import contribution_index
from ..metrics import kendall
from .judge import judged
from .methods import Method, Retrained, watcher
from .scenarios import lesser, resampled

ROUNDS, LOCAL = 20, LocalSGD(epochs=1, batch=20, lr=0.2)
CEILING = "(the truth itself)"
Row = tuple[str, str, float]


def cell(
    methods: Mapping[str, Method],
    scenario: str,
    make: Callable,
    data: str,
    seed: int,
    *,
    rounds: int = ROUNDS,
    local: LocalSGD = LOCAL,
    metric: str = "loss",
) -> Iterator[Row]:
    """Rows (method, metric, value) of one scenario and seed.

    The truth is the exact value of retraining, twice, with two seeds of training; one against the
    other is the ceiling. A third training's rounds are what the methods see: as they are, with the
    validation samples drawn again, in another training, and where the aggregate is a plain mean
    """
    fed, net = make(data, seed)
    run = partial(train, fed, net, rounds=rounds, local=local)
    own = [5 * seed + s for s in range(5)]  # seeds of training: two truths, the rounds, again, use
    games = [retraining_game(fed, net, rounds, local, metric, s) for s in own[:2]]
    truths = [shapley.exact(game).values for game in games]
    worth = (games[0].all() + games[1].all()) / 2
    bad = lesser(scenario, fed)
    for name, value in judged(truths[0], truths[1:], worth, bad, seed):
        yield CEILING, name, value
    watching = {name: m for name, m in methods.items() if not isinstance(m, Retrained)}
    again = resampled(fed, seed)
    watch = Watch(watching, {"": fed.validation, "validation": again.validation})
    run(watch, seed=own[2])
    others = {"validation draw": watch.found("validation")}
    for name, s, weighting in (("training", own[3], "size"), ("aggregation", own[2], "uniform")):
        other = Watch(watching, {"": fed.validation}, weighting)
        run(other, seed=s)
        others[name] = other.found("")
    retrained = retraining_game(fed, net, rounds, local, metric, own[2])
    plain = float(run(FedAvg(), seed=own[4]).accuracy[-1])
    once, message = rounds * fed.clients * local.epochs, net.P * fed.x.element_size()
    yield CEILING, "accuracy of federated averaging", plain
    for name, method in methods.items():
        if isinstance(method, Retrained):
            start = time.process_time()
            estimate = method.estimator(retrained)
            scores = estimate.values
            epochs = estimate.client_epochs
            yield name, "client epochs", epochs
            yield name, "seconds", time.process_time() - start
        else:
            scores = watch.found("")[name]
            for what, found in others.items():
                yield name, f"stability, {what}", kendall(scores, found[name])
            yield name, "evaluations a round", watch.needed(name) / rounds
            epochs = once
            yield name, "client epochs", epochs
            yield name, "seconds", rounds * watch.seconds(name)
        for way in ("down", "up"):  # a model comes down, an update goes up, for each local training
            yield name, f"bytes {way} a client and round", message * epochs / once
        if "Shapley" in watching:
            yield name, "tau with the rounds' value", kendall(scores, watch.found("")["Shapley"])
        for measure, value in judged(scores, truths, worth, bad, seed):
            yield name, measure, value
        weighted = Fixed(given=tuple(contribution_index(scores).tolist()))
        used = run(weighted, seed=own[4]).accuracy[-1]
        yield name, "accuracy gained by weights", float(used) - plain


@dataclass(eq=False)
class Fixed(FedAvg):
    """Federated averaging with given weights, one a client."""

    given: tuple[float, ...] = ()

    def weights(self, round: Round) -> Tensor:
        """The given weights of the round's clients, scaled to sum 1, [m]; equal if all are 0."""
        w = torch.tensor(self.given, dtype=torch.float64)[round.clients]
        return (w / w.sum() if w.sum() > 0 else torch.full_like(w, 1 / len(w))).to(round.updates)


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
        self._servers = {n: replace(server, validation=pair) for n, pair in self.samples.items()}
        self._members = {n: {m: watcher(r) for m, r in self.methods.items()} for n in self.samples}
        for name, members in self._members.items():
            for member in members.values():
                member.start(self._servers[name])

    def aggregate(self, round: Round) -> Tensor:
        """Show the round to everybody; return federated averaging's model."""
        for members in self._members.values():  # who needs most first: the others find it done
            for member in sorted(members.values(), key=lambda member: -member.evaluations):
                member.aggregate(round)
        self._last = round
        return super().aggregate(round)

    def found(self, name: str) -> dict[str, Tensor]:
        """Scores [K] of every method on the samples of a name, after the training."""
        return {n: member.scores.double().cpu() for n, member in self._members[name].items()}

    def needed(self, method: str) -> int:
        """Models that a method evaluated, as if it had been alone."""
        return self._members[""][method].evaluations

    def seconds(self, method: str) -> float:
        """CPU seconds of the last round for a method by itself, with an empty table: best of 3."""
        taken = []
        for _ in range(3):
            member = watcher(self.methods[method])
            member.start(self._servers[""])
            tables.forget()
            with one_thread():
                start = time.process_time()
                member.aggregate(self._last)
                taken.append(time.process_time() - start)
        return min(taken)
