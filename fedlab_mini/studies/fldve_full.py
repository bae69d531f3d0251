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


def full_claims() -> Iterator[Claim]:
    """The paper's sentences on set 3; ours on own loss."""
    plain, own = "FedAvg, set 3", "own loss, set 3"
    cost = higher("accuracy", "no noise", plain)
    yield Claim("noise lowers the accuracy of FedAvg", cost)
    yield Claim("FLDVE is more accurate than FedAvg", higher("accuracy", "FLDVE, set 3", plain))
    nines = higher("others called nine", plain, "FLDVE, set 3")
    yield Claim("fewer other images are called nine than under FedAvg", nines)
    loss = higher("accuracy", "FLDVE, set 3", own)
    yield Claim("FLDVE is more accurate than own loss", loss, False)


def full_reads() -> Iterator[Claim]:
    """What chapter 6 says of 2,000 images a client."""
    best, plain = "FLDVE, set 3", "FedAvg, set 3"
    cost = higher("accuracy", "no noise", plain)
    yield Claim("noise costs FedAvg accuracy", cost, key="full_lost")
    more = higher("accuracy", best, plain)
    yield Claim("FLDVE is ahead of FedAvg", more, key="full_fedavg")
    same = alike("accuracy", best, "own loss, set 3")
    yield Claim("no difference of FLDVE and own loss", same, key="full_own")


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
        claims=tuple(full_claims()),
        reads=tuple(full_reads()),
        seeds=5,
        cannot=LOST,
    ),
)
