"""Judging: scores beside the frozen truth; nothing is trained.

Below: truth, submission, metrics, evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..compare.judge import relative_error
from ..evidence import Interval, interval, paired
from ..metrics import detection_auc, kendall
from .submission import Scores, Submission
from .truth import Frozen, Truth, folder, owner_of
from .worlds import ATTACKER, TWIN, WORLDS

if TYPE_CHECKING:
    import pandas

CEILING = "(the truth itself)"
COLUMNS = ["seed", "scenario", "method", "metric", "value"]
# measure: its range, and whether more is better
MEASURES = {
    "tau": (-1.0, 1.0, True),
    "AUC": (0.0, 1.0, True),
    "relative error": (0.0, 1.0, False),
    "rank gained": (-1.0, 1.0, False),
    "pay gained": (-1.0, 1.0, False),
}
Measured = Iterator[tuple[str, float]]


def judge(submissions: Iterable[Submission], frozen: Frozen) -> pandas.DataFrame:
    """What each score is worth in each scenario and seed whose truth is at hand; a long table.

    returns  columns seed, scenario, method, metric, value; the method "(the truth itself)" holds
             the ceiling: how far two trainings' truths agree
    """
    import pandas  # here, since it takes a second to import

    entries = list(submissions)
    asked = dict.fromkeys(cell for one in entries for cell in one.scores)
    rows: list[tuple] = []
    # Cell by cell, since the truth of a cell is the same for all.
    for scenario, seed in asked:
        if not frozen.knows(scenario, seed):
            continue
        known = Known(scenario, seed, frozen)
        for one in entries:
            if (scenario, seed) in one.scores:
                for metric, value in known.judged(one.scores):
                    rows.append((seed, scenario, one.name, metric, value))
        rows += [(seed, scenario, CEILING, *measured) for measured in known.ceiling()]
    return pandas.DataFrame(rows, columns=COLUMNS)


def stored(cells: Collection[tuple[str, int]], besides: Collection[str] = ()) -> pandas.DataFrame:
    """What the committed submissions are worth in these scenarios and seeds, but for some names."""
    import pandas

    frame = pandas.read_csv(folder() / "judged.csv", keep_default_na=False)
    asked = [cell in cells for cell in zip(frame.scenario, frame.seed, strict=True)]
    return frame[pandas.Series(asked, frame.index) & ~frame.method.isin([CEILING, *besides])]


class Known:
    """What is known of one scenario and seed: the truth, and who is of less use."""

    def __init__(self, scenario: str, seed: int, frozen: Frozen):
        self.scenario, self.seed = scenario, seed
        self.truth = None if owner_of(scenario) is None else frozen.of(scenario, seed)
        self.bad = WORLDS[scenario].bad(seed)

    def judged(self, scores: Scores) -> Measured:
        """All measures of one score."""
        mine = scores[self.scenario, self.seed].double()
        if self.truth is None:
            yield from attacked(mine, scores[TWIN, self.seed].double())
        else:
            yield from against(mine, self.truth.values, self.bad)

    def ceiling(self) -> Measured:
        """One training's truth as a score, judged by the other's; of an attack nothing."""
        if self.truth is not None:
            yield from ceiling(self.truth, self.bad)


def against(scores: Tensor, values: Tensor, bad: list[int] | None) -> Measured:
    """Beside the truth of each training, the mean; beside what is known, if anything is."""
    yield "tau", _mean([kendall(scores, value) for value in values])
    yield "relative error", _mean([relative_error(scores, value) for value in values])
    if bad is not None:
        yield "AUC", detection_auc(scores, bad)


def ceiling(truth: Truth, bad: list[int] | None) -> Measured:
    """One training's truth as a score, judged by the other's; both ways round."""
    measured = [list(against(truth.values[i], truth.values[1 - i : 2 - i], bad)) for i in (0, 1)]
    for (metric, first), (_, second) in zip(*measured, strict=True):
        yield metric, (first + second) / 2


def attacked(scores: Tensor, honest: Tensor) -> Measured:
    """What a client gains by an attack: places among the others, and share of the pay."""
    yield "rank gained", outranked(scores) - outranked(honest)
    yield "pay gained", float(pay(scores)[ATTACKER] - pay(honest)[ATTACKER])


def outranked(scores: Tensor) -> float:
    """The share of the other clients that the attacker leaves behind; ties count half."""
    others = torch.cat([scores[:ATTACKER], scores[ATTACKER + 1 :]])
    mine = scores[ATTACKER]
    return float((mine > others).double().mean() + (mine == others).double().mean() / 2)


def pay(scores: Tensor) -> Tensor:
    """Shares of a sum that is divided by scores, negative ones earning nothing, [K]."""
    earned = scores.clamp(min=0)
    total = earned.sum()
    return earned / total if total > 0 else torch.full_like(earned, 1 / len(earned))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True)
class Standing:
    """How a score stands in a family: over seeds, each the mean of the family's scenarios.

    place  1 + how many scores are clearly better: those that are not told apart share it
    """

    interval: Interval
    place: int
    values: tuple[float, ...]


def standings(frame: pandas.DataFrame, metric: str) -> dict[str, dict[str, Standing]]:
    """{family: {method: standing}} of a measure; the ceiling has the place 0, and takes none.

    A score that lacks a scenario of a family does not stand in it.
    """
    low, high, _ = MEASURES[metric]
    chosen = frame[frame.metric == metric]
    families = chosen.scenario.map(lambda name: WORLDS[name].family)
    found: dict[str, dict[str, Standing]] = {}
    for family, rows in chosen.groupby(families, sort=False):
        table = rows.pivot(index="method", columns=["seed", "scenario"], values="value").dropna()
        by_seed = table.T.groupby(level="seed").mean()
        values = {str(method): tuple(by_seed[method]) for method in by_seed}
        found[str(family)] = {
            method: Standing(
                interval(own, low=low, high=high), place_of(method, values, metric), own
            )
            for method, own in values.items()
        }
    return found


def place_of(method: str, values: Mapping[str, Sequence[float]], metric: str) -> int:
    """1 + how many scores are clearly better, seed by seed; 0 for the ceiling."""
    if method == CEILING:
        return 0
    low, high, more = MEASURES[metric]
    place = 1
    for rival, its_values in values.items():
        if rival not in (CEILING, method):
            gain = paired(its_values, values[method], low=low, high=high)
            place += gain.above(0) if more else gain.below(0)
    return place
