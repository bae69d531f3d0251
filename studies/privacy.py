"""Privacy: what noise on every update and sums of groups do to the order of scores.

The page *Privacy* reads these results. Below: compare's watch, methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_bench.compare.watch import Watch
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.networks import mlp
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.games import shapley
from fedlab_mini.games.training_games import round_game
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.cgsv import CGSV, cosines
from fedlab_mini.methods.fedavg import FedAvg, strategy
from fedlab_mini.methods.round_scores import RoundScore, RoundValue, Taylor
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import dirichlet_labels

from .protocols import study
from .results import Results
from .study import Derived, Row

CLIENTS = 8
LOCAL = LocalSGD(epochs=1, batch=20, lr=0.1)
LOOKS, RANKED = (20, 80, 320), "rank correlation"  # rounds at which scores are ranked
SKEWS = {"alike": None, "Dirichlet 0.5": 0.5}
SENT = "as sent"
NOISES = {"noise 1": 1.0, "noise 10": 10.0, "noise 100": 100.0}  # its length, in clipped updates
GROUPS = {"pairs": 2, "fours": 4}  # clients whose updates are only seen as a sum
VALUE, SECOND, LEFT = "Shapley", "second order", "leave one out"
COSINE, FIRST = "cosine", "CGSV"  # the mean over all rounds; the paper's running score


@strategy
class Cosine(RoundScore):
    """The cosine of every update with the round's step, as CGSV reads it, without its memory."""

    def score(self, round: Round) -> Tensor:
        """Cosines, [m]."""
        return cosines(round.updates, self.weights(round) @ round.updates)


METHODS = {
    LEFT: RoundValue(shapley.leave_one_out),
    SECOND: Taylor(2),
    COSINE: Cosine(),
    FIRST: CGSV(),
}


def ladder(data: Dataset, alpha: float | None, seed: int) -> Federation:
    """Eight clients, of whose labels between none and nine in ten are wrong, in random order."""
    order = torch.randperm(CLIENTS, generator=stream(seed, "ladder")).tolist()
    shares = {client: 0.9 * place / (CLIENTS - 1) for client, place in enumerate(order)}
    split = None if alpha is None else dirichlet_labels(alpha, floor=10)
    corrupt = {client: flip_labels(share) for client, share in shares.items()}
    return federation(data, clients=CLIENTS, split=split, corrupt=corrupt, seed=seed)


@dataclass(eq=False, init=False)
class Veiled(Watch):
    """Watch, of updates that are clipped at their median length and get noise of their own.

    noise  length of the noise beside the median length; None: updates as they are
    kept   {round: {method: scores}} at the rounds of ``looks``
    """

    noise: float | None = None
    seed: int = 0
    looks: Sequence[int] = ()

    def __init__(self, noise: float | None, seed: int, looks: Sequence[int]):
        super().__init__(METHODS, {"": None})
        self.noise, self.seed, self.looks = noise, seed, looks

    def start(self, server: Server) -> None:
        """Start with the server's own validation samples."""
        self.samples = {"": server.validation}
        self.kept: dict[int, dict[str, Tensor]] = {}
        super().start(server)

    def aggregate(self, round: Round) -> Tensor:
        """Federated averaging of what arrives; every method sees the same."""
        if self.noise is not None:
            round = replace(round, updates=self.veil(round))
        theta = super().aggregate(round)
        if round.t in self.looks:
            self.kept[round.t] = self.scores_on()
        return theta

    def veil(self, round: Round) -> Tensor:
        """Updates [m, P], none longer than the median, each with Gaussian noise of its own."""
        lengths = round.updates.norm(dim=1, keepdim=True)
        limit = lengths.median()
        clipped = round.updates * (limit / lengths).clamp(max=1.0)
        drawn = torch.randn(
            clipped.shape, generator=stream(self.seed, "noise", round.t), dtype=clipped.dtype
        )
        return clipped + self.noise * limit / clipped.shape[1] ** 0.5 * drawn


