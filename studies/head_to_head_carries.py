"""Head to head on messages: what of chapter 10 carries over from digits?

CARRIES holds the chapter's sentences, with the bounds that they have on digits, so that they can be
judged on both sets. Below: head_to_head, head_to_head_claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from .head_to_head import FEW, head_to_head_sms
from .head_to_head_claims import AUC, GAIN, HELP, PROTOCOL, SAYS, TAU, TRUTH, ours
from .study import HOLDS, PART, Claim, Results, Study, Test, alike, beyond, lower, within

SKEW, FLIPS, RARE = "Dirichlet 0.1", "wrong labels", "rare class"


def all_of(*tests: Test) -> Test:
    """Several tests as one: all hold, some (in part), or none."""

    def test(results: Results) -> tuple[str, str]:
        found = [one(results)[0] for one in tests]
        told = f"{found.count(HOLDS)} of {len(found)}"
        if len(set(found)) == 1:
            return found[0], told
        return (PART if HOLDS in found else "not shown"), told

    return test


def carries() -> Iterator[Claim]:
    """The sentences, in the order of the chapter."""
    for kind in ("sizes", FLIPS):
        agree = beyond(TAU, f"{kind}; {TRUTH}", 0.8)
        yield ours(f"{kind}: two trainings agree, tau above .8", agree)
    near = within(TAU, -0.3, 0.3, "sizes; Shapley, silent", f"sizes; {TRUTH}")
    yield ours("sizes: silent Shapley within .3 of the ceiling", near)
    away = lower(TAU, "sizes; Shapley", f"sizes; {TRUTH}")
    yield ours("sizes: the round's Shapley value below the ceiling", away)
    yield ours("sizes: counting has a tau above .6", beyond(TAU, "sizes; size", 0.6))
    each = within(TAU, -0.15, 0.15, f"{FLIPS}; retrained: alone", f"{FLIPS}; {TRUTH}")
    yield ours("wrong labels: one training each within .15 of the ceiling", each)
    under = [lower(TAU, f"{SKEW}; {name}", f"{SKEW}; {TRUTH}") for name in HELP]
    yield ours("Dirichlet 0.1: all six below the ceiling", all_of(*under))
    twins = [
        within(TAU, -0.1, 0.1, f"{kind}; second order", f"{kind}; Shapley, silent")
        for kind in ("sizes", FLIPS)
    ]
    yield ours("sizes, wrong labels: second order within .1 of silent Shapley", all_of(*twins))
    yield ours("wrong labels: CGSV has an AUC above .7", beyond(AUC, f"{FLIPS}; CGSV", 0.7))
    first = [beyond(AUC, f"{RARE}; {n}", 0.9) for n in ("leave one out", "Shapley, silent")]
    first.append(beyond(AUC, f"{RARE}; second order", 0.9))
    yield ours("rare class: leave one out, silent, second order: holder first", all_of(*first))
    last = [within(AUC, -1, 0.1, f"{RARE}; {name}") for name in ("alone", "Shapley", "CGSV")]
    yield ours("rare class: alone, Shapley, CGSV: holder last", all_of(*last))
    low = within(AUC, -1, 0.5, f"{RARE}; {TRUTH}")
    yield ours("rare class: retraining ranks the holder low, AUC under .5", low)
    ruin = within(GAIN, -1, 0, f"{RARE}; leave one out")
    yield ours("rare class: weights by leave one out cost accuracy", ruin)
    cost = within(GAIN, -1, 0, f"{SKEW}; CGSV")
    yield ours("Dirichlet 0.1: weights by CGSV cost accuracy", cost)
    moved = within("stability, training", -1, 0.6, f"{SKEW}; F-RCCE")
    yield ours("Dirichlet 0.1: F-RCCE ranks anew in each training, tau below .6", moved)


CARRIES = tuple(carries())


def told(key: str, test: Test, sentence: str) -> Claim:
    """A sentence of chapter 10 on messages."""
    return Claim(sentence, test, paper=False, key=key)


def sms_reads() -> Iterator[Claim]:
    """What the chapter says of messages alone."""
    truth = beyond(AUC, f"{RARE}; {TRUTH}", 0.9)
    yield told("sms_truth", truth, "messages, rare class: retraining puts its holder first")
    copies = within("removal, worst first", -1, 0.5, "replicas; CGSV")
    yield told("sms_copies", copies, "messages, replicas: CGSV keeps the copies")
    same = alike(TAU, "sizes; Shapley", "sizes; Shapley, silent")
    yield told("sms_sizes", same, "messages, sizes: no difference of the two values is shown")
    ruin = within(GAIN, -1, 0, f"{RARE}; leave one out")
    yield told("sms_loo", ruin, "messages, rare class: weights by leave one out cost accuracy")


METHODS = {"methods": ("12, FLCE", f"{len(FEW)} of the 23 on digits")}
SMS = PROTOCOL | {
    "data": ("FLCE: five sets; GTG: MNIST", "synthetic messages, 800 with clients, 200 words"),
    "training": ("differs", "20 rounds, 1 epoch, batches of 20, rate .2, logistic regression"),
    "repetitions": ("10, FLCE; 1 elsewhere", "5 seeds, each with five trainings"),
}

STUDIES = (
    Study(
        name="head-to-head-sms",
        item="Head to head on messages",
        says=SAYS,
        protocol=SMS | METHODS,
        rows=head_to_head_sms,
        claims=CARRIES,
        reads=tuple(sms_reads()),
        seeds=5,
    ),
)
