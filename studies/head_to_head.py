"""Head to head: every method of the comparison on federations of eight, and the ceiling.

Chapter 10 reads these results. Beside the nine scenarios of ``fb.compare`` there are harder ones:
label skew with equal sizes, wrong labels under label skew, few validation samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from fedlab_bench.compared import CEILING, METHODS
from fedlab_bench.comparing import cell
from fedlab_bench.dealing import SCENARIOS, Scenario, dealt
from fedlab_bench.entering import watched
from fedlab_bench.judging import against, ceiling
from fedlab_bench.recording import RECORDED, luck, recorded
from fedlab_bench.truth import trained, values_of
from fedlab_bench.worlds import ROUNDS, WORLDS, WORSE, World
from fedlab_mini.games import shapley
from fedlab_mini.gate.games import retraining_game
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import FlipLabels
from fedlab_mini.worlds.partition import DirichletLabels, LabelSplit

from .protocols import study
from .results import HOLDS, Results
from .study import Claim, Derived, Row

FEW = (
    *("size", "alone", "leave one out", "Shapley", "Shapley, silent", "second order", "CGSV"),
    *("class cosine", "F-RCCE", "retrained: alone"),
)
SIX = ("alone", "leave one out", "Shapley", "Shapley, silent", "second order", "CGSV")
SIGHTS = ("sizes", "Dirichlet 0.1", "wrong labels", "rare class")  # the scenarios on MNIST
TAU, AUC, GAIN = "tau", "AUC", "accuracy gained by weights"
SKEW, FLIPS, RARE = "Dirichlet 0.1", "wrong labels", "rare class"
LOO, SILENT, SECOND = "leave one out", "Shapley, silent", "second order"
TWIN, AGAIN = "ranks like silent Shapley", "stability, training"
NEAR = TAU, "retrained: alone", CEILING
BEST_OF_SIX = TAU, "the best of six", CEILING
RANKED_LOWER = AUC, CEILING, SECOND
# These stand on the bench.
LATER = (
    "GTG-Shapley",
    "FedIF",
    "FedCE",
    "second order, capped",
    "mean cosine",
    "class-wise Shapley",
)
ALL = tuple(name for name in METHODS if name not in LATER)


def cells(
    seed: int, source: str, methods: Iterable[str], scenarios: Iterable[str], rounds: int
) -> Iterator[Row]:
    """Methods in scenarios of ``fb.compare``, all of its measures, on one seed."""
    chosen = {method: METHODS[method] for method in methods}
    for scenario in scenarios:
        world = replace(WORLDS[scenario], source=source, rounds=rounds)
        yield from ((scenario, *row) for row in cell(world, seed, chosen))


def head_to_head(
    seed: int,
    *,
    methods: Sequence[str] = ALL,
    scenarios: Sequence[str] = tuple(SCENARIOS),
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """All scenarios, and all methods except those that were added later."""
    yield from cells(seed, "digits", methods, scenarios, rounds)


def head_to_head_sms(
    seed: int,
    *,
    methods: Sequence[str] = FEW,
    scenarios: Sequence[str] = tuple(SCENARIOS),
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """Ten of the methods on synthetic text messages, with logistic regression."""
    yield from cells(seed, "sms-synthetic", methods, scenarios, rounds)


def mnist_rows(
    seed: int,
    *,
    data: str = "mnist5k",
    methods: Sequence[str] = FEW,
    scenarios: Sequence[str] = SIGHTS,
    rounds: int = 10,
) -> Iterator[Row]:
    """Ten of the methods in four scenarios, with half of the rounds."""
    yield from cells(seed, data, methods, scenarios, rounds)


@dataclass(frozen=True)
class equal_dirichlet(LabelSplit):
    """Labels as unequal as by Dirichlet(alpha), but with equal numbers of samples.

    If labels and sizes both differ, one cannot tell which of them a score depends on.
    """

    alpha: float

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """Each sample goes to the client that lacks most of its share of that class."""
        behind = self.shares(y, clients, generator)
        room = [len(group) for group in torch.arange(len(y)).tensor_split(clients)]
        groups: list[list[int]] = [[] for _ in range(clients)]
        for position in torch.randperm(len(y), generator=generator).tolist():
            of_class = behind[y[position]]
            # A full client gets no more samples, however large its share of the class.
            not_full = [client for client in range(clients) if len(groups[client]) < room[client]]
            taker = max(not_full, key=lambda client: float(of_class[client]))
            of_class[taker] -= 1
            groups[taker].append(position)
        return [torch.tensor(group) for group in groups]

    def shares(self, y: Tensor, clients: int, generator: Generator) -> Tensor:
        """Samples per class and client: Dirichlet shares, scaled until all sizes are equal."""
        counts = y.bincount().double()
        shape = torch.full((len(counts), clients), self.alpha, dtype=torch.float64)
        # torch.distributions takes no generator; a share of zero could not be scaled.
        shares = torch._standard_gamma(shape, generator=generator).clamp(min=1e-6)
        for _ in range(200):
            shares *= len(y) / clients / shares.sum(0)
            shares *= (counts / shares.sum(1))[:, None]
        return shares


HARDER: dict[str, Scenario] = {
    "Dirichlet 0.5, equal sizes": dealt(equal_dirichlet(0.5)),
    "Dirichlet 0.1, equal sizes": dealt(equal_dirichlet(0.1)),
    "wrong labels, Dirichlet 0.5": dealt(DirichletLabels(0.5, floor=5), FlipLabels),
    "wrong labels, Dirichlet 0.1": dealt(DirichletLabels(0.1, floor=5), FlipLabels),
    "wrong labels, Dirichlet 0.5, equal sizes": dealt(equal_dirichlet(0.5), FlipLabels),
}
VALIDATE = (360, 100, 50, 20)
READERS = ("leave one out", "Shapley, silent", "second order")  # of validation samples


def harder_rows(
    seed: int,
    *,
    scenarios: Sequence[str] = tuple(HARDER),
    few_samples: Sequence[str] = ("sizes", FLIPS),
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """Label skew with equal sizes, wrong labels under label skew, few validation samples.

    few_samples  scenarios in which the server has fewer and fewer validation samples
    """
    for scenario in scenarios:
        worse = WORSE if scenario.startswith(FLIPS) else None
        world = World(HARDER[scenario], scenario, bad=worse, rounds=rounds)
        found = judged_once(world, seed, FEW, few_samples=False)
        yield from ((scenario, method, metric, value) for _, method, metric, value in found)
    for scenario in few_samples:
        world = replace(WORLDS[scenario], rounds=rounds)
        for count, method, metric, value in judged_once(world, seed, READERS, few_samples=True):
            yield f"{scenario}, {count}", method, metric, value


def judged_once(world: World, seed: int, names: Iterable[str], few_samples: bool) -> Iterator[Row]:
    """Tau and AUC of methods that watch one run: (validation samples, method, metric, value).

    The reference values come from two other runs, judged on samples that no server sees
    """
    values, worse = values_of(world, trained(world, seed)), world.worse(seed)
    seen, (fed, net) = recorded(world, seed), world.made(seed)
    samples = {"": fed.validation}
    if few_samples:
        # The samples of the reference values, too, to see how much sharing them helps.
        samples = {**fewer(fed.validation, seed), "360 of the truth": fed.test}
    methods = {name: METHODS[name] for name in names}
    scores: dict[tuple[str, str], Tensor] = {}
    for count, pair in samples.items():
        told = replace(seen, server=replace(seen.server, validation=pair))
        scores |= {(count, n): found for n, found in watched(told, methods).scores().items()}
    if "retrained: alone" in names:
        game = retraining_game(
            fed, net, world.rounds, world.local, seed=luck(seed, RECORDED), metric="loss"
        )
        scores["", "retrained: alone"] = shapley.alone(game).values
    judged = {("", CEILING): ceiling(values, worse)}
    judged |= {place: against(score, values, worse) for place, score in scores.items()}
    for (count, name), measures in judged.items():
        yield from ((count, name, *one) for one in measures if one[0] in (TAU, AUC))


def fewer(validation: tuple[Tensor, Tensor], seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Smaller and smaller parts of the server's validation samples, each a part of the previous."""
    inputs, labels = validation
    order = torch.randperm(len(labels), generator=stream(seed, "fewer validation samples"))
    return {str(count): (inputs[order[:count]], labels[order[:count]]) for count in VALIDATE}


