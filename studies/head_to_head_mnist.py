"""Head to head on MNIST: do the findings on digits carry over to larger pictures?

Below: head_to_head, head_to_head_carries.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedlab_mini.judge.compare.cell import cell
from fedlab_mini.judge.compare.methods import METHODS
from fedlab_mini.judge.compare.scenarios import SCENARIOS

from .head_to_head import FEW
from .head_to_head_carries import CARRIES, RARE, told
from .head_to_head_claims import AUC, PROTOCOL, SAYS, TRUTH
from .study import Claim, Row, Study, beyond, within

SIGHTS = ("sizes", "Dirichlet 0.1", "wrong labels", "rare class")


def mnist_rows(seed: int) -> Iterator[Row]:
    """Ten of the methods in four scenarios, with half of the rounds."""
    chosen = {name: METHODS[name] for name in FEW}
    for scenario in SIGHTS:
        make = SCENARIOS[scenario]
        for method, metric, value in cell(chosen, scenario, make, "mnist5k", seed, rounds=10):
            yield f"{scenario}; {method}", metric, value


def mnist_reads() -> Iterator[Claim]:
    """What the chapter says of MNIST alone."""
    truth = beyond(AUC, f"{RARE}; {TRUTH}", 0.5)
    yield told("mnist_truth", truth, "rare class: retraining ranks its holder above the middle")
    lost = within(AUC, -1, 0.9, f"{RARE}; second order")
    yield told("mnist_second", lost, "rare class: the second order does not put its holder first")
    last = within(AUC, -1, 0.2, f"{RARE}; CGSV")
    yield told("mnist_cgsv", last, "rare class: CGSV puts its holder near the end")


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
        reads=tuple(mnist_reads()),
        seeds=10,
    ),
)
