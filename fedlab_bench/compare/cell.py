"""Cell: one scenario, one seed: train, watch, judge.

Below: watch, scenarios, methods, judge, training, games.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State, Strategy
from fedlab_mini.engine.train import train
from fedlab_mini.games import shapley
from fedlab_mini.games.game import Game
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import kendall
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.fedccea import contribution_index
from fedlab_mini.worlds.federation import Federation

from ..registry import Method, Retrained
from .judge import judged
from .methods import CEILING
from .scenarios import lesser, resampled
from .watch import Watch

ROUNDS, LOCAL = 20, LocalSGD(epochs=1, batch=20, lr=0.2)
# No two purposes share a training: each has its own seed of every five.
TRUTH, SECOND_TRUTH, WATCHED, WATCHED_AGAIN, IN_USE = range(5)
MEASURES = (  # of a method; "detection AUC" only where it is known who is of less use
    *("tau with retraining", "rank correlation", "relative error"),
    *("removal, best first", "removal, worst first", "reversals", "detection AUC"),
    *("stability, validation draw", "stability, training", "stability, aggregation"),
    *("evaluations a round", "client epochs", "seconds"),
    *("bytes down a client and round", "bytes up a client and round"),
    *("tau with the rounds' value", "accuracy gained by weights"),
)
CORRELATIONS = ("tau", "rank correlation", "stability", "accuracy gained")
SHARES = ("detection AUC", "removal", "relative error", "accuracy of")
Row = tuple[str, str, float]
Measured = Iterator[tuple[str, float]]


def span(measure: str) -> tuple[float, float]:
    """The lowest and the highest value that a measure can have."""
    if measure.startswith(CORRELATIONS):
        return -1, 1
    return (0, 1) if measure.startswith(SHARES) else (0, math.inf)


def cell(
    methods: Mapping[str, Method],
    scenario: str,
    make: Callable[..., Any],
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
    experiment = Experiment(fed, net, rounds, local, metric, seed)
    truth = known_truth(experiment, lesser(scenario, fed))
    for measure, value in truth.judged_by_itself():
        yield CEILING, measure, value
    bench = Bench(experiment, truth, methods)
    yield CEILING, "accuracy of federated averaging", bench.plain_accuracy
    for method_name in methods:
        for measure, value in bench.measured(method_name):
            yield method_name, measure, value


@dataclass(frozen=True)
class Experiment:
    """A federation and the way in which it is trained, again and again."""

    fed: Federation
    net: Model
    rounds: int
    local: LocalSGD
    metric: str
    seed: int

    def luck(self, purpose: int) -> int:
        """The seed of a training: its own for every purpose."""
        return 5 * self.seed + purpose

    def train(
        self, strategy: Strategy, purpose: int, watch: Watch | None = None
    ) -> History:
        """One training under a strategy."""
        return train(
            self.fed,
            self.net,
            strategy,
            rounds=self.rounds,
            local=self.local,
            seed=self.luck(purpose),
            watch=watch,
        )

    def game(self, purpose: int) -> Game:
        """What a coalition is worth if only its members train."""
        luck = self.luck(purpose)
        return retraining_game(
            self.fed, self.net, self.rounds, self.local, self.metric, luck
        )

    @property
    def client_epochs(self) -> int:
        """What one training costs."""
        return self.rounds * self.fed.clients * self.local.epochs


@dataclass(frozen=True)
class Truth:
    """Exact values of two retraining games, the worths of all coalitions, and who is worse."""

    values: list[Tensor]
    worths: list[Tensor]
    bad: list[int] | None
    seed: int

    def judged(self, scores: Tensor) -> Measured:
        """How near scores are to the values, and what else they are good for."""
        worth = torch.stack(self.worths).mean(0)
        return judged(scores, self.values, worth, self.bad, self.seed)

    def judged_by_itself(self) -> Measured:
        """One training's values as a score: whatever judges them is of the other training."""
        return judged(
            self.values[0], self.values[1:], self.worths[1], self.bad, self.seed
        )


