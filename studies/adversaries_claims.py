"""Claims about attackers and defences, all the book's own, and the metrics derived for them.

Below: case_claims, results. Above: adversaries (the studies), chapter 13.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from .results import Results
from .study import Claim


def gained(results: Results) -> Iterator[tuple[str, str, str, Tensor]]:
    """What an attack adds to the attacker's share of the pay, beside the honest client's."""
    yield from ()


OF_ATTACKS: dict[str, Claim] = {}
OF_CLINICS: dict[str, Claim] = {}
