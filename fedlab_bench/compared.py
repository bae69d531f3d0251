"""Compared: every score that the bench compares, and the inputs that the score must see.

Importing it makes the neighbours known to ``fm.score`` by name. Builds on fedlab_mini and methods.
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
from fedlab_mini.judge.own import FunctionScore, takes_round
from fedlab_mini.judge.registry import SCORES, by_name, register
from fedlab_mini.methods.round_scores import RoundValue
from fedlab_mini.parse import checks

from .methods.classwise import ClasswiseShapley
from .methods.fedce import FedCE
from .methods.fedif import FedIF
from .methods.gtg import GTGShapley
from .methods.neighbours import CappedTaylor, ClassCosine, MeanCosine, ShapleyFL, TrustCosine
from .methods.quality import QualityInference
from .methods.semivalues import beta_shapley

# Every server knows the clients' numbers of samples; some methods need nothing else.
SIZES = frozenset[str]()
UPDATES = frozenset({"single updates"})
BOTH = frozenset({"single updates", "validation samples"})
# Repeated training runs with some clients only.
TRAININGS = frozenset({"trainings"})


@dataclass(frozen=True)
class Retrained:
    """An estimator of the retraining game, not of rounds: ``Retrained(fm.leave_one_out)``."""

    estimator: Callable[[Game], Estimate]


Method = Strategy | Retrained | Callable[..., Any]

register(
    {
        "beta-Shapley": beta_shapley,
        "class-wise Shapley": ClasswiseShapley(),
        "GTG-Shapley": GTGShapley(),
        "ShapleyFL": ShapleyFL(),
        "second order, capped": CappedTaylor(2),
        "mean cosine": MeanCosine(),
        "class cosine": ClassCosine(),
        "trust cosine": TrustCosine(),
        "FedIF": FedIF(),
        "FedCE": FedCE(),
        # If all clients participate in every round, it gives all of them the same score.
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
    """A score that is compared: its name, and what it reads besides the clients' sizes."""

    name: str
    sees: Collection[str] = BOTH

    @property
    def method(self) -> Method:
        """The method that computes it: a strategy, a value of a round's game, or ``Retrained``."""
        return (SCORES | RETRAINED)[self.name]


# Stored results contain these names, so they must not change.
COMPARED = (
    Row("size", SIZES),
    Row("alone"),
    Row("leave one out"),
    Row("Shapley"),
    Row("Shapley, silent"),
    Row("Shapley, accuracy"),
    Row("class-wise Shapley"),
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
CEILING = "(the truth itself)"
# How tables and figures show stored names of scores, scenarios and families.
SHOWN = {
    "CGSV": "CGSV's weights",
    "second order": "Taylor score",
    "second order, capped": "Taylor score, capped",
    CEILING: "ceiling: a second retraining",
    "alike": "similar label mixes",
    "alike, scale x4": "similar label mixes, scale x4",
    "an attack among alike": "an attack among similar label mixes",
    "dirt": "corrupted clients",
    "dirt under skew": "corrupted clients under skew",
    "messages": "synthetic messages",
    "messages: sizes": "synthetic messages: sizes",
    "messages: wrong labels": "synthetic messages: wrong labels",
    "replicas": "copies",
    "attacker sees the steps": "an attacker who sees the steps",
    "attacker sees lengths": "an attacker who sees lengths",
    "attacker sees an update": "an attacker who sees an update",
}


def shown(name: str) -> str:
    """A stored name as tables and figures show it."""
    return SHOWN.get(name, name)


def compared() -> dict[str, Method]:
    """The methods that ``compare`` compares, by name; values are of games of the loss."""
    methods = {row.name: row.method for row in COMPARED}
    return {
        name: RoundValue(method) if callable(method) else method for name, method in methods.items()
    }


METHODS = compared()


def watcher(method: Method) -> Any:
    """A method as a strategy."""
    if hasattr(method, "step"):
        return method
    # A value of a game takes one argument, a score of a round takes two: (round, server).
    if takes_round(method):  # type: ignore[arg-type]
        return FunctionScore(function=method)  # type: ignore[arg-type]
    return RoundValue(method)  # type: ignore[arg-type]


def watchable(methods: Any) -> dict[str, Method]:
    """Methods by name, each of a kind that ``compare`` accepts; an error names the others."""
    methods_by_name = by_name(methods)
    if CEILING in methods_by_name:
        raise ValueError(f"methods: {CEILING} is the name of the ceiling; choose another name")
    kinds = "a strategy, a function of a game or of (round, server), Retrained(...), or one of "
    kinds += 'those that have a name, fb.METHODS["..."]'
    for method_name, method in methods_by_name.items():
        known = hasattr(method, "step") or isinstance(method, Retrained) or callable(method)
        if not known:
            raise TypeError(f"methods: {method_name}: expected {kinds}, got {checks.shown(method)}")
    return methods_by_name