@dataclass(eq=False, init=False)
class Grouped(RoundScore):
    """Federated averaging that sees sums of groups only, drawn anew in each round.

    size  clients a group; each of them gets the Shapley value of its group
    kept  {round: scores} at the rounds of ``looks``
    """

    size: int = 2
    seed: int = 0
    looks: Sequence[int] = ()

    def __init__(self, size: int, seed: int, looks: Sequence[int]):
        super().__init__(metric="loss")
        self.size, self.seed, self.looks = size, seed, looks

    def start(self, server: Server) -> None:
        """Nothing is known of anybody."""
        super().start(server)
        self.kept: dict[int, Tensor] = {}

    def score(self, round: Round) -> Tensor:
        """The value of its group for every client of the round, [m]."""
        weights, scores = self.weights(round), torch.zeros(len(round.clients), dtype=torch.float64)
        order = torch.randperm(len(weights), generator=stream(self.seed, "groups", round.t))
        groups = order.split(self.size)
        shares = torch.stack([weights[group].sum() for group in groups])
        sums = torch.stack([weights[group] @ round.updates[group] for group in groups])
        means, (inputs, labels) = sums / shares[:, None], self.server.validation
        game = round_game(
            self.server.net, round.theta, means, inputs, labels, metric="loss", weights=shares
        )
        for group, worth in zip(groups, shapley.exact(game).values, strict=True):
            scores[group] = worth
        return scores

    def aggregate(self, round: Round) -> Tensor:
        """Federated averaging's model [P]."""
        theta = super().aggregate(round)
        if round.t in self.looks:
            self.kept[round.t] = self.scores
        return theta


def rows(
    seed: int, *, skews: Sequence[str] = tuple(SKEWS), looks: Sequence[int] = LOOKS
) -> Iterator[Row]:
    """Rank correlation of scores and clean labels after 20, 80 and 320 rounds, and accuracy.

    looks  rounds at which scores are ranked, ascending; training ends with the last
    """
    data = load("digits", dtype=torch.float64)
    net = mlp(data.x.shape[1], 32, data.classes)
    for skew in skews:
        fed = ladder(data, SKEWS[skew], seed)
        for veil, noise in {SENT: None, **NOISES}.items():
            watch = Veiled(noise, seed, looks)
            accuracy = accuracies(fed, net, watch, looks[-1], seed)
            for method in METHODS:
                for place in looks:
                    scores = watch.kept[place][method]
                    yield (
                        skew,
                        f"{method}, {veil}",
                        f"{RANKED} @ {place}",
                        agreed(fed, scores),
                    )
            for place in looks:
                yield skew, veil, f"accuracy @ {place}", float(accuracy[place])
        for name, size in GROUPS.items():
            grouped = Grouped(size, seed, looks)
            accuracies(fed, net, grouped, looks[-1], seed)
            for place in looks:
                correlation = agreed(fed, grouped.kept[place])
                yield skew, f"{VALUE}, {name}", f"{RANKED} @ {place}", correlation


def accuracies(fed: Federation, net: Model, strategy: FedAvg, rounds: int, seed: int) -> Tensor:
    """Test accuracy [T + 1] of a training."""
    return train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed).accuracy


def agreed(fed: Federation, scores: Tensor) -> float:
    """Spearman's correlation of scores [K] with the share of right labels."""
    return spearman(scores, 1 - fed.noise)


def orders(results: Results) -> Derived:
    """In which seeds a score ranks the clients in the end, and in which 300 rounds change it."""
    veiled = [f"{method}, {veil}" for method in METHODS for veil in (SENT, *NOISES)]
    for skew in SKEWS:
        for method in (*veiled, *(f"{VALUE}, {name}" for name in GROUPS)):
            early, late = (
                results.values(f"{RANKED} @ {place}", method, skew)
                for place in (LOOKS[0], LOOKS[-1])
            )
            yield skew, method, "correlation above .9", (late > 0.9).double()
            yield skew, method, "correlation moved by .1", ((late - early).abs() > 0.1).double()


def figure(results: Results) -> Figure:
    """Rank correlation against rounds: every veil with all scores, and the sums of groups."""
    names = {LEFT: "leave-one-out", SECOND: SECOND, COSINE: COSINE, FIRST: FIRST}
    lines = {
        veil: {
            name: results.curve(RANKED, f"{method}, {veil}", "alike")[1]
            for method, name in names.items()
        }
        for veil in (SENT, *NOISES)
    }
    for name in GROUPS:
        lines[f"sums of {name}"] = {VALUE: results.curve(RANKED, f"{VALUE}, {name}", "alike")[1]}
    return plots.panels(lines, x=LOOKS, ylabel="rank correlation")


STUDIES = (
    study(
        "privacy",
        rows,
        derived=orders,
        figure=figure,
        probe={"skews": ["Dirichlet 0.5"], "looks": [4, 12]},
    ),
)
