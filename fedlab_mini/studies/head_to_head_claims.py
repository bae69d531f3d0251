"""Head to head: the protocol, and what chapter 10 says of it. Below: head_to_head."""

from __future__ import annotations

from .head_to_head import head_to_head, head_to_head_mnist5k, head_to_head_sms
from .study import Study

PROTOCOL = {
    "data": ("FLCE: five sets; GTG: MNIST", "digits, 400 samples with clients, 360 validate"),
    "clients": ("8 or 10", "8, in nine scenarios"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, 64-32-10"),
    "truth": ("exact values of 2^8 or 2^10 retrainings", "the same, 2^8, by two seeds of training"),
    "worth": ("accuracy", "minus the validation loss"),
    "what methods see": ("the training that the truth has seen", "a training of another seed"),
    "repetitions": ("10, FLCE; 1 elsewhere", "10 seeds, each with five trainings"),
}
SMS = {
    "data": ("not used", "synthetic messages, 800 with clients, 360 validate; 200 words"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, logistic regression"),
    "repetitions": ("10, FLCE; 1 elsewhere", "5 seeds"),
}
MNIST = {
    "data": ("MNIST", "MNIST, 800 images with clients, 360 validate"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, 784-32-10"),
    "repetitions": ("10, FLCE; 1 elsewhere", "5 seeds"),
}
SAYS = (
    "Benchmarks compare methods with one training's exact values and report a cosine or a rank "
    "correlation; none says how far those values agree with themselves."
)
ITEM = "Head to head: fidelity, detection, use, stability, price"
STUDIES = (
    Study(
        name="head-to-head",
        item=ITEM,
        says=SAYS,
        protocol=PROTOCOL,
        rows=head_to_head,
        claims=(),
        seeds=10,
    ),
    Study(
        name="head-to-head-sms",
        item=f"{ITEM}, messages",
        says=SAYS,
        protocol=PROTOCOL | SMS,
        rows=head_to_head_sms,
        claims=(),
        seeds=5,
    ),
    Study(
        name="head-to-head-mnist5k",
        item=f"{ITEM}, MNIST",
        says=SAYS,
        protocol=PROTOCOL | MNIST,
        rows=head_to_head_mnist5k,
        claims=(),
        seeds=5,
    ),
)