def known_truth(experiment: Experiment, bad: list[int] | None) -> Truth:
    """Train every coalition twice; methods are judged by both."""
    games = [experiment.game(purpose) for purpose in (TRUTH, SECOND_TRUTH)]
    values = [shapley.exact(game).values for game in games]
    return Truth(values, [game.all() for game in games], bad, experiment.seed)


class Bench:
    """Everything that the methods are measured on, trained once."""

    def __init__(
        self, experiment: Experiment, truth: Truth, methods: Mapping[str, Method]
    ):
        self.experiment, self.truth, self.methods = experiment, truth, methods
        redrawn = resampled(experiment.fed, experiment.seed)
        self.watch = self._watched(WATCHED, validation=redrawn.validation)
        self.again = self._watched(WATCHED_AGAIN)
        self.uniform = self._watched(WATCHED, "uniform")
        self.game = experiment.game(WATCHED)
        self.plain_accuracy = float(experiment.train(FedAvg(), IN_USE).accuracy[-1])

    def _watched(
        self, purpose: int, weighting: str = "size", **more_samples: Any
    ) -> Watch:
        """A training that all methods watch which do not train themselves."""
        methods = {
            method_name: method
            for method_name, method in self.methods.items()
            if not isinstance(method, Retrained)
        }
        luck, fed = self.experiment.luck(purpose), self.experiment.fed
        samples = {"": fed.validation, **more_samples}
        watch = Watch.of(methods, fed, self.experiment.net, luck, samples)
        self.experiment.train(FedAvg(weighting=weighting), purpose, watch)
        return watch

    def measured(self, name: str) -> Measured:
        """All measures of one method: what it costs, how stable it is, how near to the truth."""
        method = self.methods[name]
        client_epochs: float = self.experiment.client_epochs
        if isinstance(method, Retrained):
            # All of these share one game: a training that two of them ask for is done once.
            start = time.process_time()
            estimate = method.estimator(self.game)
            scores, client_epochs = estimate.values, estimate.client_epochs
            seconds = time.process_time() - start
        else:
            scores = self.watch.scores_on()[name]
            yield from self.stability(name, scores)
            yield (
                "evaluations a round",
                self.watch.evaluations_of(name) / self.experiment.rounds,
            )
            seconds = self.experiment.rounds * self.watch.seconds_a_round(name)
        yield "client epochs", client_epochs
        yield "seconds", seconds
        message = self.experiment.net.P * self.experiment.fed.x.element_size()
        # A model comes down and an update goes up for each local training.
        for direction in ("down", "up"):
            traffic = message * client_epochs / self.experiment.client_epochs
            yield f"bytes {direction} a client and round", traffic
        yield from self.nearness(scores)

    def stability(self, name: str, scores: Tensor) -> Measured:
        """How a method ranks again: other validation samples, another training, a plain mean."""
        redrawn = self.watch.scores_on("validation")[name]
        yield "stability, validation draw", kendall(scores, redrawn)
        yield "stability, training", kendall(scores, self.again.scores_on()[name])
        yield "stability, aggregation", kendall(scores, self.uniform.scores_on()[name])

    def nearness(self, scores: Tensor) -> Measured:
        """Beside the rounds' own value, beside the truth, and put to use as weights."""
        if "Shapley" in self.watch.methods:
            yield (
                "tau with the rounds' value",
                kendall(scores, self.watch.scores_on()["Shapley"]),
            )
        yield from self.truth.judged(scores)
        # The same training as the plain one, so that the weights alone make the difference.
        weights = FixedWeights(client_weights=tuple(contribution_index(scores).tolist()))
        accuracy = self.experiment.train(weights, IN_USE).accuracy[-1]
        yield "accuracy gained by weights", float(accuracy) - self.plain_accuracy


@dataclass(frozen=True, eq=False)
class FixedWeights(FedAvg):
    """Federated averaging with one fixed weight a client."""

    client_weights: tuple[float, ...] = ()

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """The fixed weights of the round's clients, scaled to sum 1, [m]; equal if all are 0."""
        weights = torch.tensor(self.client_weights, dtype=torch.float64)[round.clients]
        total = weights.sum()
        shares = (
            weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))
        )
        return shares.to(round.updates)
