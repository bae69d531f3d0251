"""Privacy: how noise on every update, or sums of groups, change the order of scores.

The page *Privacy* reads these results. Below: compare's watch, methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.games import shapley
from fedlab_mini.games.training_games import round_game
from fedlab_mini.gate.networks import mlp
from fedlab_mini.gate.training import train
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.judge.watch import Watch
from fedlab_mini.methods.cgsv import CGSV, cosines
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.round_scores import RoundScore, RoundValue, Scored, Taylor
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import FlipLabels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import DirichletLabels

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Cosine(RoundScore):
    """The cosine of every update with the round's step, as CGSV reads it, without its memory."""

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """Cosines, [m]."""
        return cosines(round.updates, self.weights(server, state, round) @ round.updates)


METHODS = {
    LEFT: RoundValue(shapley.leave_one_out),
    SECOND: Taylor(2),
    COSINE: Cosine(),
    FIRST: CGSV(),
}


def ladder(data: Dataset, alpha: float | None, seed: int) -> Federation:
    """Eight clients with 0 to 90 per cent wrong labels, in random order."""
    order = torch.randperm(CLIENTS, generator=stream(seed, "ladder")).tolist()
    shares = {client: 0.9 * place / (CLIENTS - 1) for client, place in enumerate(order)}
    split = None if alpha is None else DirichletLabels(alpha, floor=10)
    corrupt = {client: FlipLabels(share) for client, share in shares.items()}
    return federation(data, clients=CLIENTS, split=split, corrupt=corrupt, seed=seed)


@dataclass(frozen=True, eq=False)
class Veiled(FedAvg):
    """Federated averaging of updates that are clipped at their median length and get noise.

    noise  its length over the median length; None: updates do not change
    """

    noise: float | None = None
    seed: int = 0

    def step(self, server: Server, state: State, round: Round) -> Step:
        """Federated averaging of the updates that arrive."""
        return super().step(server, state, self.veil(round))

    def veil(self, round: Round) -> Round:
        """Updates clipped at the median length, each with its own Gaussian noise."""
        if self.noise is None:
            return round
        lengths = round.updates.norm(dim=1, keepdim=True)
        limit = lengths.median()
        clipped = round.updates * (limit / lengths).clamp(max=1.0)
        drawn = torch.randn(
            clipped.shape, generator=stream(self.seed, "noise", round.t), dtype=clipped.dtype
        )
        noise = self.noise * limit / clipped.shape[1] ** 0.5 * drawn
        return replace(round, updates=clipped + noise)


@dataclass(frozen=True, eq=False)
class Grouped(RoundScore):
    """Federated averaging that sees only sums of groups, drawn anew in each round.

    size  clients per group; each client gets the Shapley value of its group
    """

    size: int = 2
    seed: int = 0

    def score(self, server: Server, state: State, round: Round) -> Scored:
        """For every client of the round, the value of its group, [m]."""
        weights = self.weights(server, state, round)
        scores = torch.zeros(len(round.clients), dtype=torch.float64)
        order = torch.randperm(len(weights), generator=stream(self.seed, "groups", round.t))
        groups = order.split(self.size)
        shares = torch.stack([weights[group].sum() for group in groups])
        sums = torch.stack([weights[group] @ round.updates[group] for group in groups])
        means, (inputs, labels) = sums / shares[:, None], server.validation
        game = round_game(
            server.net, round.theta, means, inputs, labels, metric="loss", weights=shares
        )
        for group, worth in zip(groups, shapley.exact(game).values, strict=True):
            scores[group] = worth
        return scores


def rows(
    seed: int, *, skews: Sequence[str] = tuple(SKEWS), looks: Sequence[int] = LOOKS
) -> Iterator[Row]:
    """Rank correlation of scores and clean labels after 20, 80 and 320 rounds, and accuracy.

    looks  rounds at which scores are ranked, ascending; training ends after the last
    """
    data = load("digits", dtype=torch.float64)
    net = mlp(data.x.shape[1], 32, data.classes)
    for skew in skews:
        fed = ladder(data, SKEWS[skew], seed)
        for veil, noise in {SENT: None, **NOISES}.items():
            server = Server(fed.clients, fed.classes, net, fed.validation, seed)
            strategy, watch = Veiled(noise=noise, seed=seed), Watch(METHODS, server)
            kept: dict[int, dict[str, Tensor]] = {}

            def look(round: Round, step: Step, strategy=strategy, watch=watch, kept=kept) -> None:
                watch(strategy.veil(round), step)
                # If training stops early, as with the longest noise, the last scores are used.
                to_come = [place for place in looks if place >= round.t]
                kept.update(dict.fromkeys(to_come, watch.scores()))

            accuracy = trained(fed, net, strategy, looks[-1], seed, look).accuracy
            for method in METHODS:
                for place in looks:
                    scores = kept[place][method]
                    yield (
                        skew,
                        f"{method}, {veil}",
                        f"{RANKED} @ {place}",
                        agreed(fed, scores),
                    )
            for place in looks:
                yield skew, veil, f"accuracy @ {place}", float(accuracy[place])
        for name, size in GROUPS.items():
            grouped = Grouped(size=size, seed=seed)
            scores = trained(fed, net, grouped, looks[-1], seed).scores
            for place in looks:
                correlation = agreed(fed, scores[place - 1])
                yield skew, f"{VALUE}, {name}", f"{RANKED} @ {place}", correlation


def trained(
    fed: Federation,
    net: Model,
    strategy: FedAvg,
    rounds: int,
    seed: int,
    watch: Callable[[Round, Step], object] | None = None,
) -> History:
    """The training that all of this study shares."""
    return train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed, watch=watch)


def agreed(fed: Federation, scores: Tensor) -> float:
    """Spearman's correlation of scores [K] with the share of right labels."""
    return spearman(scores, 1 - fed.noise)


def orders(results: Results) -> Derived:
    """For each seed: whether a score ranks clients at the end, whether 300 rounds change it."""
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
    """Rank correlation against rounds: every noise with all scores, and the sums of groups."""
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