def gathered(results: Results) -> Derived:
    """Metrics of several scores together, for each seed: of the best or of the worst."""
    for name, metric, scenario, methods, highest in (
        ("the best of six", TAU, SKEW, SIX, True),
        ("the lowest of three", AUC, RARE, (LOO, SILENT, SECOND), False),
        ("the highest of three", AUC, RARE, ("alone", "Shapley", "CGSV"), True),
    ):
        values = torch.stack([results.values(metric, m, scenario) for m in methods])
        yield scenario, name, metric, values.amax(0) if highest else values.amin(0)
    for scenario in results.scenarios:
        both = [results.values(TAU, method, scenario) for method in (SECOND, SILENT)]
        # Mostly there is no difference, so seeds are counted.
        yield scenario, SECOND, TWIN, ((both[0] - both[1]).abs() < 0.1).double()


def head_to_head_figure(results: Results) -> Figure:
    """Agreement with retraining under label skew, and the ceiling."""
    scenario = "Dirichlet 0.5"
    methods = [method for method in results.methods if method != CEILING]
    return plots.dots(
        {method: results.values(TAU, method, scenario) for method in methods},
        xlabel=f"{TAU}, {scenario}",
        reference={"ceiling": results.interval(TAU, CEILING, scenario).mean},
        low=-1,
        high=1,
    )


