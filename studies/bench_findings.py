"""The sentences of the page *The bench*, as claims about the board's rows.

The rows of the blocks, seeds 100 to 109 and 300 to 309, 400 to 409 where a sentence was worded
anew, and 500 to 509 of version 2, are results like those of a study, so a claim is judged on all
blocks together, by the one rule of ``Results.judge``. A sentence whose claims no longer give it
stops the page; a block alone, only if its whole interval lies on the other side.
Below: results, calls. Above: leaderboard (the page), pages, disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pandas

import fedlab_bench as fb
from fedlab_bench import compared
from fedlab_bench.judging import family_of

from . import calls
from .results import ALIKE, FAILS, HOLDS, Entry, Results
from .study import COLUMNS, Claim, Study

NAME = "bench"
BLOCKS = {1: fb.HELD_OUT, 3: fb.CONFIRMING, 4: fb.LATEST, 5: fb.CONFIRMING_2}
TAU, AUC, PAY = "tau", "AUC", "pay gained"
SKEW, EVEN, SIZES, DIRT, RARE = "skew", "skew, even sizes", "sizes", "dirt", "rare class"
FEW, HALF, LOUD = "few samples", "half a round", "an attack among alike"
HARD, EASY = "dirt under skew", 2 / 3  # an AUC above which it would be easy
WRONG = "wrong labels, Dirichlet 0.5"
SPAM, THIRTY = "messages", "30 clients"
LATER, BEFORE = "attack: predicted step", "attacks of version 1"  # it came with version 1.1
FIRST = (SKEW, EVEN, FEW, HARD, "attacks")  # reported by version 1
TOLD = (*FIRST, SIZES, DIRT, RARE, HALF, LOUD, SPAM, THIRTY)
TOLD_ANEW = (SKEW, EVEN, RARE)  # they have the latest seeds, too
SECOND, CAPPED = "second order", "second order, capped"
SHAPLEY, GTG = "Shapley", "GTG-Shapley"
CGSV, CLASS, MEAN, TRUST = "CGSV", "class cosine", "mean cosine", "trust cosine"
BY_MEAN = "retrained by the mean"  # exact values, where the server has another rule
LOO, SILENT, SIZE, FEDCE = "leave one out", "Shapley, silent", "size", "FedCE"
ERROR, STRATIFIED, ORDERINGS = "relative error", "stratified", "random orderings"
MEDIAN, UNDER_MOMENTUM = "median", "momentum: Dirichlet 0.5"
UNDER_MEDIAN = "median: Dirichlet 0.5"
MOMENTUM_WRONG, MEDIAN_WRONG = "momentum: wrong labels", "median: wrong labels"
CLEVELAND, SWISS = "hospitals: Cleveland judges", "hospitals: Switzerland judges"
ALL_JUDGE, NOISY, COPIED = "hospitals: all judge", "attack: noisy replay", "attack: copied update"
MEDIAN_LENGTH, NAMES = "attack: replay at median length", "attack: two names"
WITHHELD, AGAINST = "attack: withheld work", "attack: against another"
PUNISH = ("FedIF", CAPPED, TRUST)  # the scores by which the attacks of version 1 lose pay


LEFT_OUT = {"lambda-MR", "beta-Shapley", "Shapley, accuracy"}  # nearly the row of another score
ROWS = [row for row in compared.COMPARED if "trainings" not in row.sees]
ROWS = [row for row in ROWS if row.name not in LEFT_OUT]
SCORES = [row.name for row in ROWS if row.name != MEAN]  # the mean cosine is judged in one family
COSTLY = {GTG}  # not in version 2 so far: it takes longer than all others together
CLASSWISE = "class-wise Shapley"
# Scores that came with version 2, and the families of version 1 in which they are judged, too.
ADDED = {CLASSWISE: (RARE,)}
Shown = Callable[..., object]  # metric, score, family or scenario -> its mean and interval


class Finding(NamedTuple):
    """A sentence of the page.

    name   the ids of its claims are bench-NAME-1, ...
    says   the text, from the function that shows an interval
    holds  what must hold; a claim with ``equal`` says that no difference is shown
    never  what must not hold: behind "no score is ..." stands a claim per score
    """

    name: str
    says: Callable[[Shown], str]
    holds: tuple[Claim, ...]
    never: tuple[Claim, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All its claims, with their ids."""
        found = enumerate((*self.holds, *self.never), start=1)
        return tuple(replace(claim, id=f"{NAME}-{self.name}-{k}") for k, claim in found)


