"""Head to head on MNIST: do the findings on digits carry over to larger pictures?

Below: head_to_head, head_to_head_carries.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..compare.cell import cell
from ..compare.methods import METHODS
from ..compare.scenarios import SCENARIOS
from .head_to_head import FEW
from .head_to_head_carries import CARRIES
from .head_to_head_claims import PROTOCOL, SAYS
from .study import Row, Study

SIGHTS = ("sizes", "Dirichlet 0.1", "wrong labels", "rare class")


def mnist_rows(seed: int) -> Iterator[Row]:
    """Ten of the methods in four scenarios, with half of the rounds."""
    chosen = {name: METHODS[name] for name in FEW}
    for scenario in SIGHTS:
        make = SCENARIOS[scenario]
        for method, metric, value in cell(chosen, scenario, make, "mnist5k", seed, rounds=10):
            yield f"{scenario}; {method}", metric, value


PICTURES = PROTOCOL | {
    "data": ("FLCE: five sets; GTG: MNIST", "5,000 images of MNIST, 400 with clients"),
    "clients": ("8 or 10", f"8, in {len(SIGHTS)} of the nine scenarios"),
    "training": ("differs", "10 rounds, 1 epoch, batches of 20, rate .2, 784-32-10"),
    "methods": ("12, FLCE", f"{len(FEW)} of the 23 on digits"),
}
STUDIES = (
    Study(
        name="head-to-head-mnist5k",
        item="Head to head on MNIST",
        says=SAYS,
        protocol=PICTURES,
        rows=mnist_rows,
        claims=CARRIES,
        seeds=10,
    ),
)
