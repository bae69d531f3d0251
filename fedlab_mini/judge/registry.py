"""Registry: every method once: what computes it, what it must see, how figures draw it.

``compare``, both command lines and the styles of all figures are made from it; a new method is a
row here. Below: methods, games.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .. import checks
from ..engine.rounds import Strategy
from ..games import sampling, shapley, values
from ..games.estimate import Estimate
from ..games.game import Game
from ..methods.cgsv import CGSV
from ..methods.fedavg import FedAvg
from ..methods.fedce import FedCE
from ..methods.fedif import FedIF
from ..methods.gtg import GTGShapley
from ..methods.neighbours import (
    CappedTaylor,
    ClassCosine,
    MeanCosine,
    RoundValue,
    ShapleyFL,
    Taylor,
    TrustCosine,
)
from ..methods.quality import QualityInference
from ..methods.reinforce import FLDVE, FRCCE
from ..methods.sfedavg import SFedAvg

# Every server knows how many samples each client has; some methods need nothing else.
SIZES = frozenset[str]()
UPDATES = frozenset({"single updates"})
BOTH = frozenset({"single updates", "validation samples"})
# Behind secure aggregation a server sees sums of updates only.
SAMPLES = frozenset({"validation samples"})
# Trainings of chosen clients only, again and again.
TRAININGS = frozenset({"trainings"})


@dataclass(frozen=True)
class Retrained:
    """An estimator of the retraining game, not of the rounds: ``Retrained(fm.leave_one_out)``."""

    estimator: Callable[[Game], Estimate]


Method = Strategy | Retrained | Callable


class Look(NamedTuple):
    """Colour and marker of a method in every figure, and the words by which a label names it."""

    colour: str
    marker: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A method: its name, what computes it, what it must see, how figures draw it.

    method  a strategy, a value of a round's game, or ``Retrained``; None: it is only drawn
    sees    what it reads beside the clients' sizes and the model
    look    None: grey, as any other label
    """

    name: str
    method: Method | None = None
    sees: Collection[str] = BOTH
    look: Look | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The words by which a figure knows it, the usual one first."""
        return () if self.look is None else self.look.labels or (self.name,)


def _value(name: str, value: Callable, **setting: Any) -> Row:
    return Row(name, RoundValue(value, **setting))


# These names stand in stored results, so they stay as they are.
COMPARED = (
    Row("size", FedAvg(), SIZES),
    Row("alone", shapley.alone),
    Row(
        "leave one out",
        shapley.leave_one_out,
        look=Look("#E69F00", "D", ("leave-one-out", "LOO")),
    ),
    Row("Shapley", shapley.exact, look=Look("#000000", "s", ("exact", "Shapley"))),
    _value("Shapley, silent", shapley.exact, absent="silent"),
    _value("Shapley, accuracy", shapley.exact, metric="accuracy"),
    _value("lambda-MR", shapley.exact, discount=0.9),
    Row("Banzhaf", shapley.banzhaf, look=Look("#4B2D5A", "p")),
    Row("beta-Shapley", values.beta_shapley),
    Row("least core", values.least_core),
    Row("nucleolus", values.nucleolus),
    Row("GTG-Shapley", GTGShapley()),
    Row("ShapleyFL", ShapleyFL()),
    _value("S-FedAvg's relevance", shapley.exact, metric="accuracy", memory=0.75),
    Row("first order", Taylor(1)),
    Row("second order", Taylor(2)),
    Row("second order, capped", CappedTaylor(2)),
    Row("CGSV", CGSV(), UPDATES, Look("#CC79A7", "P")),
    Row("mean cosine", MeanCosine(), UPDATES),
    Row("class cosine", ClassCosine(), UPDATES),
    Row("trust cosine", TrustCosine()),
    Row("FedIF", FedIF()),
    Row("FedCE", FedCE()),
    Row("F-RCCE", FRCCE(), look=Look("#691E78", "8")),
    Row("retrained: alone", Retrained(shapley.alone), TRAININGS),
    Row("retrained: leave one out", Retrained(shapley.leave_one_out), TRAININGS),
    Row(
        "retrained: 10 orders",
        Retrained(partial(sampling.permutation, samples=10)),
        TRAININGS,
    ),
)
# Outside the comparison: baselines, rules of training, and what is only drawn.
ORDERS = partial(sampling.permutation, samples=200)
OTHERS = (
    Row("FedAvg", FedAvg(), SIZES, Look("#0072B2", "o")),
    Row("truncated", look=Look("#009E73", "^", ("truncated", "TMC"))),
    Row("permutation", ORDERS, look=Look("#B41EA5", "v", ("permutation", "orders"))),
    Row("guided", look=Look("#5A0096", "<")),
    Row("kernel", look=Look("#0078FF", ">")),
    Row("FLDVE", FLDVE(), look=Look("#3C4BC3", "v")),
    Row("removal", look=Look("#874B00", "d")),
    Row("FedCCEA", None, TRAININGS, Look("#56B4E9", "h", ("FedCCEA", "AAM"))),
    Row("S-FedAvg", SFedAvg(None), look=Look("#78003C", "*")),  # type: ignore[arg-type]
    Row("label standardisation", look=Look("#A5B469", ">")),
    Row("uniform", None, SIZES, Look("#3C693C", "H")),
    Row("random", None, SIZES, Look("#3C3C0F", "p")),
    Row("own loss", look=Look("#2DC3D2", "<")),
    # Where all clients take part in every round, it gives all of them the same.
    Row("quality inference", QualityInference(), SAMPLES),
    Row("oracle", look=Look("#6996FF", "|")),
)
ROWS = COMPARED + OTHERS
# How tables write a name that stands shorter in stored results.
SHOWN = {"CGSV": "CGSV's weights"}
# What command lines read besides a name and its other spellings.
ALSO = {"exact": "Shapley"}


def compared() -> dict[str, Method]:
    """The methods that ``compare`` sets beside each other, by name; values play for the loss."""
    return {
        row.name: RoundValue(row.method) if callable(row.method) else row.method
        for row in COMPARED
        if row.method is not None
    }


def scoring() -> dict[str, Method]:
    """The methods that can score recorded rounds, by name: all but those that train again."""
    return {
        row.name: row.method
        for row in ROWS
        if row.method is not None and "trainings" not in row.sees
    }


def by_name(methods: Any, known: Mapping[str, Method] | None = None) -> dict[str, Any]:
    """Methods by the names that a caller gave them, or by their own; at least one, no class.

    known  {name: method}: a word instead of a method is one of these
    """
    named_methods = (
        dict(methods) if isinstance(methods, Mapping) else _by_own_name(methods)
    )
    if not named_methods:
        raise ValueError("methods: expected at least one, such as fm.exact")
    for method_name, method in named_methods.items():
        checks.text("methods", method_name)
        if isinstance(method, type):
            raise TypeError(
                f"methods: {method_name} is a class; write {method.__name__}()"
            )
        if isinstance(method, str) and known is not None:
            named_methods[method_name] = known[
                looked_up("methods", [method], known)[method]
            ]
    return named_methods


def _by_own_name(methods: Any) -> dict[str, Any]:
    if not isinstance(methods, list | tuple):
        given = checks.shown(methods)
        raise TypeError(f"methods: expected a list or {{name: method}}, got {given}")
    # A function with some arguments filled in is called as the function is.
    functions = [
        method.func if isinstance(method, partial) else method for method in methods
    ]
    names = [
        method
        if isinstance(method, str)
        else getattr(method, "__name__", type(method).__name__)
        for method in functions
    ]
    if len(set(names)) != len(names):
        raise ValueError(f"methods: two of one name; write {{name: method}}, got {names}")
    return dict(zip(names, methods, strict=True))


def looked_up(
    option: str, names: Collection[str], known: Mapping[str, Method]
) -> dict[str, str]:
    """{name as it was written: name in ``known``}; case, spaces, hyphens, commas do not count.

    raises  ValueError naming the option and what is not known
    """
    spellings = {_letters(name): name for name in known}
    spellings |= {_letters(word): name for word, name in ALSO.items() if name in known}
    if unknown := [name for name in names if _letters(name) not in spellings]:
        listed = ", ".join(name.replace(",", "") for name in known)
        raise ValueError(f"{option}: unknown {', '.join(unknown)}; known are {listed}")
    return {written: spellings[_letters(written)] for written in names}


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
