"""Registry: the scores that ``fm.score`` and the command lines know by name.

Other packages can register more scores, as ``import fedlab_bench`` does. Builds on methods, games.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from ..engine.rounds import Strategy
from ..games import sampling, shapley, values
from ..methods.cgsv import CGSV
from ..methods.fedavg import FedAvg
from ..methods.reinforce import FLDVE, FRCCE
from ..methods.round_scores import RoundValue, Taylor
from ..methods.sfedavg import SFedAvg
from ..parse import checks

Method = Strategy | Callable[..., Any]

# Stored results contain these names, so they must not change.
SCORES: dict[str, Method] = {
    "size": FedAvg(),
    "alone": shapley.alone,
    "leave one out": shapley.leave_one_out,
    "Shapley": shapley.exact,
    "Shapley, silent": RoundValue(shapley.exact, absent="silent"),
    "Shapley, accuracy": RoundValue(shapley.exact, metric="accuracy"),
    "lambda-MR": RoundValue(shapley.exact, discount=0.9),
    "Banzhaf": shapley.banzhaf,
    "least core": values.least_core,
    "nucleolus": values.nucleolus,
    "S-FedAvg's relevance": RoundValue(shapley.exact, metric="accuracy", memory=0.75),
    "first order": Taylor(1),
    "second order": Taylor(2),
    "CGSV": CGSV(),
    "F-RCCE": FRCCE(),
    "FedAvg": FedAvg(),
    "permutation": partial(sampling.permutation, samples=200),
    "FLDVE": FLDVE(),
    "S-FedAvg": SFedAvg(None),
}
MORE = "; after import fedlab_bench its neighbours of these, too"
# Other words for a score that command lines accept.
ALSO = {"exact": "Shapley"}


def register(scores: Mapping[str, Method]) -> None:
    """Add scores by name to those that ``fm.score`` knows; the same name replaces a score."""
    SCORES.update(scores)


def by_name(methods: Any, known: Mapping[str, Method] | None = None) -> dict[str, Any]:
    """Methods by the caller's names or by their own names; at least one, and no classes.

    known  {name: method}; a word in ``methods`` stands for the method with this name
    """
    named_methods = dict(methods) if isinstance(methods, Mapping) else _by_own_name(methods)
    if not named_methods:
        raise ValueError("methods: expected at least one, such as fm.exact")
    for method_name, method in named_methods.items():
        checks.text("methods", method_name)
        if isinstance(method, type):
            raise TypeError(f"methods: {method_name} is a class; write {method.__name__}()")
        if isinstance(method, str) and known is not None:
            named_methods[method_name] = known[looked_up("methods", [method], known)[method]]
    return named_methods


def _by_own_name(methods: Any) -> dict[str, Any]:
    if not isinstance(methods, list | tuple):
        raise checks.refusal("methods", "a list or {name: method}", methods, TypeError)
    # A partial function gets the name of its function.
    functions = [method.func if isinstance(method, partial) else method for method in methods]
    names = [
        method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)
        for method in functions
    ]
    if len(set(names)) != len(names):
        raise ValueError(f"methods: repeats a name; write {{name: method}}, got {names}")
    return dict(zip(names, methods, strict=True))


def looked_up(option: str, names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """{name as written: name in ``known``}; case, spaces, hyphens and commas do not matter.

    raises  ValueError naming the option and the unknown names
    """
    spellings = {_letters(name): name for name in known}
    spellings |= {_letters(word): name for word, name in ALSO.items() if name in known}
    if unknown := [name for name in names if _letters(name) not in spellings]:
        listed = ", ".join(name.replace(",", "") for name in known)
        # A user who names a score of the bench without importing it learns how to get it.
        more = "" if "fedlab_bench" in sys.modules else MORE
        raise ValueError(f"{option}: unknown {', '.join(unknown)}; known are {listed}{more}")
    return {written: spellings[_letters(written)] for written in names}


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
