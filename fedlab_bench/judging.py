"""Judging: compare scores with the frozen reference values, without any training.

Builds on `truth`, submission, metrics and evidence.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedlab_mini.gate.methods import contribution_index
from fedlab_mini.judge.evidence import Interval, interval, paired
from fedlab_mini.judge.metrics import detection_auc, kendall, ranks
from fedlab_mini.parse import checks

from .compared import CEILING
from .measures import MEASURES, relative_error
from .submission import Submission
from .truth import Frozen, folders, owner_of
from .worlds import WORLDS, World

if TYPE_CHECKING:
    import pandas

COLUMNS = ["seed", "scenario", "method", "metric", "value"]
Measured = Iterator[tuple[str, float]]


def judge(submissions: Iterable[Submission], frozen: Frozen) -> pandas.DataFrame:
    """How good each score is in each scenario and seed with reference values; a long table.

    returns  columns seed, scenario, method, metric, value; the method `(the truth itself)` holds
             the ceiling: how well the reference values of two training runs agree
    raises   ValueError naming submissions that share a name, or have the ceiling's name
    """
    import pandas  # here, since it takes a second to import

    entries = list(submissions)
    names = [one.name for one in entries]
    if taken := sorted({name for name in names if name == CEILING or names.count(name) > 1}):
        raise ValueError(f"name: expected a different name for every score, got {', '.join(taken)}")
    asked = dict.fromkeys(cell for one in entries for cell in one.scores)
    rows: list[tuple[Any, ...]] = []
    # Cell by cell, because all scores of a cell share its reference values.
    for scenario, seed in asked:
        if not frozen.knows(scenario, seed):
            continue
        values = None if owner_of(scenario) is None else frozen.of(scenario, seed)
        world = WORLDS[scenario]
        bad = world.worse(seed)
        for one in entries:
            if (scenario, seed) in one.scores:
                mine = one.scores[scenario, seed].double()
                measured = (
                    attacked(mine, one.scores[world.beside, seed].double(), world)
                    if values is None
                    else against(mine, values, bad)
                )
                rows += [(seed, scenario, one.name, *value) for value in measured]
        if values is not None:
            rows += [(seed, scenario, CEILING, *value) for value in ceiling(values, bad)]
    return pandas.DataFrame(rows, columns=COLUMNS)


def stored(cells: Collection[tuple[str, int]], besides: Collection[str] = ()) -> pandas.DataFrame:
    """How good the committed submissions are in these scenarios and seeds, without some names."""
    frame = _committed("judged.csv")
    frame = frame[~frame.method.isin([CEILING, *besides])]
    return frame[[cell in cells for cell in zip(frame.scenario, frame.seed, strict=True)]]


def judged(seeds: Iterable[int]) -> pandas.DataFrame:
    """The stored results of a block of seeds: the committed submissions, and the ceiling.

    seeds    PUBLIC, HELD_OUT, or a block that confirms, which has only families that the page has
             claims on: CONFIRMING and LATEST of version 1, CONFIRMING_2 of version 2
    returns  columns seed, scenario, method, metric, value, for ``standings``
    raises   ValueError for seeds without stored results
    """
    wanted = list(seeds)
    frame = _committed("judged.csv", "confirmed.csv")
    frame = frame[frame.seed.isin(wanted)].reset_index(drop=True)
    if frame.empty:
        raise ValueError(f"seeds: expected some that the bench has judged, got {wanted}")
    return frame


def _committed(*names: str) -> pandas.DataFrame:
    """The rows of files of the bench, as far as the files exist."""
    import pandas

    paths = [place / name for place in folders() for name in names]
    files = [path for path in paths if path.is_file()]
    frames = [pandas.read_csv(file, keep_default_na=False) for file in files]
    empty = pandas.DataFrame({name: [] for name in COLUMNS})
    return pandas.concat(frames, ignore_index=True) if frames else empty


def against(scores: Tensor, values: Tensor, bad: list[int] | None) -> Measured:
    """Mean agreement with the reference values of each run; the AUC if some clients are worse."""
    yield "tau", _mean([kendall(scores, value) for value in values])
    yield "relative error", _mean([relative_error(scores, value) for value in values])
    if bad is not None:
        yield "AUC", detection_auc(scores, bad)


def ceiling(values: Tensor, bad: list[int] | None) -> Measured:
    """The values of one run as a score, judged by the other run; the mean of both directions."""
    # [2, K] -> the other run's row as [1, K]
    measured = [list(against(values[i], values[1 - i : 2 - i], bad)) for i in (0, 1)]
    for (metric, first), (_, second) in zip(*measured, strict=True):
        yield metric, (first + second) / 2


def attacked(scores: Tensor, honest: Tensor, world: World) -> Measured:
    """What an attack gains: in rank among the others, and in its share of the pay.

    The scores of several names count together. An attack on another client gains what that loses
    """
    who, names = world.counted[0], list(world.counted)
    together = scores[: len(honest)].clone()
    together[who] = scores[names].sum()
    ranks_of = outranked(honest, who), outranked(together, who)
    pays = float(contribution_index(honest)[who]), float(contribution_index(scores)[names].sum())
    for metric, (before, after) in {"rank gained": ranks_of, "pay gained": pays}.items():
        yield metric, before - after if world.harmed else after - before


def outranked(scores: Tensor, client: int) -> float:
    """The share of the other clients that rank below a client; ties count half."""
    places = ranks(scores)
    others = torch.cat([places[:client], places[client + 1 :]])
    mine = places[client]
    return float((mine > others).double().mean() + (mine == others).double().mean() / 2)


def compared_frame(frame: Any) -> pandas.DataFrame:
    """A table that ``compare`` returned; TypeError or ValueError for anything else."""
    import pandas

    checks.instance("frame", frame, pandas.DataFrame, "the table that fb.compare returns")
    if lacking := set(COLUMNS) - set(frame):
        raise ValueError(
            f"frame: expected a table of fb.compare, got one without {sorted(lacking)}"
        )
    # Each row counts as a seed, so a repeated one would make intervals too short.
    keys = ["seed", "scenario", "method", "metric"]
    if (again := frame.duplicated(keys)).any():
        row = ", ".join(f"{key} {frame.loc[again, key].iloc[0]}" for key in keys)
        raise ValueError(f"frame: expected each row once, got several of {row}")
    return frame


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True)
class Standing:
    """A score's result in a family: one value per seed, the mean of the family's scenarios.

    place  1 + the number of scores that are clearly better; scores may share a place
    """

    interval: Interval
    place: int
    values: tuple[float, ...]


def standings(frame: pandas.DataFrame, metric: str) -> dict[str, dict[str, Standing]]:
    """{family: {method: standing}} of a measure; the ceiling has place 0, and does not count.

    Scores are compared over the seeds that all of them have; ``absent`` lists who has no place.
    """
    low, high, *_ = MEASURES[metric]
    return {
        family: {
            method: Standing(
                interval(own, low=low, high=high), place_of(method, values, metric), own
            )
            for method, own in values.items()
        }
        for family, values, _ in over_seeds(frame, metric)
    }


def absent(frame: pandas.DataFrame, metric: str) -> list[str]:
    """Which scores have values in a family but no place there, and why; one line each."""
    return [
        f"{method} does not stand in {family}: {why}"
        for family, _, reasons in over_seeds(frame, metric)
        for method, why in reasons.items()
    ]


def family_of(scenario: str) -> str:
    """The family of a scenario of the bench; each scenario of your own is its own family."""
    return WORLDS[scenario].family if scenario in WORLDS else scenario


def over_seeds(
    frame: pandas.DataFrame, metric: str
) -> Iterator[tuple[str, dict[str, tuple[float, ...]], dict[str, str]]]:
    """For every family, the values of scores by seed, and why other scores have none."""
    chosen = frame[frame.metric == metric]
    families = chosen.scenario.map(family_of)
    for family, rows in chosen.groupby(families, sort=False):
        table = rows.pivot(index=["method", "seed"], columns="scenario", values="value")
        # A score without some scenario has no mean in that seed, so that means are comparable.
        by_seed = (
            table.dropna().mean(axis=1).unstack("method").reindex(columns=table.index.levels[0])
        )
        common, reasons = by_seed.index, {}
        # Scores with most seeds come first, so that one with other seeds excludes nobody.
        for method in by_seed.count().sort_values(ascending=False, kind="stable").index:
            own = by_seed[method].dropna().index
            if own.empty:
                lacking = table.loc[method].isna().all()
                names = ", ".join(lacking.index[lacking]) or "a scenario in every seed"
                reasons[str(method)] = f"it lacks {names}"
            elif common.intersection(own).empty:
                reasons[str(method)] = "it has no seed in common with the others"
            else:
                common = common.intersection(own)
        stands = by_seed.loc[common].drop(columns=list(reasons))
        yield str(family), {str(name): tuple(stands[name]) for name in stands}, reasons


def place_of(method: str, values: Mapping[str, Sequence[float]], metric: str) -> int:
    """1 + the number of scores that are clearly better, seed by seed; 0 for the ceiling."""
    if method == CEILING:
        return 0
    low, high, more, _ = MEASURES[metric]
    mine, place = values[method], 1
    for rival, its_values in values.items():
        # A score without a better mean is not clearly better, so most intervals are skipped.
        lead = math.fsum(its_values) - math.fsum(mine)
        if rival in (CEILING, method) or (lead <= 0 if more else lead >= 0):
            continue
        gain = paired(its_values, mine, low=low, high=high)
        place += gain.above(0) if more else gain.below(0)
    return place
