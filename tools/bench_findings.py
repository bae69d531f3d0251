"""The sentences of the page *The bench*: each is checked on two blocks of seeds and then written.

A sentence that one of the blocks does not uphold stops the page. `tools/leaderboard.py` asks for
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas

from fedlab_mini.judge import bench
from fedlab_mini.judge.evidence import interval, paired

HARD, EASY = "dirt under skew", 0.95  # an AUC that would make it easy
LATER = "attack: predicted step"  # came with version 1.1, so the sentences of version 1 lack it
TOLD = ("skew", "skew, even sizes", "few samples", HARD, "attacks")  # what the sentences are about


def findings(seen: pandas.DataFrame, fresh: pandas.DataFrame) -> str:
    """What the board says, a paragraph each, with the numbers of the fresh block.

    raises  AssertionError where one of the two blocks says so no longer
    """
    blocks = (seen, fresh)
    tau, auc = [_upheld(frame) for frame in blocks][-1]
    rise, fall = zip(*(_paid(frame[frame.scenario != LATER]) for frame in blocks), strict=True)
    pays, costs = zip(*(_paid(frame[frame.scenario == LATER]) for frame in blocks), strict=True)
    lose, once = _in_both(fall), [name for name in rise[0] if name not in rise[1]]
    assert lose, "no score punishes the first attacks"
    assert not set(lose) & set().union(*costs), "a score punishes the predicted step as well"
    before = f" On the held-out seeds the six attacks raise the pay by {_listed(once)}, which the "
    before = f"{before}new seeds do not show." if once else ""
    skew, even, few, hard = tau["skew"], tau["skew, even sizes"], auc["few samples"], auc[HARD]
    best, finder = _first(even), _first(hard)
    return "\n\n".join(
        (
            f"**Counting is hard to beat.** Where labels and amounts differ together, *size* has "
            f"a tau of {skew['size'].interval}, and no score on the board is clearly better.",
            f"**With even sizes no score comes near the truth.** There counting ranks nothing. "
            f"The highest tau is that of *{best}*, {even[best].interval}; two trainings agree by "
            f"{even[bench.CEILING].interval}.",
            f"**A server with few samples is better off with none.** Wrong labels are found with "
            f"an AUC of {few['class cosine'].interval} by *class cosine*, which looks at no "
            f"sample, and of {few['second order'].interval} by *second order*, which looks at a "
            f"hundred or fewer, or at none of one class.",
            f"**Dirt under skew stays hard.** The highest AUC there is that of *{finder}*, "
            f"{hard[finder].interval}. Retraining itself has {hard[bench.CEILING].interval}, since "
            f"worth and dirt are two things.",
            f"**Scores that punish other attacks do not punish the predicted step.** Over the "
            f"six attacks of version 1 together, the attacker's pay clearly falls by "
            f"{_listed(lose)}, on both blocks of seeds. None of these lowers the pay of "
            f"*predicted step*, which clearly rises by {_listed(_in_both(pays))} and clearly "
            f"falls by {_listed(_in_both(costs))}.{before}",
        )
    )


def _upheld(frame: pandas.DataFrame) -> tuple[dict, dict]:
    """The standings by tau and by AUC of a block that upholds the sentences."""
    tau, auc = bench.standings(frame, "tau"), bench.standings(frame, "AUC")
    even, few, hard = tau["skew, even sizes"], auc["few samples"], auc[HARD]
    assert tau["skew"]["size"].place == 1, "a score is clearly better than counting"
    below = paired(even[_first(even)].values, even[bench.CEILING].values, low=-1, high=1)
    assert below.below(0), "a score reaches the ceiling"
    more = paired(few["class cosine"].values, few["second order"].values, low=0, high=1)
    assert more.above(0), "few samples are enough"
    assert hard[_first(hard)].interval.high < EASY, "a score finds dirt under skew"
    return tau, auc


def _paid(frame: pandas.DataFrame) -> tuple[list[str], list[str]]:
    """By which scores the attacker's pay clearly rises, and by which it clearly falls."""
    low, high, _ = bench.MEASURES["pay gained"]
    found: dict[str, Any] = {}
    for method, rows in frame[frame.metric == "pay gained"].groupby("method"):
        by_seed = rows.groupby("seed").value.mean()
        found[str(method)] = interval(tuple(by_seed), low=low, high=high)
    rise = [name for name, own in found.items() if own.above(0)]
    return rise, [name for name, own in found.items() if own.below(0)]


def _in_both(blocks: Sequence[list[str]]) -> list[str]:
    seen, fresh = blocks
    return [name for name in seen if name in fresh]


def _first(family: dict[str, Any]) -> str:
    """The score with the highest mean; that it is clearly the best is not said."""
    scores = {name: own.interval.mean for name, own in family.items() if name != bench.CEILING}
    return max(scores, key=lambda name: scores[name])


def _listed(names: Sequence[str]) -> str:
    *others, last = [f"*{name}*" for name in names] or ["no score"]
    return f"{', '.join(others)} and {last}" if others else last
