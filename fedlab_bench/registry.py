"""Registry: what the bench compares: every score once, and what it must see.

Importing it lets ``fm.score`` know the neighbours by name. Below: fedlab_mini, methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedlab_mini.engine.rounds import Strategy
from fedlab_mini.games import sampling, shapley
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.games.game import Game
from fedlab_mini.judge.registry import SCORES, register
from fedlab_mini.methods.round_scores import RoundValue

from .methods.fedce import FedCE
from .methods.fedif import FedIF
from .methods.gtg import GTGShapley
from .methods.neighbours import (
    CappedTaylor,
    ClassCosine,
    MeanCosine,
    ShapleyFL,
    TrustCosine,
)
from .methods.quality import QualityInference
from .methods.semivalues import beta_shapley

# Every server knows how many samples each client has; some methods need nothing else.
SIZES = frozenset[str]()
UPDATES = frozenset({"single updates"})
BOTH = frozenset({"single updates", "validation samples"})
# Trainings of chosen clients only, again and again.
TRAININGS = frozenset({"trainings"})


@dataclass(frozen=True)
class Retrained:
    """An estimator of the retraining game, not of the rounds: ``Retrained(fm.leave_one_out)``."""

    estimator: Callable[[Game], Estimate]


Method = Strategy | Retrained | Callable[..., Any]

register(
    {
        "beta-Shapley": beta_shapley,
        "GTG-Shapley": GTGShapley(),
        "ShapleyFL": ShapleyFL(),
        "second order, capped": CappedTaylor(2),
        "mean cosine": MeanCosine(),
        "class cosine": ClassCosine(),
        "trust cosine": TrustCosine(),
        "FedIF": FedIF(),
        "FedCE": FedCE(),
        # Where all clients take part in every round, it gives all of them the same.
        "quality inference": QualityInference(),
    }
)
RETRAINED = {
    "retrained: alone": Retrained(shapley.alone),
    "retrained: leave one out": Retrained(shapley.leave_one_out),
    "retrained: 10 orders": Retrained(partial(sampling.permutation, samples=10)),
}


@dataclass(frozen=True)
class Row:
    """A score that is compared: its name, and what it reads beside the clients' sizes."""

    name: str
    sees: Collection[str] = BOTH

    @property
    def method(self) -> Method:
        """What computes it: a strategy, a value of a round's game, or ``Retrained``."""
        return (SCORES | RETRAINED)[self.name]


# These names stand in stored results, so they stay as they are.
COMPARED = (
    Row("size", SIZES),
    Row("alone"),
    Row("leave one out"),
    Row("Shapley"),
    Row("Shapley, silent"),
    Row("Shapley, accuracy"),
    Row("lambda-MR"),
    Row("Banzhaf"),
    Row("beta-Shapley"),
    Row("least core"),
    Row("nucleolus"),
    Row("GTG-Shapley"),
    Row("ShapleyFL"),
    Row("S-FedAvg's relevance"),
    Row("first order"),
    Row("second order"),
    Row("second order, capped"),
    Row("CGSV", UPDATES),
    Row("mean cosine", UPDATES),
    Row("class cosine", UPDATES),
    Row("trust cosine"),
    Row("FedIF"),
    Row("FedCE"),
    Row("F-RCCE"),
    *(Row(name, TRAININGS) for name in RETRAINED),
)
# How tables write a name that stands shorter in stored results.
SHOWN = {"CGSV": "CGSV's weights"}


def compared() -> dict[str, Method]:
    """The methods that ``compare`` sets beside each other, by name; values play for the loss."""
    methods = {row.name: row.method for row in COMPARED}
    return {
        name: RoundValue(method) if callable(method) else method
        for name, method in methods.items()
    }
