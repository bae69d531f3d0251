"""The bench's files: the book's own scores, their results, and the computed parts of its page.

    python -m studies bench enter           the book's scores into data/bench/v2/submissions
    python -m studies bench judge FOLDER    judge all submissions; FOLDER: held-out values
    python -m studies bench confirm FOLDER  the book's scores on seeds that confirm claims
    python -m studies bench calls FOLDERS   estimators on stored worths, by their calls

First compute reference values: `python -m fedlab_bench truth --scenarios v2 --to FOLDER`, with
--seeds 100-109, and in another folder 500-509. Files of version 1 are closed: a new submission
with its scenarios goes to version 2, too.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import compared
from fedlab_bench.entering import scored, watched
from fedlab_bench.recording import RECORDED, recorded, slug
from fedlab_bench.show import leaderboard
from fedlab_bench.submission import committed
from fedlab_bench.truth import (
    NEWEST,
    cells_of,
    folders,
    game,
    manifest,
    read,
    seeds_of,
    sha256,
)
from fedlab_bench.worlds import ROUNDS, TWIN
from fedlab_mini.keep.files import whole_file
from fedlab_mini.streams import one_thread

from . import bench_findings, calls
from .bench_findings import stands
from .items import ROOT

PLACE = ROOT / "data" / "bench" / f"v{NEWEST}"
SUBMISSIONS, JUDGED, MANIFEST = PLACE / "submissions", PLACE / "judged.csv", PLACE / "manifest.json"
CONFIRMED = PLACE / "confirmed.csv"
SHOWN = ("tau", "AUC", "rank gained", "pay gained")
SEEDS = (*fb.PUBLIC, *fb.HELD_OUT)
DATED = ("date", "version")  # when a score was entered; it does not change if scenarios are added
# All coalitions of thirty clients cannot be evaluated; orderings of a hundred until they converge
# can, but they take a quarter of an hour.
MOST_CLIENTS = {
    **dict.fromkeys(("Shapley", "Shapley, silent", "Banzhaf", "least core", "nucleolus"), 9),
    **dict.fromkeys(("S-FedAvg's relevance", "ShapleyFL", "class-wise Shapley"), 9),
    "GTG-Shapley": 30,
}
CELL = ["seed", "scenario"]
KEYS = [*CELL, "method", "metric"]
MEAN = bench_findings.BY_MEAN
WORDS = {compared.SIZES: "sizes", compared.UPDATES: "updates", compared.BOTH: "updates, validation"}


def rows() -> list[compared.Row]:
    """The book's scores that watch rounds, as the bench compares them."""
    return bench_findings.ROWS


def methods() -> dict[str, compared.Method]:
    """The methods of these scores, by name."""
    return {row.name: row.method for row in rows()}


def notes() -> dict[str, dict[str, str]]:
    """What each score needs, and how many models it evaluates in a round of eight clients."""
    watch = watched(recorded(fb.WORLDS["sizes"], 0), methods())
    today = {"date": date.today().isoformat(), "version": fb.VERSION}
    said = {}
    for row in rows():
        count = watch.evaluated[row.name] / ROUNDS
        cost = f"{count:.0f} models a round" if count else "no model evaluated"
        said[row.name] = {"sees": WORDS[frozenset(row.sees)], "cost": cost, **today}
    said[MEAN] = {"sees": "trainings", "cost": "256 training runs", **today}
    return said


def enter(names: Iterable[str]) -> None:
    """Compute the book's scores in these scenarios, except those that a file holds."""
    torch.set_num_threads(1)
    said, scoring = notes(), {**methods(), MEAN: None}
    files = {name: SUBMISSIONS / f"{slug(name)}.csv" for name in scoring}
    held = {name: fb.read_submission(path) for name, path in files.items() if path.is_file()}
    known = {name: dict(held[name].scores) if name in held else _of_before(name) for name in files}
    for name, one in held.items():
        said[name] |= {note: one.notes[note] for note in DATED if note in one.notes}
    places = {name: place for place, name in enumerate(fb.WORLDS)}
    for name in _with_honest(names):
        cells = {(name, seed) for seed in seeds_of(fb.WORLDS[name], SEEDS)}
        missing = [score for score in _fitting(name) if not cells <= known[score].keys()]
        for entered in _entered(missing, sorted(cells)):
            known[entered.name] = {**entered.scores, **known[entered.name]}
        for score in missing:
            ordered = sorted(known[score], key=lambda cell: (places[cell[0]], cell[1]))
            scores = {cell: known[score][cell] for cell in ordered}
            fb.Submission(scores, {"name": score, **said[score]}).write(files[score])
        print(name, flush=True)


