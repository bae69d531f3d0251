"""Head to head: every method of the comparison on nine federations, beside the truth's own noise.

Chapter 10 reads these results. CARRIES holds its sentences with the bounds that they have on
digits, so that they can be judged on messages and on MNIST, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from fedlab_mini.judge.compare.cell import ROUNDS, cell
from fedlab_mini.judge.compare.methods import METHODS
from fedlab_mini.judge.compare.scenarios import SCENARIOS
from fedlab_mini.show import plots

from .claims import alike, beyond, bounded, higher, lower, ours, ratio, within
from .protocols import study
from .study import HOLDS, NOT_SHOWN, PART, Claim, Results, Row, Test

FEW = (
    *("size", "alone", "leave one out", "Shapley", "Shapley, silent", "second order", "CGSV"),
    *("class cosine", "F-RCCE", "retrained: alone"),
)
SIGHTS = ("sizes", "Dirichlet 0.1", "wrong labels", "rare class")  # the scenarios on MNIST
TAU, AUC, GAIN = "tau with retraining", "detection AUC", "accuracy gained by weights"
TRUTH, SILENT = "(the truth itself)", "Shapley, silent"
MILD, SKEW, FLIPS, RARE = "Dirichlet 0.5", "Dirichlet 0.1", "wrong labels", "rare class"
WORST_FIRST, STABLE = "removal, worst first", "stability, training"
JUDGED = ("alone", "leave one out", "Shapley", SILENT, "CGSV", "F-RCCE")  # under skew
SEES_ROUNDS = (
    *("Banzhaf", "least core", "GTG-Shapley", "second order", "trust cosine"),
    *("Shapley, accuracy", "lambda-MR", "beta-Shapley", "nucleolus", "ShapleyFL"),
    *("S-FedAvg's relevance", "first order", "class cosine"),
)
HELP = ("alone", "leave one out", "Shapley", SILENT, "second order", "CGSV")


def cells(
    seed: int, source: str, methods: Iterable[str], scenarios: Iterable[str], rounds: int = ROUNDS
) -> Iterator[Row]:
    """Methods and scenarios on one seed; a variant is "scenario; method"."""
    chosen = {method: METHODS[method] for method in methods}
    for scenario in scenarios:
        make = SCENARIOS[scenario]
        for method, metric, value in cell(chosen, scenario, make, source, seed, rounds=rounds):
            yield f"{scenario}; {method}", metric, value


def head_to_head(seed: int) -> Iterator[Row]:
    """All methods and scenarios."""
    yield from cells(seed, "digits", METHODS, SCENARIOS)


def head_to_head_sms(seed: int) -> Iterator[Row]:
    """Ten of the methods on synthetic text messages, with logistic regression."""
    yield from cells(seed, "sms-synthetic", FEW, SCENARIOS)


def mnist_rows(seed: int) -> Iterator[Row]:
    """Ten of the methods in four scenarios, with half of the rounds."""
    yield from cells(seed, "mnist5k", FEW, SIGHTS, rounds=10)


def head_to_head_figure(results: Results) -> Figure:
    """Agreement with retraining under label skew, and the ceiling."""
    start = f"{MILD}; "
    names = [v for v in results.variants if v.startswith(start) and TRUTH not in v]
    return plots.dots(
        {method.removeprefix(start): results.values(TAU, method) for method in names},
        xlabel="tau with retraining, Dirichlet 0.5",
        reference={"ceiling": results.interval(TAU, f"{start}{TRUTH}").mean},
    )


def below_ceiling(scenario: str, method: str) -> Test:
    """A method agrees less with the truth than the truth with itself."""
    return lower(TAU, f"{scenario}; {method}", f"{scenario}; {TRUTH}")


def near_ceiling(scenario: str, method: str, width: float) -> Test:
    """A method agrees with the truth nearly as the truth with itself."""
    return within(TAU, -width, width, f"{scenario}; {method}", f"{scenario}; {TRUTH}")


def twin(scenario: str) -> Test:
    """The second order is within .1 of the silent value."""
    return within(TAU, -0.1, 0.1, f"{scenario}; second order", f"{scenario}; {SILENT}")


def first(method: str) -> Test:
    """The holder of the rare class is ranked above the others."""
    return beyond(AUC, f"{RARE}; {method}", 0.9)


def last(method: str) -> Test:
    """The holder of the rare class is ranked below the others."""
    return within(AUC, -1, 0.1, f"{RARE}; {method}")


def costs(scenario: str, method: str) -> Test:
    """Weights by a method cost accuracy."""
    return within(GAIN, -1, 0, f"{scenario}; {method}")


def all_of(*tests: Test) -> Test:
    """Several tests as one: all hold, some (in part), or none."""

    def test(results: Results) -> tuple[str, str]:
        verdicts = [one(results)[0] for one in tests]
        measured = f"{verdicts.count(HOLDS)} of {len(verdicts)}"
        if len(set(verdicts)) == 1:
            return verdicts[0], measured
        return (PART if HOLDS in verdicts else NOT_SHOWN), measured

    return test


SKEWED = all_of(*(below_ceiling(SKEW, method) for method in HELP))
FIRST = all_of(first("leave one out"), first(SILENT), first("second order"))
LAST = all_of(last("alone"), last("Shapley"), last("CGSV"))
EACH = near_ceiling(FLIPS, "retrained: alone", 0.15)
MOVED = within(STABLE, -1, 0.6, f"{SKEW}; F-RCCE")
LOW_TRUTH = within(AUC, -1, 0.5, f"{RARE}; {TRUTH}")
TWINS = all_of(twin("sizes"), twin(FLIPS))
# The chapter's sentences, in its order. On digits each must hold; the others say what carries over.
CARRIES = (
    ours("sizes: two trainings agree, tau above .8", beyond(TAU, f"sizes; {TRUTH}", 0.8)),
    ours("wrong labels: two trainings agree, tau above .8", beyond(TAU, f"{FLIPS}; {TRUTH}", 0.8)),
    ours("sizes: silent Shapley within .3 of the ceiling", near_ceiling("sizes", SILENT, 0.3)),
    ours("sizes: the round's Shapley value below the ceiling", below_ceiling("sizes", "Shapley")),
    ours("sizes: counting has a tau above .6", beyond(TAU, "sizes; size", 0.6)),
    ours("wrong labels: one training each within .15 of the ceiling", EACH),
    ours("Dirichlet 0.1: all six below the ceiling", SKEWED),
    ours("sizes, wrong labels: second order within .1 of silent Shapley", TWINS),
    ours("wrong labels: CGSV has an AUC above .7", beyond(AUC, f"{FLIPS}; CGSV", 0.7)),
    ours("rare class: leave one out, silent, second order: holder first", FIRST),
    ours("rare class: alone, Shapley, CGSV: holder last", LAST),
    ours("rare class: retraining ranks the holder low, AUC under .5", LOW_TRUTH),
    ours("rare class: weights by leave one out cost accuracy", costs(RARE, "leave one out")),
    ours("Dirichlet 0.1: weights by CGSV cost accuracy", costs(SKEW, "CGSV")),
    ours("Dirichlet 0.1: F-RCCE ranks anew in each training, tau below .6", MOVED),
)
KEYS = (  # of CARRIES, for the text on digits
    *("ceil_sizes", "ceil_flips", "near_silent", "far_out", "by_size", "one_each", "", ""),
    *("find wrong labels", "", "", "rare_truth", "cost_loo", "cost_cgsv", "moved"),
)


def digits_claims() -> Iterator[Claim]:
    """Whom can one believe, under which ceiling, at which price?"""
    for kind in (FLIPS, "sizes", SKEW):
        sentence = f"the truth agrees better with itself than among alike clients: {kind}"
        yield ours(sentence, higher(TAU, f"{kind}; {TRUTH}", f"alike; {TRUTH}"))
    near = alike(TAU, f"alike; {SILENT}", f"alike; {TRUTH}")
    yield ours("alike: the silent Shapley value is not shown to be below the ceiling", near)
    for kind in (MILD, SKEW):
        for method in JUDGED:
            # The chapter's text names the stronger skew alone.
            read = (f"skew {method}", HOLDS) if kind == SKEW else ("", "")
            yield ours(f"{kind}: below the ceiling: {method}", below_ceiling(kind, method), *read)
    unequal = higher(TAU, f"sizes; {SILENT}", "sizes; Shapley")
    yield ours("sizes: the silent game is closer to retraining than the other", unequal)
    sentence = "wrong labels: worth by accuracy is farther from retraining than by loss"
    coarse = lower(TAU, f"{FLIPS}; Shapley, accuracy", f"{FLIPS}; Shapley")
    yield ours(sentence, coarse, "coarse", HOLDS)
    for kind in (FLIPS, "noisy inputs", "irrelevant"):
        yield ours(f"{kind}: CGSV finds them (AUC above .9)", beyond(AUC, f"{kind}; CGSV", 0.9))
    for method in ("leave one out", SILENT, "second order"):
        yield ours(f"rare class: its holder is ranked above others by {method}", first(method))
    for method in ("alone", "Shapley", "CGSV", "class cosine"):
        sentence = f"rare class: its holder is ranked below others by {method}"
        yield ours(sentence, last(method), stated=HOLDS)
    weights = "Dirichlet 0.1: weights by"
    yield ours(f"{weights} Shapley cost accuracy", costs(SKEW, "Shapley"))
    yield ours(f"{weights} CGSV cost accuracy", costs(SKEW, "CGSV"))
    gain = beyond(GAIN, f"{FLIPS}; Shapley", 0)
    yield ours("wrong labels: weights by Shapley value gain", gain)
    close = beyond("tau with the rounds' value", "alike; GTG-Shapley", 0.9)
    yield ours("alike: guided truncation ranks as the exact value does (tau above .9)", close)
    moved = lower(STABLE, "alike; F-RCCE", "alike; Shapley")
    yield ours("alike: F-RCCE's scores change more between trainings than Shapley values", moved)


def digits_reads() -> Iterator[Claim]:
    """What chapter 10 says of digits besides."""
    yield from (replace(claim, key=key) for claim, key in zip(CARRIES, KEYS, strict=True))
    yield ours("alike: the ceiling", beyond(TAU, f"alike; {TRUTH}", 0.4), "ceil_alike")
    for method in SEES_ROUNDS:
        yield ours(f"skew: {method}", below_ceiling(SKEW, method), f"skew {method}")
    yield ours("skew: trained alone", below_ceiling(SKEW, "retrained: alone"), "skew_own")
    for kind in ("sizes", FLIPS, "noisy inputs", "irrelevant", "replicas"):
        yield ours(f"{kind}: second order and silent value", twin(kind), f"twin {kind}")
    for kind in ("noisy inputs", "irrelevant"):
        yield ours(f"{kind}: CGSV finds", beyond(AUC, f"{kind}; CGSV", 0.7), f"find {kind}")
    yield ours("rare class: first by first order", first("first order"))
    for method in ("beta-Shapley", "GTG-Shapley"):
        yield ours(f"rare class: last by {method}", last(method))
    for method in HELP:
        more = beyond(GAIN, f"irrelevant; {method}", 0)
        yield ours(f"irrelevant clients: weights by {method} gain", more, f"gain {method}")
    blind = within("stability, validation draw", 0.999, 1.001, "alike; CGSV")
    yield ours("CGSV does not change with the validation samples", blind, "blind")
    steady = beyond(STABLE, f"{SKEW}; Shapley", 0.6)
    yield ours("skew: the Shapley value's ranks are alike", steady, "steady")
    for kind in ("alike", "noisy inputs"):
        flat = lower("relative error", f"{kind}; size", f"{kind}; leave one out")
        yield ours(f"{kind}: one number for all beats leave one out", flat, f"flat {kind}")
    ranks = beyond("rank correlation", f"alike; {TRUTH}", 0.5)
    yield ours("alike: the truth's rank correlation with itself", ranks, "ceil_rank")
    copies = within(WORST_FIRST, -1, 0.5, "replicas; CGSV")
    yield ours("replicas: CGSV keeps the copies", copies, "copies")
    yield ours("Shapley does not", beyond(WORST_FIRST, "replicas; Shapley", 0.5), "others")
    tied = within("removal, best first", 0.45, 0.55, f"{FLIPS}; size")
    yield ours("wrong labels: one number for all is luck", tied, "tied")
    yield ours("GTG: above 150", beyond("evaluations a round", "alike; GTG-Shapley", 150), "guided")
    longer = ratio(("seconds", f"alike; {SILENT}"), ("seconds", "alike; second order"))
    yield ours("silent takes longer than second order", bounded(longer, 1.5), "times")


SMS_READS = (
    ours("rare class: retraining puts its holder first", first(TRUTH), "sms_truth"),
    ours("CGSV keeps copies", within(WORST_FIRST, -1, 0.5, "replicas; CGSV"), "sms_copies"),
    ours("sizes: both values", alike(TAU, "sizes; Shapley", f"sizes; {SILENT}"), "sms_sizes"),
    ours("rare class: weights cost accuracy", costs(RARE, "leave one out"), "sms_loo"),
)
MNIST_READS = (
    ours("the holder is above the middle", beyond(AUC, f"{RARE}; {TRUTH}", 0.5), "mnist_truth"),
    ours("not first", within(AUC, -1, 0.9, f"{RARE}; second order"), "mnist_second"),
    ours("near the end by CGSV", within(AUC, -1, 0.2, f"{RARE}; CGSV"), "mnist_cgsv"),
)
STUDIES = (
    study("head-to-head-sms", head_to_head_sms, CARRIES, SMS_READS),
    study("head-to-head", head_to_head, digits_claims(), digits_reads(), head_to_head_figure),
    study("head-to-head-mnist5k", mnist_rows, CARRIES, MNIST_READS),
)