def ask(metric: str, a: str, at: str, b: str = "", **bounds: float) -> Claim:
    """A claim about a score, or about the lead of a over b; its sentence is what it asks."""
    asked = " and ".join(f"{end} {bound:.2g}" for end, bound in bounds.items())
    words = f"The bench, {at}: {metric} of {a}{f' minus that of {b}' if b else ''}, {asked}"
    low, high = bounds.get("above", -math.inf), bounds.get("below", math.inf)
    if "undecided" in bounds:
        low = high = bounds["undecided"]
    return Claim(words, metric, a, b, at, low, high, "undecided" in bounds, source="book")


def each(*scores: str, of: Iterable[str] = (), at: str, **asked: Any) -> tuple[Claim, ...]:
    """The same claim about every score but these, or about those given."""
    some = of or [score for score in SCORES if stands(score, at)]
    return tuple(ask(a=score, at=at, **asked) for score in some if score not in scores)


def stands(score: str, family: str) -> bool:
    """Whether version 1 or 2 judges a score in a family, or in one of its scenarios."""
    old = any(
        world.version == 1 for name, world in fb.WORLDS.items() if family in (name, world.family)
    )
    return family in ADDED.get(score, (family,)) if old else score not in COSTLY


@cache
def board() -> dict[str, Results]:
    """The rows of all blocks as results, per scenario and per family; a value per seed."""
    return results_of(stored())


def stored() -> pandas.DataFrame:
    """What the bench has stored of all blocks that claims are read on."""
    judged = [fb.judged(seeds) for seeds in BLOCKS.values()]
    return pandas.concat([*judged, calls.stored()], ignore_index=True)


def results_of(frame: pandas.DataFrame) -> dict[str, Results]:
    """Results per scenario and per family, whose value is the mean of its scenarios.

    frame  columns seed, scenario, method, metric, value
    """
    family = frame.scenario.map(family_of)
    before = frame[family.eq("attacks") & frame.scenario.ne(LATER)]
    parts = [frame, *(_means(*one) for one in [*frame.groupby(family), (BEFORE, before)])]
    rows = pandas.concat(parts).drop_duplicates(COLUMNS[:-1])
    return {str(at): _results(own) for at, own in rows.groupby("scenario", sort=False)}


def _means(family: str, frame: pandas.DataFrame) -> pandas.DataFrame:
    """The means of a family's scenarios; a score that lacks one of them has none."""
    parts = []
    for metric, rows in frame.groupby("metric"):
        table = rows.pivot(index=["seed", "method"], columns="scenario", values="value")
        means = table.dropna().mean(axis=1).rename("value").reset_index()
        parts.append(means.assign(scenario=family, metric=metric))
    return pandas.concat(parts)[COLUMNS]


def _results(rows: pandas.DataFrame) -> Results:
    """The rows of one scenario, of the scores that have all its seeds."""
    seeds = set(rows.seed)
    complete = rows.groupby(["method", "metric"]).seed.transform("nunique") == len(seeds)
    blocks = {number: [seed for seed in own if seed in seeds] for number, own in BLOCKS.items()}
    blocks = {number: own for number, own in blocks.items() if own}
    # Every question counts as asked of all blocks.
    asked = {claim.question: min(BLOCKS) for one in FINDINGS for claim in one.claims}
    study = Study(name=NAME, item="The bench", says="", protocol={}, rows=lambda seed: ())
    return Results(study, rows[complete], True, blocks, asked)


def judged(claim: Claim, rows: Mapping[str, Results] | None = None) -> Entry:
    """The outcome of a claim on all blocks."""
    return (rows or board())[claim.at].judge(claim)


def faults(rows: Mapping[str, Results] | None = None) -> list[str]:
    """What the rows no longer support, one line per claim."""
    found = []
    for one in FINDINGS:
        for claim in one.claims[: len(one.holds)]:
            entry, wanted = judged(claim, rows), ALIKE if claim.equal else HOLDS
            if entry.verdict != wanted or FAILS in entry.each:
                alone = f"; blocks alone: {', '.join(entry.each)}"
                found.append(f"{claim.id}: {claim.sentence}: {entry.measured}{alone}")
        for claim in one.claims[len(one.holds) :]:
            entry = judged(claim, rows)
            if entry.verdict == HOLDS:
                found.append(f"{claim.id}: it holds now: {claim.sentence}: {entry.measured}")
    return found