def _of_before(name: str) -> dict[tuple[str, int], torch.Tensor]:
    """What a score said of the scenario of the attacks in version 1, if it was there."""
    path = folders()[0] / "submissions" / f"{slug(name)}.csv"
    scores = fb.read_submission(path).scores if path.is_file() else {}
    return {cell: values for cell, values in scores.items() if cell[0] == TWIN}


def _with_honest(names: Iterable[str]) -> list[str]:
    """These scenarios; those without the attack come first."""
    own = list(names)
    return list(dict.fromkeys([*filter(None, map(_besides, own)), *own]))


def _entered(scores: Iterable[str], cells: Iterable[tuple[str, int]]) -> list[fb.Submission]:
    """What some scores say in some scenarios and seeds."""
    asked, some = list(cells), {name: methods()[name] for name in scores if name != MEAN}
    found = scored(some, asked) if some else []
    if MEAN in scores:
        values = {cell: by_the_mean(*cell) for cell in asked}
        found.append(fb.Submission(values, {"name": MEAN}))
    return found


def by_the_mean(name: str, seed: int) -> torch.Tensor:
    """Values [K] of a retraining by federated averaging, where the bench has another rule."""
    return _by_the_mean(replace(fb.WORLDS[name], rule="mean", family=""), seed)


@cache
def _by_the_mean(world: fb.World, seed: int) -> torch.Tensor:
    with one_thread():
        return fm.exact(game(world, seed, RECORDED)).values


def _fitting(scenario: str) -> list[str]:
    """The scores of a scenario, as far as they can be computed for so many clients."""
    world = fb.WORLDS[scenario]
    fit = [name for name in methods() if world.clients <= MOST_CLIENTS.get(name, 100)]
    # Only one family has a sentence about the mean cosine.
    fit = [n for n in fit if n != bench_findings.MEAN or world.family == bench_findings.HARD]
    if scenario != TWIN:
        new = bench_findings.ADDED if world.version < NEWEST else fit  # version 1 is closed
        fit = [name for name in new if name in fit and stands(name, world.family)]
    return fit if world.rule == "mean" else [*fit, MEAN]


def submissions() -> list[fb.Submission]:
    """All submissions of this version, by name."""
    return [fb.read_submission(path) for path in sorted(SUBMISSIONS.glob("*.csv"))]


def judge(held_out: Iterable[Path]) -> None:
    """Judge all submissions by all reference values, and write a manifest of all files."""
    before = manifest(PLACE)
    MANIFEST.unlink(missing_ok=True)  # the files that are frozen now count from here on
    frozen = fb.Frozen(*(place / "truth" for place in folders()), *held_out)
    frame = _kept(fb.judge(submissions(), frozen))
    with whole_file(JUDGED) as part:
        frame.assign(value=frame.value.round(6)).to_csv(part, index=False)
    files = sorted((PLACE / "truth").glob("*.npz"))
    known = {
        "version": fb.VERSION,
        "rounds of a training": ROUNDS,
        "torch": torch.__version__.partition("+")[0],
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "files": {path.relative_to(PLACE).as_posix(): sha256(path) for path in files},
        "held out": before.get("held out", {}) | _hashes(*held_out),
        "confirming": before.get("confirming", {}),
        "rounds": dict(_digests(before.get("rounds", {}))),
    }
    _write_manifest(known)


