"""Head to head on messages and on MNIST: does it carry over? Below: head_to_head, its claims."""

from __future__ import annotations

from .head_to_head import FEW, SIGHTS, head_to_head_mnist5k, head_to_head_sms
from .head_to_head_claims import PROTOCOL, SAYS
from .study import Study

METHODS = {"methods": ("12, FLCE", f"{len(FEW)} of the 23 on digits")}
SMS = PROTOCOL | {
    "data": ("FLCE: five sets; GTG: MNIST", "synthetic messages, 800 with clients, 200 words"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, logistic regression"),
    "repetitions": ("10, FLCE; 1 elsewhere", "5 seeds, each with five trainings"),
}
MNIST = PROTOCOL | {
    "data": ("FLCE: five sets; GTG: MNIST", "5000 images of MNIST, 400 with clients"),
    "clients": ("8 or 10", f"8, in {len(SIGHTS)} of the nine scenarios"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, 784-32-10"),
    "repetitions": ("10, FLCE; 1 elsewhere", "5 seeds, each with five trainings"),
}

STUDIES = (
    Study(
        name="head-to-head-sms",
        item="Head to head on messages",
        says=SAYS,
        protocol=SMS | METHODS,
        rows=head_to_head_sms,
        claims=(),
        seeds=5,
    ),
    Study(
        name="head-to-head-mnist5k",
        item="Head to head on MNIST",
        says=SAYS,
        protocol=MNIST | METHODS,
        rows=head_to_head_mnist5k,
        claims=(),
        seeds=5,
    ),
)
