"""Study: one table or figure as a pure function of a seed, with the sentences that rest on it.

Above: claims (tests of sentences), store (files), code (what a result depends on), __main__ (the
command line). Below: evidence, plots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.judge.evidence import Interval, interval, paired
from fedlab_mini.show import plots

Row = tuple[str, str, float]  # variant, metric, value
COLUMNS = ["seed", "variant", "metric", "value"]
HOLDS, PART, FAILS, NOT_SHOWN, UNTESTED = (
    "holds",
    "holds in part",
    "does not hold",
    "not shown",
    "cannot be tested here",
)


class Results:
    """The stored rows of a study, in long format: seed, variant, metric, value."""

    def __init__(self, study: Study, frame: pd.DataFrame):
        self.study, self.frame = study, frame

    @property
    def variants(self) -> list[str]:
        """The variants in the order in which the study makes them."""
        return list(dict.fromkeys(self.frame.variant))

    def values(self, metric: str, variant: str) -> Tensor:
        """One value a seed, [seeds], in the order of the seeds.

        raises  KeyError for a pair that no row has
        """
        part = self.frame[(self.frame.metric == metric) & (self.frame.variant == variant)]
        if part.empty:
            raise KeyError(f"{self.study.name} has no metric {metric!r} of variant {variant!r}")
        return torch.tensor(part.sort_values("seed").value.to_numpy(), dtype=torch.float64)

    def interval(self, metric: str, variant: str) -> Interval:
        """Mean and 95 % interval over the seeds."""
        return interval(self.values(metric, variant))

    def paired(self, metric: str, a: str, b: str) -> Interval:
        """The interval of variant a minus variant b, seed by seed."""
        return paired(self.values(metric, a), self.values(metric, b))

    def curve(self, metric: str, variant: str) -> tuple[list[float], Tensor]:
        """A metric given at several places, as "AUC @ 100": places [n], values [seeds, n]."""
        names = [
            name for name in dict.fromkeys(self.frame.metric) if name.startswith(f"{metric} @ ")
        ]
        own = set(self.frame.metric[self.frame.variant == variant])
        at = sorted(float(name.rpartition(" @ ")[2]) for name in names if name in own)
        return at, torch.stack([self.values(f"{metric} @ {x:g}", variant) for x in at], dim=1)

    def table(self, *metrics: str, caption: str = "", **look: object) -> plots.Table:
        """Mean and interval of every variant, a row each, a column a metric."""
        has = {(v, m) for v, m in zip(self.frame.variant, self.frame.metric, strict=True)}
        data = {
            v: {m: self.interval(m, v) if (v, m) in has else "" for m in metrics}
            for v in self.variants
            if any((v, m) in has for m in metrics)
        }
        told = caption or f"{self.study.item}: mean and 95 % interval over {self.seeds} seeds."
        return plots.table(data, rows="variant", caption=told, **look)  # type: ignore[arg-type]

    @property
    def seeds(self) -> int:
        """How many seeds are stored."""
        return int(self.frame.seed.nunique())

    def figure(self) -> Figure:
        """The study's figure, drawn from the stored rows."""
        if self.study.figure is None:
            raise ValueError(f"{self.study.name} has no figure; show its table")
        return self.study.figure(self)

    def verdicts(self) -> dict[str, tuple[str, str]]:
        """What came out of each claim: sentence -> (verdict, measured)."""
        return {claim.sentence: claim.judge(self) for claim in self.study.claims}

    def verdict(self) -> str:
        """The item as a whole: all, some or none of the paper's claims hold; without one, ours."""
        claims = [claim for claim in self.study.claims if claim.paper] or self.study.claims
        own = [claim.judge(self)[0] for claim in claims]
        tested = [word for word in own if word != UNTESTED]
        if not tested:
            return UNTESTED
        if HOLDS in tested:
            return HOLDS if set(tested) == {HOLDS} else PART
        return FAILS if FAILS in tested else NOT_SHOWN

    def told(self) -> dict[str, str]:
        """What the chapter's sentences show, key -> "mean [low, high]".

        raises  AssertionError naming a sentence of ``Study.reads`` that does not hold, or a claim
                whose verdict is not the stated one
        """
        for claim in (*(c for c in self.study.claims if c.stated), *self.study.reads):
            word, measured = claim.judge(self)
            if word != (claim.stated or HOLDS):
                raise AssertionError(f"{self.study.name}, {claim.sentence!r}: {word}, {measured}")
        keyed = [claim for claim in (*self.study.claims, *self.study.reads) if claim.key]
        return {claim.key: claim.judge(self)[1] for claim in keyed}

    def judged(self, start: str = "") -> plots.Table:
        """Sentence by sentence: whose it is, what was measured, the verdict.

        start  of the sentences shown; all without it
        """
        whose = {claim.sentence: claim.paper for claim in self.study.claims}
        data = {
            sentence: {
                "source": "paper" if whose[sentence] else "this book",
                "measured": measured,
                "verdict": word,
            }
            for sentence, (word, measured) in self.verdicts().items()
            if sentence.startswith(start)
        }
        caption = f"{self.study.item}: {self.seeds} seeds, mean and 95 % interval."
        return plots.table(data, rows="sentence", caption=caption)


Measure = Callable[[Results], Interval]
Test = Callable[[Results], tuple[str, str]]  # -> verdict, what was measured


@dataclass(frozen=True)
class Claim:
    """A sentence and its test on the rows.

    test   Results -> (verdict, measured, in words); `higher`, `beyond` and `within` make one
    paper  does the paper say so, or only this book?
    key    under which a chapter's text shows what was measured
    stated the verdict that a chapter states, if it states one: it must come out
    """

    sentence: str
    test: Test
    paper: bool = True
    key: str = ""
    stated: str = ""

    def judge(self, results: Results) -> tuple[str, str]:
        """The verdict and the measurement behind it."""
        return self.test(results)


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table or figure: what the paper did and says, what we do, and what follows.

    name      of its files, such as "frcce-rounds"        item  "F-RCCE, Fig. 2a"
    says      the paper's sentences and numbers, in our words
    protocol  setting -> (the paper's, ours); where the text is silent, the first says so
    rows      seed -> rows (variant, metric, value); a pure function
    claims    sentences with tests           figure  Results -> Figure
    reads     sentences of the chapter, all of which must hold (`Results.told`)
    seeds     how many, from 0               cannot  why parts cannot be tested, or empty
    """

    name: str
    item: str
    says: str
    protocol: Mapping[str, tuple[str, str]]
    rows: Callable[..., Iterable[Row]]
    claims: tuple[Claim, ...]
    reads: tuple[Claim, ...] = ()
    figure: Callable[[Results], Figure] | None = None
    seeds: int = 5
    cannot: str = field(default="")

    def settings(self) -> plots.Table:
        """The protocol as a table: the paper's and ours side by side."""
        data = {k: {"paper": p, "here": ours} for k, (p, ours) in self.protocol.items()}
        return plots.table(data, rows="setting", caption=f"{self.item}: the protocol.")
