"""Head to head: the protocol, and what chapter 10 says of it. Below: head_to_head."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from .. import plots
from .head_to_head import head_to_head
from .study import Claim, Results, Study, Test, alike, beyond, higher, lower, within

PROTOCOL = {
    "data": ("FLCE: five sets; GTG: MNIST", "digits, 400 samples with clients, 360 validate"),
    "clients": ("8 or 10", "8, in nine scenarios"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, 64-32-10"),
    "truth": ("exact values of 2^8 or 2^10 retrainings", "the same, 2^8, by two seeds of training"),
    "worth": ("accuracy", "minus the validation loss"),
    "what methods see": ("the training that the truth has seen", "a training of another seed"),
    "repetitions": ("10, FLCE; 1 elsewhere", "10 seeds, each with five trainings"),
}
SAYS = (
    "Benchmarks compare methods with one training's exact values and report a cosine or a rank "
    "correlation; none says how far those values agree with themselves."
)
TAU, AUC = "tau with retraining", "detection AUC"
TRUTH = "(the truth itself)"


def ours(sentence: str, test: Test) -> Claim:
    """A sentence of this book's."""
    return Claim(sentence, test, paper=False)


def head_to_head_claims() -> Iterator[Claim]:
    """Whom can one believe, under which ceiling, at which price?"""
    for scenario in ("wrong labels", "sizes", "Dirichlet 0.1"):
        better = higher(TAU, f"{scenario}; {TRUTH}", f"alike; {TRUTH}")
        yield ours(
            f"the truth agrees better with itself than among alike clients: {scenario}", better
        )
    near = alike(TAU, "alike; Shapley, silent", f"alike; {TRUTH}")
    yield ours("alike: the silent Shapley value is not shown to be below the ceiling", near)
    for split in ("Dirichlet 0.5", "Dirichlet 0.1"):
        for name in ("alone", "leave one out", "Shapley", "Shapley, silent", "CGSV", "F-RCCE"):
            under = lower(TAU, f"{split}; {name}", f"{split}; {TRUTH}")
            yield ours(f"{split}: below the ceiling: {name}", under)
    unequal = higher(TAU, "sizes; Shapley, silent", "sizes; Shapley")
    yield ours("sizes: the silent game is closer to retraining than the other", unequal)
    coarse = lower(TAU, "wrong labels; Shapley, accuracy", "wrong labels; Shapley")
    yield ours("wrong labels: worth by accuracy is farther from retraining than by loss", coarse)
    for kind in ("wrong labels", "noisy inputs", "irrelevant"):
        yield ours(f"{kind}: CGSV finds them (AUC above .9)", beyond(AUC, f"{kind}; CGSV", 0.9))
    for name in ("leave one out", "Shapley, silent", "second order"):
        found = beyond(AUC, f"rare class; {name}", 0.9)
        yield ours(f"rare class: its holder is ranked above others by {name}", found)
    for name in ("alone", "Shapley", "CGSV", "class cosine"):
        missed = within(AUC, -1, 0.1, f"rare class; {name}")
        yield ours(f"rare class: its holder is ranked below others by {name}", missed)
    gain = "accuracy gained by weights"
    for name in ("Shapley", "CGSV"):
        harm = within(gain, -1, 0, f"Dirichlet 0.1; {name}")
        yield ours(f"Dirichlet 0.1: weights by {name} cost accuracy", harm)
    yield ours(
        "wrong labels: weights by Shapley value gain", beyond(gain, "wrong labels; Shapley", 0)
    )
    close = beyond("tau with the rounds' value", "alike; GTG-Shapley", 0.9)
    yield ours("alike: guided truncation ranks as the exact value does (tau above .9)", close)
    moved = lower("stability, training", "alike; F-RCCE", "alike; Shapley")
    yield ours("alike: F-RCCE's scores change more between trainings than Shapley values", moved)


def head_to_head_figure(results: Results) -> Figure:
    """Agreement with retraining under label skew, and the ceiling."""
    split = "Dirichlet 0.5; "
    names = [v for v in results.variants if v.startswith(split) and TRUTH not in v]
    line = results.interval(TAU, f"{split}{TRUTH}").mean
    return plots.dots(
        {v.removeprefix(split): results.values(TAU, v) for v in names},
        xlabel="tau with retraining, Dirichlet 0.5",
        reference={"ceiling": line},
    )


ITEM = "Head to head: fidelity, detection, use, stability, price"
STUDIES = (
    Study(
        name="head-to-head",
        item=ITEM,
        says=SAYS,
        protocol=PROTOCOL,
        rows=head_to_head,
        claims=tuple(head_to_head_claims()),
        figure=head_to_head_figure,
        seeds=10,
    ),
)