def findings(rows: Mapping[str, Results] | None = None) -> str:
    """The findings, one paragraph each, with the numbers of all blocks together.

    raises  ValueError that names each claim that the rows do not support
    """
    rows = rows or board()
    if found := faults(rows):
        raise ValueError("bench.md says more than its rows:\n" + "\n".join(found))

    def shown(metric: str, score: str, at: str) -> object:
        return rows[at].interval(metric, score, at)

    return "\n\n".join(one.says(shown) for one in FINDINGS)


FINDINGS = (
    Finding(
        "counting",
        lambda shown: (
            f"**Size is hard to beat.** Where labels and amounts differ together, *size* has a tau "
            f"of {shown(TAU, SIZE, SKEW)}, and no score on the board is clearly better."
        ),
        holds=(ask(TAU, SIZE, SKEW, above=0),),
        never=each(SIZE, metric=TAU, at=SKEW, b=SIZE, above=0),
    ),
    Finding(
        "even sizes",
        lambda shown: (
            f"**With even sizes no score comes near the ceiling.** There *size* ranks nothing. The "
            f"highest taus are those of *Shapley*, {shown(TAU, SHAPLEY, EVEN)}, and *GTG-Shapley*, "
            f"{shown(TAU, GTG, EVEN)}. Two retrainings agree by {shown(TAU, fb.CEILING, EVEN)}."
        ),
        holds=each(metric=TAU, at=EVEN, b=fb.CEILING, below=0),
    ),
    Finding(
        "few samples",
        lambda shown: (
            f"**A server with few samples is better off with none.** Wrong labels are found with "
            f"an AUC of {shown(AUC, CLASS, FEW)} by *class cosine*, which looks at no sample, and "
            f"of {shown(AUC, SECOND, FEW)} by the *Taylor score*, which looks at a hundred or "
            f"fewer, or at none of one class."
        ),
        holds=(ask(AUC, CLASS, FEW, SECOND, above=0),),
    ),
    Finding(
        "dirt under skew",
        lambda shown: (
            f"**Corrupted clients under skew stay hard to find.** No score has an AUC there that "
            f"is clearly above two thirds. *Leave one out* has {shown(AUC, LOO, HARD)}, retraining "
            f"itself {shown(AUC, fb.CEILING, HARD)}."
        ),
        holds=(),
        never=(
            *each(metric=AUC, at=HARD, above=EASY),
            ask(AUC, fb.CEILING, HARD, above=EASY),
        ),
    ),
    Finding(
        "weights",
        lambda shown: (
            f"**CGSV's weights are not the cosine.** With wrong labels under Dirichlet 0.5 the "
            f"weights have an AUC of {shown(AUC, CGSV, WRONG)}, not clearly different from chance. "
            f"The *mean cosine* of the update with the aggregate, from which they are made, has "
            f"{shown(AUC, MEAN, WRONG)}."
        ),
        holds=(ask(AUC, CGSV, WRONG, undecided=0.5), ask(AUC, MEAN, WRONG, above=0.5)),
    ),
    Finding(
        "predicted step",
        lambda shown: (
            "**Scores that punish other attacks do not punish the predicted step.** Over the six "
            "attacks of version 1 together, the attacker's pay clearly falls by *FedIF*, *Taylor "
            "score, capped* and *trust cosine*. None of these lowers the pay of *predicted step*, "
            "which clearly rises by *CGSV* and *class cosine* and clearly falls by *FedCE*."
        ),
        holds=(
            *each(metric=PAY, at=BEFORE, below=0, of=PUNISH),
            *each(metric=PAY, at=LATER, above=0, of=(CGSV, CLASS)),
            ask(PAY, FEDCE, LATER, below=0),
        ),
        never=each(metric=PAY, at=LATER, below=0, of=PUNISH),
    ),
    Finding(
        "sizes",
        lambda shown: (
            f"**Where only amounts differ, size is enough.** *Size* has a tau of "
            f"{shown(TAU, SIZE, SIZES)}, and no score is clearly better. *Shapley*, which scales "
            f"up the weights of every coalition, has {shown(TAU, SHAPLEY, SIZES)}."
        ),
        holds=(ask(TAU, SIZE, SIZES, SHAPLEY, above=0),),
        never=each(SIZE, metric=TAU, at=SIZES, b=SIZE, above=0),
    ),
    Finding(
        "dirt",
        lambda shown: (
            f"**Among similar clients the corrupted ones are found.** The AUC of the *Taylor "
            f"score* is {shown(AUC, SECOND, DIRT)}, that of *CGSV's weights* "
            f"{shown(AUC, CGSV, DIRT)}, that of *class cosine* {shown(AUC, CLASS, DIRT)}. *FedCE*, "
            f"to which an update that points elsewhere is a contribution, puts them first, "
            f"{shown(AUC, FEDCE, DIRT)}."
        ),
        holds=(
            *each(metric=AUC, at=DIRT, above=0.5, of=(SECOND, CGSV, CLASS)),
            ask(AUC, FEDCE, DIRT, below=0.5),
        ),
    ),
    Finding(
        "loud",
        lambda shown: (
            f"**Among similar clients a multiplied update pays, unless lengths are capped.** Over "
            f"a training run, four times the length raises a client's share of the pay by *leave "
            f"one out* by {shown(PAY, LOO, LOUD)}, by the *Taylor score* by "
            f"{shown(PAY, SECOND, LOUD)}. Where the server first cuts longer updates to the "
            f"round's median, the *Taylor score* changes it by {shown(PAY, CAPPED, LOUD)}."
        ),
        holds=(
            *each(metric=PAY, at=LOUD, above=0, of=(LOO, SECOND)),
            ask(PAY, CAPPED, LOUD, above=-0.05, below=0.05),
        ),
    ),
    Finding(
        "rare class",
        lambda shown: (
            f"**Leave one out finds the only holder of a class.** Its AUC is "
            f"{shown(AUC, LOO, RARE)}. So does *FedCE*, which puts corrupted clients first as "
            f"well. For all other scores on the board it is not clear that they put the holder "
            f"above three of four other clients: the *Taylor score* has "
            f"{shown(AUC, SECOND, RARE)}, silent Shapley {shown(AUC, SILENT, RARE)}. *CGSV's "
            f"weights* put the holder last, {shown(AUC, CGSV, RARE)}, and retraining ranks it low, "
            f"{shown(AUC, fb.CEILING, RARE)}."
        ),
        holds=(
            *each(metric=AUC, at=RARE, above=0.75, of=(LOO, FEDCE)),
            *each(metric=AUC, at=RARE, below=0.5, of=(CGSV, fb.CEILING)),
        ),
        never=each(LOO, FEDCE, metric=AUC, at=RARE, above=0.75),
    ),
    Finding(
        "half a round",
        lambda shown: (
            f"**Half of the clients per round are enough for wrong labels,** found with an AUC of "
            f"{shown(AUC, CLASS, HALF)} by *class cosine* and {shown(AUC, SECOND, HALF)} by "
            f"the *Taylor score*."
        ),
        holds=each(metric=AUC, at=HALF, above=0.5, of=(CLASS, SECOND)),
    ),
    Finding(
        "messages",
        lambda shown: (
            f"**Two classes are too few for class cosine.** Messages with wrong labels are found "
            f"by *CGSV's weights*, {shown(AUC, CGSV, SPAM)}, and not by *class cosine*, "
            f"{shown(AUC, CLASS, SPAM)}."
        ),
        holds=(ask(AUC, CGSV, SPAM, above=0.5),),
        never=(ask(AUC, CLASS, SPAM, above=0.5),),
    ),
    Finding(
        "thirty clients",
        lambda shown: (
            f"**Thirty clients with few samples each are no hindrance.** *Class cosine* finds "
            f"their wrong labels with an AUC of {shown(AUC, CLASS, THIRTY)}."
        ),
        holds=(ask(AUC, CLASS, THIRTY, above=0.5),),
    ),
    # Version 2: written after a look at seeds 0 to 9 alone.
    Finding(
        "knowledge",
        lambda shown: (
            f"**An attacker who knows how long updates are is paid.** A replay under noise loses "
            f"pay by *leave one out*, {shown(PAY, LOO, NOISY)}. At the median length of the "
            f"others' updates it no longer clearly does, and *Shapley* pays "
            f"{shown(PAY, SHAPLEY, MEDIAN_LENGTH)} more than for work. *CGSV's weights* pay more "
            f"for each of the two, and for a copied update, {shown(PAY, CGSV, COPIED)}, which "
            f"*leave one out* punishes, {shown(PAY, LOO, COPIED)}."
        ),
        holds=(
            ask(PAY, LOO, NOISY, below=0),
            ask(PAY, SHAPLEY, MEDIAN_LENGTH, above=0),
            *(ask(PAY, CGSV, at, above=0) for at in (NOISY, MEDIAN_LENGTH, COPIED)),
            ask(PAY, LOO, COPIED, below=0),
        ),
        never=each(metric=PAY, at=MEDIAN_LENGTH, below=0, of=(LOO,)),
    ),
    Finding(
        "names",
        lambda shown: (
            f"**Two names for one client's samples pay where a score does not weigh sizes.** They "
            f"raise its share by *trust cosine* by {shown(PAY, TRUST, NAMES)}, by *FedIF* by "
            f"{shown(PAY, 'FedIF', NAMES)}, by *FedCE* by {shown(PAY, FEDCE, NAMES)}. By *leave "
            f"one out* it falls, {shown(PAY, LOO, NAMES)}."
        ),
        holds=(
            *each(metric=PAY, at=NAMES, above=0, of=(TRUST, "FedIF", FEDCE)),
            ask(PAY, LOO, NAMES, below=0),
        ),
    ),
    Finding(
        "withheld",
        lambda shown: (
            f"**Some scores do not notice ten rounds without work.** The pay by *class cosine* "
            f"changes by {shown(PAY, CLASS, WITHHELD)}, that by *FedIF* by "
            f"{shown(PAY, 'FedIF', WITHHELD)}. By silent Shapley it falls, "
            f"{shown(PAY, SILENT, WITHHELD)}, as by *trust cosine*, {shown(PAY, TRUST, WITHHELD)}."
        ),
        holds=(
            *each(metric=PAY, at=WITHHELD, above=-0.02, below=0.02, of=(CLASS, "FedIF")),
            *each(metric=PAY, at=WITHHELD, below=0, of=(SILENT, TRUST)),
        ),
    ),
    Finding(
        "against",
        lambda shown: (
            f"**To push straight against another client does not lower its score.** By no score on "
            f"the board the victim clearly loses pay. It loses {shown(PAY, LOO, AGAINST)} by "
            f"*leave one out* and {shown(PAY, TRUST, AGAINST)} by *trust cosine*: less than "
            f"nothing, so it gains."
        ),
        holds=each(metric=PAY, at=AGAINST, below=0, of=(LOO, TRUST)),
        never=each(metric=PAY, at=AGAINST, above=0),
    ),
    Finding(
        "rule",
        lambda shown: (
            f"**The server's rule decides who is worth what.** Retraining by the mean, asked about "
            f"clients of Dirichlet 0.5 under server momentum, has a tau of "
            f"{shown(TAU, BY_MEAN, UNDER_MOMENTUM)}; a second retraining under momentum has "
            f"{shown(TAU, fb.CEILING, UNDER_MOMENTUM)}. Amounts, by which the mean ranks, hardly "
            f"count there: *size* has {shown(TAU, SIZE, UNDER_MOMENTUM)}. Under the median, the "
            f"mean ranks nearly as a second retraining does, {shown(TAU, BY_MEAN, MEDIAN)} beside "
            f"{shown(TAU, fb.CEILING, MEDIAN)}, but its shares are off by "
            f"{shown(ERROR, BY_MEAN, MEDIAN)} instead of {shown(ERROR, fb.CEILING, MEDIAN)}."
        ),
        holds=(
            ask(TAU, BY_MEAN, UNDER_MOMENTUM, fb.CEILING, below=0),
            ask(TAU, SIZE, UNDER_MOMENTUM, below=0.5),
            ask(TAU, BY_MEAN, MEDIAN, above=0.75),
            *each(metric=ERROR, at=MEDIAN, b=fb.CEILING, above=0, of=(BY_MEAN,)),
        ),
    ),
    Finding(
        "momentum",
        lambda shown: (
            f"**Class cosine does not see wrong labels under server momentum.** Its AUC is "
            f"{shown(AUC, CLASS, MOMENTUM_WRONG)} there, and {shown(AUC, CLASS, MEDIAN_WRONG)} "
            f"under the median. The *Taylor score*, which looks at the server's samples, has "
            f"{shown(AUC, SECOND, MOMENTUM_WRONG)} under momentum."
        ),
        holds=(
            *each(metric=AUC, at=MEDIAN_WRONG, above=0.5, of=(CLASS,)),
            ask(AUC, SECOND, MOMENTUM_WRONG, CLASS, above=0),
        ),
        never=each(metric=AUC, at=MOMENTUM_WRONG, above=0.5, of=(CLASS,)),
    ),
    Finding(
        "wrong labels, other rules",
        lambda shown: (
            f"**Other scores find them under both rules.** *CGSV's weights* have an AUC of "
            f"{shown(AUC, CGSV, MOMENTUM_WRONG)} under momentum and "
            f"{shown(AUC, CGSV, MEDIAN_WRONG)} under the median, the *Taylor score, capped*, "
            f"{shown(AUC, CAPPED, MOMENTUM_WRONG)} and {shown(AUC, CAPPED, MEDIAN_WRONG)}."
        ),
        holds=(
            *each(metric=AUC, at=MOMENTUM_WRONG, above=0.75, of=(CGSV, CAPPED)),
            *each(metric=AUC, at=MEDIAN_WRONG, above=0.75, of=(CGSV, CAPPED)),
        ),
    ),
    Finding(
        "skew, other rules",
        lambda shown: (
            f"**Under skew no score of rounds reaches the ceiling by any rule.** At Dirichlet "
            f"0.5 a second retraining has a tau of {shown(TAU, fb.CEILING, UNDER_MOMENTUM)} under "
            f"momentum and {shown(TAU, fb.CEILING, UNDER_MEDIAN)} under the median, *Shapley* "
            f"{shown(TAU, SHAPLEY, UNDER_MOMENTUM)} and {shown(TAU, SHAPLEY, UNDER_MEDIAN)}. Nor "
            f"does one for four hospitals, judged by the patients of all."
        ),
        holds=(
            *each(metric=TAU, at=UNDER_MOMENTUM, b=fb.CEILING, below=0),
            *each(metric=TAU, at=UNDER_MEDIAN, b=fb.CEILING, below=0),
            *each(metric=TAU, at=ALL_JUDGE, b=fb.CEILING, below=0),
        ),
    ),
    Finding(
        "class-wise",
        lambda shown: (
            f"**Class by class, in sum, is no better at a rare class.** *Class-wise Shapley*, "
            f"summed over classes, puts the only holder low, {shown(AUC, CLASSWISE, RARE)}; its "
            f"row of that class finds the holder ({{doc}}`Methods <methods>`). Under momentum the "
            f"sum finds wrong labels with an AUC of {shown(AUC, CLASSWISE, MOMENTUM_WRONG)}, "
            f"*Shapley*, which reads the loss, with {shown(AUC, SHAPLEY, MOMENTUM_WRONG)}."
        ),
        holds=(
            ask(AUC, CLASSWISE, RARE, below=0.5),
            ask(AUC, CLASSWISE, MOMENTUM_WRONG, SHAPLEY, below=0),
        ),
    ),
    Finding(
        "hospitals",
        lambda shown: (
            f"**Whose patients judge decides whether size is a contribution.** Judged by the "
            f"patients of Cleveland, the largest hospital, *size* has a tau of "
            f"{shown(TAU, SIZE, CLEVELAND)} with retraining; judged by those of Switzerland, the "
            f"smallest, {shown(TAU, SIZE, SWISS)}. *Shapley* looks at the judge's patients and "
            f"follows, {shown(TAU, SHAPLEY, SWISS)}. Judged by all, *size* is clearly better than "
            f"the *Taylor score*, {shown(TAU, SIZE, ALL_JUDGE)} and "
            f"{shown(TAU, SECOND, ALL_JUDGE)}."
        ),
        holds=(
            ask(TAU, SIZE, CLEVELAND, above=0),
            ask(TAU, SIZE, SWISS, below=0),
            ask(TAU, SHAPLEY, SWISS, above=0),
            ask(TAU, SIZE, ALL_JUDGE, SECOND, above=0),
        ),
    ),
    Finding(
        "calls",
        lambda shown: (
            f"**With a third of the worths, the paired kernel is nearest.** After 96 of 256 worths "
            f"its relative error is {shown(ERROR, calls.KERNEL, calls.at(96))}, lower than that of "
            f"every other estimator. Stratified sampling pays late: after 48 worths its error is "
            f"{shown(ERROR, STRATIFIED, calls.at(48))}, above the "
            f"{shown(ERROR, ORDERINGS, calls.at(48))} of random orderings; after 96 it is "
            f"{shown(ERROR, STRATIFIED, calls.at(96))}, below their "
            f"{shown(ERROR, ORDERINGS, calls.at(96))}."
        ),
        holds=(
            *(ask(ERROR, calls.KERNEL, calls.at(96), other, below=0) for other in calls.RUNNING),
            ask(ERROR, STRATIFIED, calls.at(48), ORDERINGS, above=0),
            ask(ERROR, STRATIFIED, calls.at(96), ORDERINGS, below=0),
        ),
    ),
)
