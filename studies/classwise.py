"""Class-wise Shapley: does the row of a class show who holds it, and not who only names it?

*Methods* prints what these results show. The control counts right answers in the class alone, which
is S-FedAvg's relevance for a class.
Below: protocols. Above: advice.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.judging import outranked
from fedlab_bench.worlds import LOCAL, ROUNDS
from fedlab_mini.engine.rounds import Round, Step

from .case_claims import says
from .cases import CLINICS
from .protocols import study
from .study import Row

NINE, HOLDER, LIAR = 9, 7, 3
RARE, LABELS, CEDAR, DAMSON = "rare class", "one label for all", "Cedar", "Damson"
ROW, ALONE, SUM = "class-wise, nines", "in the class alone, nines", "class-wise, sum"
ACCURACY, LOSS = "Shapley, accuracy", "Shapley"
OUTRANKS, TAU = "others outranked", "tau"


def rows(seed: int, rounds: int = ROUNDS, long: int = 48) -> Iterator[Row]:
    """Whom the holder of the nines, the client that calls all nines, and two clinics outrank."""
    digits, net = fm.load("digits"), fm.mlp(64, 32, 10)
    liars = {LIAR: fm.RelabelAs(NINE)}
    rare, _ = fb.WORLDS[RARE].made(seed)
    lied = fm.federation(digits, clients=8, samples=400, corrupt=liars, seed=seed)
    clinics = fm.six_clinics(seed)
    for fed, places, local, last in (
        (rare, {RARE: HOLDER}, LOCAL, rounds),
        (lied, {LABELS: LIAR}, LOCAL, rounds),
        (clinics, {CEDAR: 2, DAMSON: 3}, CLINICS, long),
    ):
        values = summed(fed, net, local, last, 3 * seed + 2)
        for place, client in places.items():
            for method, scores in values.items():
                yield place, method, OUTRANKS, outranked(scores, client)
    yield "six clinics", SUM, TAU, float(fm.kendall(values[SUM], values[ACCURACY]))


def summed(
    fed: fm.Federation, net: fm.Model, local: fm.LocalSGD, rounds: int, seed: int
) -> dict[str, Tensor]:
    """What each method says of a training run by federated averaging, summed over its rounds."""
    x, y = fed.validation
    nines = y == NINE
    total = dict.fromkeys((ROW, ALONE, SUM, ACCURACY, LOSS), torch.zeros(fed.clients).double())

    def watch(one: Round, step: Step) -> None:
        def shapley(x: Tensor, y: Tensor, metric: str) -> Tensor:
            played = net, one.theta, one.updates, x, y
            return fm.exact(fm.round_game(*played, metric=metric, weights=one.sizes)).values

        by_class = fb.classwise_shapley(net, one.theta, one.updates, x, y, one.sizes)
        found = {ROW: by_class[NINE], SUM: by_class.sum(0)}
        found |= {ALONE: shapley(x[nines], y[nines], "accuracy")}
        found |= {ACCURACY: shapley(x, y, "accuracy"), LOSS: shapley(x, y, "loss")}
        for method, values in found.items():
            total[method] = total[method] + values

    fm.train(fed, net, fm.FedAvg(), rounds=rounds, local=local, seed=seed, watch=watch)
    return total


CLAIMS = (
    says(
        "The row of the nines puts their only holder above the others",
        OUTRANKS, ROW, at=RARE, above=0.75,
    ),
    says("The sum over classes puts the holder low", OUTRANKS, SUM, at=RARE, below=0.25),
    says(
        "Who calls all its samples nines is above the others by right nines alone",
        OUTRANKS, ALONE, at=LABELS, above=0.75,
    ),
    says("The row of the nines ranks it lower", OUTRANKS, ROW, ALONE, LABELS, below=0),
    says("The row of the nines puts Cedar above the others", OUTRANKS, ROW, at=CEDAR, above=0.75),
    says("The sum puts Cedar above the others, too", OUTRANKS, SUM, at=CEDAR, above=0.75),
    says(
        "By the sum, careless Damson is above more clinics than by Shapley values of the loss",
        OUTRANKS, SUM, LOSS, DAMSON, above=0,
    ),
    says(
        "The sum ranks the clinics much as Shapley values of the accuracy do",
        TAU, SUM, at="six clinics", above=0.5,
    ),
)  # fmt: skip
STUDIES = [study("classwise", rows, CLAIMS, probe={"rounds": 2, "long": 2})]
