"""The bench's files: the book's own scores, their results, and the computed parts of its page.

    python -m studies bench enter           the book's scores into data/bench/*/submissions
    python -m studies bench judge FOLDER    judge all submissions; FOLDER: held-out values
    python -m studies bench confirm FOLDER  the book's scores on seeds that confirm claims

First compute reference values: `python -m fedlab_bench truth --to FOLDER`, --seeds 100-109;
to confirm: --seeds 300-309 and 400-409, and the scenarios that ``confirm`` asks for.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pandas
import torch

import fedlab_bench as fb
from fedlab_bench import compared
from fedlab_bench.entering import watched
from fedlab_bench.recording import recorded, slug
from fedlab_bench.show import leaderboard
from fedlab_bench.truth import FOLDER, cells_of, manifest, owner_of, seeds_of, sha256
from fedlab_bench.worlds import LOCAL, ROUNDS
from fedlab_mini.keep.files import whole_file

from . import bench_findings
from .items import ROOT

PLACE = ROOT / "data" / "bench" / FOLDER
SUBMISSIONS, JUDGED, MANIFEST = PLACE / "submissions", PLACE / "judged.csv", PLACE / "manifest.json"
CONFIRMED = PLACE / "confirmed.csv"
SHOWN = ("tau", "AUC", "rank gained", "pay gained")
SEEDS = (*fb.PUBLIC, *fb.HELD_OUT)
DATED = ("date", "version")  # when a score was entered; it does not change if scenarios are added
# All coalitions of thirty clients cannot be evaluated; orderings of a hundred until they converge
# can, but they take a quarter of an hour.
MOST_CLIENTS = {
    **dict.fromkeys(("Shapley", "Shapley, silent", "Banzhaf", "least core", "nucleolus"), 8),
    **dict.fromkeys(("S-FedAvg's relevance", "ShapleyFL"), 8),
    "GTG-Shapley": 30,
}
KEYS = ["seed", "scenario", "method", "metric"]
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
    return said


def enter(names: Iterable[str]) -> None:
    """Compute the book's scores in every scenario, except those that a file already holds."""
    torch.set_num_threads(1)
    said, scoring = notes(), methods()
    files = {name: SUBMISSIONS / f"{slug(name)}.csv" for name in scoring}
    held = {name: fb.read_submission(path) for name, path in files.items() if path.is_file()}
    known = {name: dict(held[name].scores) if name in held else {} for name in files}
    for name, one in held.items():
        said[name] |= {note: one.notes[note] for note in DATED if note in one.notes}
    places = {name: place for place, name in enumerate(fb.WORLDS)}
    for name in names:
        cells = {(name, seed) for seed in seeds_of(fb.WORLDS[name], SEEDS)}
        fit = _fitting(name)
        missing = {score: scoring[score] for score in fit if not cells <= known[score].keys()}
        for entered in fb.entered(missing, [name], SEEDS) if missing else []:
            # Stored rows stay, also those of the scenario without the attack.
            known[entered.name] = {**entered.scores, **known[entered.name]}
        for score in missing:
            ordered = sorted(known[score], key=lambda cell: (places[cell[0]], cell[1]))
            scores = {cell: known[score][cell] for cell in ordered}
            fb.Submission(scores, {"name": score, **said[score]}).write(files[score])
        print(name, flush=True)


def _fitting(scenario: str) -> list[str]:
    """The scores of a scenario, as far as they can be computed for so many clients."""
    world = fb.WORLDS[scenario]
    fit = [name for name in methods() if world.clients <= MOST_CLIENTS.get(name, 100)]
    # Only one family has a sentence about the mean cosine.
    return [n for n in fit if n != bench_findings.MEAN or world.family == bench_findings.HARD]


def submissions() -> list[fb.Submission]:
    """All committed submissions, by name."""
    return [fb.read_submission(path) for path in sorted(SUBMISSIONS.glob("*.csv"))]


def judge(held_out: Path) -> None:
    """Judge all submissions by all reference values, and write a manifest of all files."""
    before = manifest(PLACE)
    MANIFEST.unlink(missing_ok=True)  # the files that are frozen now count from here on
    frozen = fb.Frozen(PLACE / "truth", held_out)
    frame = _kept(fb.judge(submissions(), frozen))
    with whole_file(JUDGED) as part:
        frame.assign(value=frame.value.round(6)).to_csv(part, index=False)
    files = [*sorted((PLACE / "truth").glob("*.npz")), *sorted((PLACE / "rounds").glob("*/*.npz"))]
    known = {
        "version": fb.VERSION,
        "rounds of a training": ROUNDS,
        "local training": repr(LOCAL),
        "torch": torch.__version__.partition("+")[0],
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "files": {path.relative_to(PLACE).as_posix(): sha256(path) for path in files},
        "held out": before.get("held out", {}) | _hashes(held_out),
        "confirming": before.get("confirming", {}),
        "rounds": dict(_digests(before.get("rounds", {}))),
    }
    _write_manifest(known)