def _kept(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The rows that no earlier version has, with the stored value if it differs by rounding only.

    Stored rows of scenarios and seeds without reference values here are kept, too.
    """
    earlier = [place / JUDGED.name for place in folders() if place != PLACE]
    keys = pandas.concat([pandas.read_csv(path) for path in earlier])[KEYS]
    frame = _without(frame, keys)
    if not JUDGED.is_file():
        return frame
    stored = pandas.read_csv(JUDGED)
    frame = pandas.concat([frame, _without(stored, frame[CELL], CELL)], ignore_index=True)
    rows = pandas.MultiIndex.from_frame(frame[KEYS])
    before = stored.set_index(KEYS).value.reindex(rows).to_numpy()
    return frame.assign(value=frame.value.where(~(abs(frame.value - before) < 2e-6), before))


def _without(
    frame: pandas.DataFrame, others: pandas.DataFrame, keys: Sequence[str] = KEYS
) -> pandas.DataFrame:
    """The rows of a frame with other keys."""
    known = pandas.MultiIndex.from_frame(others)
    return frame[~pandas.MultiIndex.from_frame(frame[list(keys)]).isin(known)]


def confirm(places: Iterable[Path]) -> None:
    """Compute the book's scores on unseen seeds, in the scenarios that claims are about.

    Stored scores are not computed again, so that a block is looked at only once
    """
    torch.set_num_threads(1)
    frozen = fb.Frozen(*places)
    for seeds, names in _blocks():
        known = _confirmed()
        there = set(zip(known.method, known.scenario, known.seed, strict=True))
        missing = {}
        for name in names:
            own = [one for one in _fitting(name) if stands(one, fb.WORLDS[name].family)]
            if new := [one for one in own if (one, name, seeds[0]) not in there]:
                missing[name] = new
        if lacking := {name for name in missing if not frozen.knows(name, seeds[0])}:
            raise ValueError(f"{[*map(str, places)]}: no reference values of {sorted(lacking)}")
        said: dict[tuple[str, str], dict[tuple[str, int], torch.Tensor]] = {}
        for name in _with_honest(missing):
            attacks = [other for other in missing if _besides(other) == name]
            scores = dict.fromkeys(one for at in (name, *attacks) for one in missing.get(at, ()))
            frames = []
            for one in _entered(scores, cells_of({name: fb.WORLDS[name]}, seeds)):
                said[one.name, name] = dict(one.scores)
                beside = said.get((one.name, _besides(name)), {})
                frame = fb.judge([replace(one, scores={**beside, **one.scores})], frozen)
                frames.append(frame[frame.scenario.eq(name)])
            _add(pandas.concat(frames))
            print(name, flush=True)
    files = {"confirming": {}, **manifest(PLACE)}
    _write_manifest(files | {"confirming": files["confirming"] | _hashes(*places)})


def _besides(name: str) -> str:
    """The scenario without the attack; empty if it has none."""
    return fb.WORLDS[name].beside if fb.WORLDS[name].truth is None else ""


def _blocks() -> Iterator[tuple[range, list[str]]]:
    """The blocks of seeds that confirm claims, with the scenarios that these are about."""
    told = {fb.CONFIRMING: bench_findings.TOLD, fb.LATEST: bench_findings.TOLD_ANEW}
    for seeds, families in told.items():
        old = [name for name, world in fb.WORLDS.items() if world.version < NEWEST]
        yield seeds, [name for name in old if fb.WORLDS[name].family in families]
    yield fb.CONFIRMING_2, [name for name, world in fb.WORLDS.items() if world.version == NEWEST]


def _confirmed() -> pandas.DataFrame:
    """The stored rows of seeds that confirm, of all versions."""
    paths = [place / CONFIRMED.name for place in folders()]
    return pandas.concat([pandas.read_csv(path) for path in paths if path.is_file()])


def _add(frame: pandas.DataFrame) -> None:
    """Store new rows of seeds that confirm."""
    new = _without(frame.assign(value=frame.value.round(6)), _confirmed()[KEYS])
    stored = [pandas.read_csv(CONFIRMED)] if CONFIRMED.is_file() else []
    with whole_file(CONFIRMED) as part:
        pandas.concat([*stored, new]).to_csv(part, index=False)


def _hashes(*places: Path) -> dict[str, str]:
    """The hashes of reference values outside the repository, by file and seeds."""
    found = {}
    for path in (path for place in places for path in sorted(place.glob("*.npz"))):
        seeds = sorted(map(int, read(path)))
        found[f"{seeds[0]}-{seeds[-1]}/{path.name}"] = sha256(path)
    return found


def _write_manifest(known: dict[str, Any]) -> None:
    with whole_file(MANIFEST) as part:
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _digests(known: dict[str, str]) -> Iterable[tuple[str, str]]:
    """The hash of every recording, public or held out; known ones are not recorded again."""
    for name in [name for name, world in fb.WORLDS.items() if world.version == NEWEST]:
        world = fb.WORLDS[name]
        for seed in seeds_of(world, SEEDS):
            cell = f"{name}/{seed}"
            yield cell, known.get(cell) or recorded(world, seed).digest()


def parts() -> dict[str, str]:
    """The computed parts of the page, by name."""
    frame = fb.judged(fb.HELD_OUT)
    said = committed()
    boards = {metric: leaderboard.fragment(frame, said, metric) for metric in SHOWN}
    told = {"findings": bench_findings.findings(), "calls": calls.curves()}
    return {"scenarios": scenarios(), **told, **boards, "script": leaderboard.SCRIPT}


def scenarios() -> str:
    """One row per scenario: family, clients, whose reference values, seeds."""
    lines = ["| scenario | family | clients | judged by | seeds |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, world in fb.WORLDS.items():
        judged_by, seeds = _truth_in_words(world), f"3 times {world.seeds}"
        lines.append(
            f"| `{name}` | {fb.shown(world.family)} | {world.clients} | {judged_by} | {seeds} |"
        )
    return "\n".join(lines)


def _truth_in_words(world: fb.World) -> str:
    if world.truth is None:
        return "what its victim loses" if world.harmed else "what the attacker gains"
    if world.truth:
        return f"the reference values of *{world.truth}*"
    if world.sampled:
        return f"{world.sampled} orderings, twice"
    return f"all {2**world.clients} coalitions, twice"