said = partial(Claim, source="book")
# Claims of chapter 10 with the bounds that they have on digits, judged on three sets of data.
CARRIES = (
    said("sizes: two training runs agree, tau > .6", TAU, CEILING, at="sizes", low=0.6),
    said("wrong labels: two training runs agree, tau > .6", TAU, CEILING, at=FLIPS, low=0.6),
    said("sizes: ranking by size has a tau > .6", TAU, "size", at="sizes", low=0.6),
    said("sizes: the silent game is nearer to retraining", TAU, SILENT, "Shapley", "sizes", low=0),
    said("sizes: the Taylor score ranks like silent Shapley", TWIN, SECOND, at="sizes", low=0.65),
    said("wrong labels: the Taylor score ranks like silent", TWIN, SECOND, at=FLIPS, low=0.65),
    said("wrong labels: one training run per client near the ceiling", *NEAR, at=FLIPS, low=-0.15),
    said("Dirichlet 0.1: six scores below the ceiling", *BEST_OF_SIX, at=SKEW, high=0),
    said("Dirichlet 0.1: ranking by size beats the Taylor score", TAU, "size", SECOND, SKEW, low=0),
    said("Dirichlet 0.1: weights by CGSV cost accuracy", GAIN, "CGSV", at=SKEW, high=0),
    said("Dirichlet 0.1: F-RCCE ranks anew, tau < .6", AGAIN, "F-RCCE", at=SKEW, high=0.6),
    said("wrong labels: CGSV has an AUC > .7", AUC, "CGSV", at=FLIPS, low=0.7),
    said("rare class: holder first by three", AUC, "the lowest of three", at=RARE, low=0.65),
    said("rare class: holder last by three", AUC, "the highest of three", at=RARE, high=0.35),
    said("rare class: lower by retraining than by the Taylor score", *RANKED_LOWER, RARE, high=0),
    said("rare class: weights by leave one out cost accuracy", GAIN, LOO, at=RARE, high=0),
)


def carried(sets: Mapping[str, Results]) -> tuple[dict, dict[str, set[str]]]:
    """The verdict on each claim for each data set, and the claims that hold there.

    returns  {sentence: {set: verdict}}; {set: claims that hold}, also "all" and "everywhere"
    """
    verdicts = {name: results.verdicts() for name, results in sets.items()}
    sentences = [claim.sentence for claim in CARRIES]
    words = {s: {name: verdicts[name][s].verdict for name in sets} for s in sentences}
    held = {name: {s for s in sentences if words[s][name] == HOLDS} for name in sets}
    everywhere = set.intersection(*held.values())
    return words, {"all": set(sentences), **held, "everywhere": everywhere}


STUDIES = (
    study(
        "head-to-head-sms",
        head_to_head_sms,
        CARRIES,
        gathered,
        probe={"scenarios": [FLIPS], "rounds": 1},
    ),
    study(
        "head-to-head",
        head_to_head,
        CARRIES,
        gathered,
        head_to_head_figure,
        # The other methods are in the probe on text messages.
        probe={
            "methods": [name for name in ALL if name not in FEW],
            "scenarios": [RARE],
            "rounds": 1,
        },
    ),
    study(
        "head-to-head-mnist5k",
        mnist_rows,
        CARRIES,
        gathered,
        probe={
            "data": "digits",
            "methods": [name for name in FEW if name not in ("Shapley", SILENT)],
            "scenarios": [SKEW],
            "rounds": 1,
        },
    ),
    study(
        "head-to-head-harder",
        harder_rows,
        probe={
            "scenarios": ["wrong labels, Dirichlet 0.5, equal sizes"],
            "few_samples": [FLIPS],
            "rounds": 1,
        },
    ),
)