def _kept(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The rows, with the stored value if it differs only by rounding.

    Stored rows of scenarios and seeds without reference values here are kept, too.
    """
    if not JUDGED.is_file():
        return frame
    cells = set(zip(frame.scenario, frame.seed, strict=True))
    stored = pandas.read_csv(JUDGED)
    unjudged = [cell not in cells for cell in zip(stored.scenario, stored.seed, strict=True)]
    frame = pandas.concat([frame, stored[unjudged]], ignore_index=True)
    rows = pandas.MultiIndex.from_frame(frame[KEYS])
    before = stored.set_index(KEYS).value.reindex(rows).to_numpy()
    return frame.assign(value=frame.value.where(~(abs(frame.value - before) < 2e-6), before))


def confirm(folder: Path) -> None:
    """Compute the book's scores on unseen seeds, in the scenarios that the claims are about.

    Stored scores are not computed again, so that a block is looked at only once
    """
    torch.set_num_threads(1)
    frozen = fb.Frozen(folder)
    stored = pandas.read_csv(CONFIRMED) if CONFIRMED.is_file() else pandas.DataFrame(columns=KEYS)
    told = [(family, fb.CONFIRMING) for family in bench_findings.TOLD]
    for family, block in [*told, *((family, fb.LATEST) for family in bench_findings.TOLD_ANEW)]:
        names = [name for name, world in fb.WORLDS.items() if world.family == family]
        cells = cells_of({name: fb.WORLDS[name] for name in names}, block)
        there = set(zip(stored.method, stored.scenario, stored.seed, strict=True))
        missing = {(score, *cell) for score in _fitting(names[0]) for cell in cells} - there
        if not missing:
            continue
        seeds = sorted({seed for _, _, seed in missing})
        if lacking := {str(owner_of(n)) for _, n, seed in missing if not frozen.knows(n, seed)}:
            raise ValueError(f"{folder}: no reference values of seeds {seeds} of {sorted(lacking)}")
        lacks = {score for score, _, _ in missing}
        entering = {score: method for score, method in methods().items() if score in lacks}
        frame = fb.judge(fb.entered(entering, names, seeds), frozen)
        # An attack needs the scenario without it, which is in another family.
        frame = frame[frame.scenario.isin(names)].assign(value=frame.value.round(6))
        cell_of_row = zip(frame.method, frame.scenario, frame.seed, strict=True)
        frame = frame[[one not in there for one in cell_of_row]]  # the ceiling may stand already
        stored = pandas.concat([stored, frame], ignore_index=True)
        with whole_file(CONFIRMED) as part:
            stored.to_csv(part, index=False)
        print(family, flush=True)
    known = {"confirming": {}, **manifest(PLACE)}
    seeds_here = sorted({int(seed) for table in frozen.tables.values() for seed in table})
    named = f"{seeds_here[0]}-{seeds_here[-1]}"
    new = {f"{named}/{name}": digest for name, digest in _hashes(folder).items()}
    _write_manifest(known | {"confirming": known["confirming"] | new})


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.glob("*.npz"))}


def _write_manifest(known: dict[str, Any]) -> None:
    with whole_file(MANIFEST) as part:
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _digests(known: dict[str, str]) -> Iterable[tuple[str, str]]:
    """The hash of every recording, public or held out; known ones are not recorded again."""
    for name, world in fb.WORLDS.items():
        for seed in seeds_of(world, SEEDS):
            cell = f"{name}/{seed}"
            yield cell, known.get(cell) or recorded(world, seed).digest()


def parts() -> dict[str, str]:
    """The computed parts of the page, by name."""
    frame = fb.judged(fb.HELD_OUT)
    said = {one.name: one.notes for one in submissions()}
    boards = {metric: leaderboard.fragment(frame, said, metric) for metric in SHOWN}
    told = bench_findings.findings()
    return {"scenarios": scenarios(), "findings": told, **boards, "script": leaderboard.SCRIPT}


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
        return "what the attacker gains"
    if world.truth:
        return f"the reference values of *{world.truth}*"
    return f"{world.sampled} orderings, twice" if world.sampled else "all 256 coalitions, twice"
