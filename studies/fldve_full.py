"""FLDVE on MNIST with the paper's 2,000 images a client.

Chapter 6 reads it beside fldve-mnist, which has 250 a client. Below: fldve_paper.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedlab_mini.engine.model import cnn

from .fldve_paper import LOST, PROTOCOL, SAYS, gains, image_claims, images, images_figure, weighed
from .study import Row, Study, alike, higher, lower
from .weighing import SETS

RULES = ("FedAvg", "FLDVE", "own loss")
BESIDE = {"FedAvg": (alike, lower, higher), "own loss": (alike, alike, alike)}  # sets 1, 2, 3


def full(seed: int) -> Iterator[Row]:
    """Table 1, Figs. 3 and 5, sets 1 to 3: 2,000 images a client, 2,000 validate, 2,000 test."""
    sizes = {"samples": 10_000, "validation": 2_000, "test": 2_000}
    yield from images("mnist", cnn(channels=(4, 8)), sizes, RULES, seed)


STUDIES = (
    Study(
        name="fldve-mnist-full",
        item="FLDVE, Table 1, Figs. 3 and 5: MNIST with 2,000 images a client",
        says=SAYS,
        protocol=PROTOCOL
        | {
            "clients, data": ("5, 2,000 images each, IID", "the same"),
            "validation, test": ("2,000 and 2,000 images", "the same"),
            "removal": ("who is removed is not said", "not run; see 250 images a client"),
        },
        rows=full,
        claims=(*image_claims(), *(weighed(n, "own loss", False) for n in SETS)),
        reads=tuple(gains("full", BESIDE)),
        figure=images_figure,
        seeds=5,
        cannot=LOST,
    ),
)
