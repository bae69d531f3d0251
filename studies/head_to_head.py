"""Head to head: every method of the comparison on nine federations, beside the truth's own noise.

Chapter 10 reads it. Beside: head_to_head_claims and head_to_head_carries say what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fedlab_mini.judge.compare.cell import cell
from fedlab_mini.judge.compare.methods import METHODS
from fedlab_mini.judge.compare.scenarios import SCENARIOS

from .study import Row

FEW = (
    *("size", "alone", "leave one out", "Shapley", "Shapley, silent", "second order", "CGSV"),
    *("class cosine", "F-RCCE", "retrained: alone"),
)


def head_to_head(seed: int) -> Iterator[Row]:
    """All methods and scenarios on one seed; a variant is "scenario; method"."""
    yield from _rows(seed, "digits", METHODS, SCENARIOS)


def head_to_head_sms(seed: int) -> Iterator[Row]:
    """Ten of the methods on synthetic text messages, with logistic regression."""
    yield from _rows(seed, "sms-synthetic", FEW, SCENARIOS)


def _rows(
    seed: int, source: str, methods: Iterable[str], scenarios: Iterable[str]
) -> Iterator[Row]:
    chosen = {name: METHODS[name] for name in methods}
    for scenario in scenarios:
        for method, metric, value in cell(chosen, scenario, SCENARIOS[scenario], source, seed):
            yield f"{scenario}; {method}", metric, value
