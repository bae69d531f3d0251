"""FLDVE on MNIST with the paper's 2,000 images a client, in its third set.

Chapter 6 reads it beside fldve-mnist, which has 250 a client. Below: fldve_paper.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import cnn
from .fldve_paper import LOST, PROTOCOL, SAYS, images
from .study import Claim, Row, Study, alike, higher

RULES = ("FedAvg", "FLDVE", "own loss")


def full(seed: int) -> Iterator[Row]:
    """Table 1, Figs. 3 and 5, set 3: 2,000 images a client, 2,000 validate, 2,000 test."""
    sizes = {"samples": 10_000, "validation": 2_000, "test": 2_000}
    yield from images("mnist", cnn(channels=(4, 8)), sizes, RULES, seed, sets=(3,))


PLAIN, BEST, OWN = "FedAvg, set 3", "FLDVE, set 3", "own loss, set 3"
SHOWN = (
    Claim(
        "noise lowers the accuracy of FedAvg",
        higher("accuracy", "no noise", PLAIN),
        key="full_lost",
    ),
    Claim("FLDVE is more accurate than FedAvg", higher("accuracy", BEST, PLAIN), key="full_fedavg"),
)
NINES = "fewer other images are called nine than under FedAvg"
CLAIMS = (
    *SHOWN,
    Claim(NINES, higher("others called nine", PLAIN, BEST)),
    Claim("FLDVE is more accurate than own loss", higher("accuracy", BEST, OWN), paper=False),
)
SAME = Claim(
    "FLDVE and own loss: no difference is shown", alike("accuracy", BEST, OWN), key="full_own"
)
STUDIES = (
    Study(
        name="fldve-mnist-full",
        item="FLDVE, Table 1, Figs. 3 and 5, set 3: MNIST with 2,000 images a client",
        says=SAYS,
        protocol=PROTOCOL
        | {
            "clients, data": ("5, 2,000 images each, IID", "the same"),
            "validation, test": ("2,000 and 2,000 images", "the same"),
            "noise": ("sets 1, 2 and 3", "set 3; who holds it is drawn"),
            "removal": ("who is removed is not said", "not run; see 250 images a client"),
        },
        rows=full,
        claims=CLAIMS,
        reads=(*SHOWN, SAME),
        seeds=5,
        cannot=LOST,
    ),
)
