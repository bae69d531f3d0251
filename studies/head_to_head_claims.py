"""Head to head: the protocol, and what chapter 10 says of it. Below: head_to_head."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from fedlab_mini.judge.evidence import Interval, interval
from fedlab_mini.show import plots

from .head_to_head import head_to_head
from .study import Claim, Results, Study, Test, alike, beyond, bounded, higher, lower, within

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


GAIN, ERROR = "accuracy gained by weights", "relative error"
SECONDS = ("alike; Shapley, silent", "alike; second order")


def times(results: Results) -> Interval:
    """Seconds of the silent Shapley value in those of the second order."""
    a, b = (results.values("seconds", variant) for variant in SECONDS)
    return interval(a / b)


def head_to_head_reads() -> Iterator[Claim]:
    """What chapter 10's sentences say; each must hold."""

    def told(key: str, test: Test, sentence: str) -> Claim:
        return Claim(sentence, test, paper=False, key=key)

    for key, kind, low in (("alike", "alike", 0.4), ("sizes", "sizes", 0.8)):
        yield told(f"ceil_{key}", beyond(TAU, f"{kind}; {TRUTH}", low), f"ceiling: {kind}")
    flips = beyond(TAU, f"wrong labels; {TRUTH}", 0.8)
    yield told("ceil_flips", flips, "ceiling: wrong labels")
    for name in SEES_ROUNDS:
        under = lower(TAU, f"Dirichlet 0.1; {name}", f"Dirichlet 0.1; {TRUTH}")
        yield told(f"skew {name}", under, f"Dirichlet 0.1: below the ceiling: {name}")
    apart = lower(TAU, "Dirichlet 0.1; retrained: alone", f"Dirichlet 0.1; {TRUTH}")
    yield told("skew_own", apart, "Dirichlet 0.1: below the ceiling: trained alone")
    near = within(TAU, -0.3, 0.3, "sizes; Shapley, silent", f"sizes; {TRUTH}")
    yield told("near_silent", near, "sizes: the silent value is within .3 of the ceiling")
    away = lower(TAU, "sizes; Shapley", f"sizes; {TRUTH}")
    yield told("far_out", away, "sizes: the value with weights renormalised is below the ceiling")
    yield told("by_size", beyond(TAU, "sizes; size", 0.6), "sizes: size alone has tau above .6")
    same = within(TAU, -0.15, 0.15, "wrong labels; retrained: alone", f"wrong labels; {TRUTH}")
    yield told("one_each", same, "wrong labels: trained alone is within .15 of the ceiling")
    coarse = lower(TAU, "wrong labels; Shapley, accuracy", "wrong labels; Shapley")
    yield told("coarse", coarse, "wrong labels: accuracy is a worse worth than the loss")
    for kind in ("sizes", "wrong labels", "noisy inputs", "irrelevant", "replicas"):
        twin = within(TAU, -0.1, 0.1, f"{kind}; second order", f"{kind}; Shapley, silent")
        yield told(f"twin {kind}", twin, f"{kind}: second order is within .1 of the silent value")
    for kind in ("wrong labels", "noisy inputs", "irrelevant"):
        found = beyond(AUC, f"{kind}; CGSV", 0.7)
        yield told(f"find {kind}", found, f"{kind}: CGSV has an AUC above .7")
    for name in FIRST:
        yield told("", beyond(AUC, f"rare class; {name}", 0.9), f"rare class: first by {name}")
    for name in LAST:
        yield told("", within(AUC, -1, 0.1, f"rare class; {name}"), f"rare class: last by {name}")
    under = within(AUC, -1, 0.5, f"rare class; {TRUTH}")
    yield told("rare_truth", under, "rare class: retraining ranks its holder below most others")
    for key, kind, name in (
        ("cost_cgsv", "Dirichlet 0.1", "CGSV"),
        ("cost_loo", "rare class", "leave one out"),
    ):
        yield told(key, within(GAIN, -1, 0, f"{kind}; {name}"), f"{kind}: {name} costs accuracy")
    for name in HELP:
        more = beyond(GAIN, f"irrelevant; {name}", 0)
        yield told(f"gain {name}", more, f"irrelevant clients: weights by {name} gain")
    blind = within("stability, validation draw", 0.999, 1.001, "alike; CGSV")
    yield told("blind", blind, "CGSV does not change with the validation samples")
    moved = within("stability, training", -1, 0.6, "Dirichlet 0.1; F-RCCE")
    yield told("moved", moved, "Dirichlet 0.1: F-RCCE's ranks change from training to training")
    steady = beyond("stability, training", "Dirichlet 0.1; Shapley", 0.6)
    yield told("steady", steady, "Dirichlet 0.1: the Shapley value's ranks are alike")
    for kind in ("alike", "noisy inputs"):
        flat = lower(ERROR, f"{kind}; size", f"{kind}; leave one out")
        yield told(f"flat {kind}", flat, f"{kind}: one number for all is nearer than leave one out")
    ranks = beyond("rank correlation", f"alike; {TRUTH}", 0.5)
    yield told("ceil_rank", ranks, "alike: the truth's rank correlation with itself, by the loss")
    gone = "removal, worst first"
    yield told("copies", within(gone, -1, 0.5, "replicas; CGSV"), "replicas: CGSV keeps the copies")
    yield told("others", beyond(gone, "replicas; Shapley", 0.5), "replicas: Shapley does not")
    tied = within("removal, best first", 0.45, 0.55, "wrong labels; size")
    yield told("tied", tied, "wrong labels: one number for all is luck")
    yield told("guided", beyond("evaluations a round", "alike; GTG-Shapley", 150), "GTG: above 150")
    yield told("times", bounded(times, 1.5), "the silent value takes longer than the second order")


SEES_ROUNDS = (
    *("alone", "leave one out", "Shapley", "Shapley, silent", "Banzhaf", "least core"),
    *("GTG-Shapley", "second order", "CGSV", "trust cosine", "F-RCCE"),
    *("Shapley, accuracy", "lambda-MR", "beta-Shapley", "nucleolus", "ShapleyFL"),
    *("S-FedAvg's relevance", "first order", "class cosine"),
)
FIRST = ("leave one out", "Shapley, silent", "first order", "second order")
LAST = ("alone", "Shapley", "beta-Shapley", "GTG-Shapley", "CGSV", "class cosine")
HELP = ("alone", "leave one out", "Shapley", "Shapley, silent", "second order", "CGSV")


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
        reads=tuple(head_to_head_reads()),
        figure=head_to_head_figure,
        seeds=10,
    ),
)
