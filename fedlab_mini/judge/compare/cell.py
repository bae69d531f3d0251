"""Cell: one scenario, one seed: train, watch, judge.

Below: watch, scenarios, methods, judge, training, games.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...engine.history import History
from ...engine.local import LocalSGD
from ...engine.model import Model
from ...engine.rounds import Round, Strategy
from ...engine.train import train
from ...games import shapley
from ...games.game import Game
from ...games.training_games import retraining_game
from ...methods.fedavg import FedAvg
from ...methods.fedccea import contribution_index
from ...worlds.federation import Federation
from ..metrics import kendall
from .judge import judged
from .methods import CEILING, Method, Retrained
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
Row = tuple[str, str, float]
Measured = Iterator[tuple[str, float]]


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
    experiment = Experiment(fed, net, rounds, local, metric, seed)
    truth = Truth.of(experiment, lesser(scenario, fed))
    for measure, value in judged(truth.values[0], truth.values[1:], truth.worth, truth.bad, seed):
        yield CEILING, measure, value
    bench = Bench(experiment, truth, methods)
    yield CEILING, "accuracy of federated averaging", bench.plain_accuracy
    for name in methods:
        for measure, value in bench.measured(name):
            yield name, measure, value


@dataclass(frozen=True)
class Experiment:
    """A federation and the way in which it is trained, again and again."""

    fed: Federation
    net: Model
    rounds: int
    local: LocalSGD
    metric: str
    seed: int

    def train(self, strategy: Strategy, purpose: int) -> History:
        """One training under a strategy; the purpose gives it its own luck."""
        seed = 5 * self.seed + purpose
        return train(self.fed, self.net, strategy, rounds=self.rounds, local=self.local, seed=seed)

    def game(self, purpose: int) -> Game:
        """What a coalition is worth if only its members train."""
        seed = 5 * self.seed + purpose
        return retraining_game(self.fed, self.net, self.rounds, self.local, self.metric, seed)

    @property
    def client_epochs(self) -> int:
        """What one training costs."""
        return self.rounds * self.fed.clients * self.local.epochs


@dataclass(frozen=True)
class Truth:
    """Exact values of two retraining games, the worth of all coalitions, and who is worse."""

    values: list[Tensor]
    worth: Tensor
    bad: list[int] | None

    @classmethod
    def of(cls, experiment: Experiment, bad: list[int] | None) -> Truth:
        """Train every coalition twice; removal is judged by the mean of both."""
        games = [experiment.game(purpose) for purpose in (TRUTH, SECOND_TRUTH)]
        values = [shapley.exact(game).values for game in games]
        worth = (games[0].all() + games[1].all()) / 2
        return cls(values, worth, bad)


class Bench:
    """Everything that the methods are measured on, trained once."""

    def __init__(self, experiment: Experiment, truth: Truth, methods: Mapping[str, Method]):
        self.experiment, self.truth, self.methods = experiment, truth, methods
        fed = experiment.fed
        watching = {
            name: method for name, method in methods.items() if not isinstance(method, Retrained)
        }
        redrawn = resampled(fed, experiment.seed)
        self.watch = Watch(watching, {"": fed.validation, "validation": redrawn.validation})
        experiment.train(self.watch, WATCHED)
        self.again = Watch(watching, {"": fed.validation})
        experiment.train(self.again, WATCHED_AGAIN)
        self.uniform = Watch(watching, {"": fed.validation}, "uniform")
        experiment.train(self.uniform, WATCHED)
        self.game = experiment.game(WATCHED)
        self.plain_accuracy = float(experiment.train(FedAvg(), IN_USE).accuracy[-1])

    def measured(self, name: str) -> Measured:
        """All measures of one method: what it costs, how stable it is, how near to the truth."""
        method = self.methods[name]
        if isinstance(method, Retrained):
            start = time.process_time()
            estimate = method.estimator(self.game)
            scores, client_epochs = estimate.values, estimate.client_epochs
            yield "client epochs", client_epochs
            yield "seconds", time.process_time() - start
        else:
            scores, client_epochs = self.watch.scores_on()[name], self.experiment.client_epochs
            yield from self.stability(name)
            yield "evaluations a round", self.watch.evaluations_of(name) / self.experiment.rounds
            yield "client epochs", client_epochs
            yield "seconds", self.experiment.rounds * self.watch.seconds_a_round(name)
        yield from self.traffic(client_epochs)
        yield from self.nearness(scores)

    def stability(self, name: str) -> Measured:
        """How a method ranks again: other validation samples, another training, a plain mean."""
        scores = self.watch.scores_on()[name]
        yield (
            "stability, validation draw",
            kendall(scores, self.watch.scores_on("validation")[name]),
        )
        yield "stability, training", kendall(scores, self.again.scores_on()[name])
        yield "stability, aggregation", kendall(scores, self.uniform.scores_on()[name])

    def traffic(self, client_epochs: float) -> Measured:
        """A model comes down and an update goes up for each local training."""
        message = self.experiment.net.P * self.experiment.fed.x.element_size()
        in_one_training = self.experiment.client_epochs
        for direction in ("down", "up"):
            traffic = message * client_epochs / in_one_training
            yield f"bytes {direction} a client and round", traffic

    def nearness(self, scores: Tensor) -> Measured:
        """Beside the rounds' own value, beside the truth, and put to use as weights."""
        if "Shapley" in self.watch.methods:
            yield "tau with the rounds' value", kendall(scores, self.watch.scores_on()["Shapley"])
        truth = self.truth
        yield from judged(scores, truth.values, truth.worth, truth.bad, self.experiment.seed)
        weights = FixedWeights(client_weights=tuple(contribution_index(scores).tolist()))
        accuracy = self.experiment.train(weights, IN_USE).accuracy[-1]
        yield "accuracy gained by weights", float(accuracy) - self.plain_accuracy


@dataclass(eq=False)
class FixedWeights(FedAvg):
    """Federated averaging with one fixed weight a client."""

    client_weights: tuple[float, ...] = ()

    def weights(self, round: Round) -> Tensor:
        """The fixed weights of the round's clients, scaled to sum 1, [m]; equal if all are 0."""
        weights = torch.tensor(self.client_weights, dtype=torch.float64)[round.clients]
        total = weights.sum()
        shares = weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))
        return shares.to(round.updates)
