"""Head to head: every method of the comparison on nine federations, beside the truth's own noise.

Chapter 10 reads it. Beside: head_to_head_claims, which says what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..compare.cell import cell
from ..compare.methods import METHODS
from ..compare.scenarios import SCENARIOS
from .study import Row


def head_to_head(seed: int, source: str = "digits") -> Iterator[Row]:
    """All methods and scenarios on one seed; a variant is "scenario; method"."""
    for scenario, make in SCENARIOS.items():
        for method, metric, value in cell(METHODS, scenario, make, source, seed):
            yield f"{scenario}; {method}", metric, value


def head_to_head_sms(seed: int) -> Iterator[Row]:
    """The same on synthetic text messages, with logistic regression."""
    yield from head_to_head(seed, "sms-synthetic")


def head_to_head_mnist5k(seed: int) -> Iterator[Row]:
    """The same on images of MNIST."""
    yield from head_to_head(seed, "mnist5k")
