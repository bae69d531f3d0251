"""FedCCEA in one setting with all of MNIST: 3,000 images a client, and the paper's own rate.

Chapter 7 reads it beside fedccea-mnist, which has 30 a client. Below: fedccea, fedccea_claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..data import load
from ..federation import federation
from ..local import LocalSGD
from ..partition import by_class
from .fedccea import CLIENTS, SOURCES, evaluation
from .fedccea_claims import MNIST, PROTOCOL, index_claims, removal_claims
from .study import Claim, Row, Study

SETTING = "strong, no noise"
LOCAL = LocalSGD(epochs=3, batch=32, lr=0.001)


def full_rows(seed: int) -> Iterator[Row]:
    """Two classes a client, nobody corrupted; all tests of this setting."""
    split = by_class(SOURCES["mnist"].strong)
    fed = federation(
        load("mnist"), clients=CLIENTS, split=split, validation=1_000, test=2_000, seed=seed
    )
    yield from evaluation(fed, SETTING, LOCAL, seed)


def full_claims() -> Iterator[Claim]:
    """The paper's sentences in this setting."""
    yield from index_claims("strong")
    yield from removal_claims(SETTING, reversal=True)


FULL = {
    "data": (PROTOCOL["data"][0], "MNIST, 57,000 images: 2,850 a client"),
    "local work": ("3 epochs, batches of 32, rate 0.001", "the same"),
    "steps x rate": (PROTOCOL["steps x rate"][0], "13,400 x 0.001"),
    "full size": ("all settings", "this one"),
    "skew": ("10, 5 and 2 classes a client", "2 classes a client"),
    "noise": (PROTOCOL["noise"][0], "none"),
    "accuracy": (PROTOCOL["accuracy"][0], "1,000 validation images; judged on 2,000"),
    "repetitions": ("not given", "3 seeds, interval"),
}
STUDIES = (
    Study(
        name="fedccea-full",
        item="FedCCEA, MNIST with all images: Figs. 4a, 5a; Tables 1 and 3, strong skew",
        says=MNIST.says,
        protocol=PROTOCOL | FULL,
        rows=full_rows,
        claims=tuple(full_claims()),
        seeds=3,
    ),
)
