"""The bench's files: the book's own scores, what they are worth, the computed parts of its page.

    python tools/leaderboard.py enter           the book's scores into data/bench/*/submissions
    python tools/leaderboard.py judge FOLDER    judge all submissions; FOLDER: truth held out
    python tools/leaderboard.py confirm FOLDER  the book's scores on seeds that confirm sentences
    python tools/leaderboard.py write           book/bench.txt, which the page includes
    python tools/leaderboard.py write --check   only say whether it is out of date

Truth comes first: ``python -m fedlab_bench truth --to FOLDER``; held out: --seeds 100-109;
to confirm: --seeds 300-309, and the scenarios that ``confirm`` asks for.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas
import torch

import bench_findings
import chapters
import computed
import fedlab_bench as fb
from fedlab_bench import registry
from fedlab_bench.entering import watched
from fedlab_bench.rounds import recorded, slug
from fedlab_bench.show import leaderboard
from fedlab_bench.truth import (
    FOLDER,
    cells_of,
    manifest,
    owner_of,
    seeds_of,
    sha256,
)
from fedlab_bench.worlds import LOCAL, ROUNDS
from fedlab_mini.engine.files import whole_file

PLACE = chapters.ROOT / "data" / "bench" / FOLDER
SUBMISSIONS, JUDGED, MANIFEST = PLACE / "submissions", PLACE / "judged.csv", PLACE / "manifest.json"
CONFIRMED = PLACE / "confirmed.csv"
FILE = chapters.ROOT / "book" / "bench.txt"
SHOWN = ("tau", "AUC", "rank gained", "pay gained")
SEEDS = (*fb.PUBLIC, *fb.HELD_OUT)
DATED = ("date", "version")  # when a score was entered; it stays, whatever scenarios are added
# All coalitions of thirty clients cannot be evaluated; orders of a hundred until they settle can,
# but they take a quarter of an hour.
MOST_CLIENTS = {
    **dict.fromkeys(("Shapley", "Shapley, silent", "Banzhaf", "least core", "nucleolus"), 8),
    **dict.fromkeys(("S-FedAvg's relevance", "ShapleyFL"), 8),
    "GTG-Shapley": 30,
}
LEFT_OUT = {"lambda-MR", "beta-Shapley", "Shapley, accuracy"}  # nearly the row of another score
KEYS = ["seed", "scenario", "method", "metric"]
WORDS = {registry.SIZES: "sizes", registry.UPDATES: "updates", registry.BOTH: "updates, validation"}


def rows() -> list[registry.Row]:
    """The book's scores that watch rounds, by the registry."""
    return [
        row for row in registry.COMPARED if row.name not in LEFT_OUT and "trainings" not in row.sees
    ]


def methods() -> dict[str, registry.Method]:
    """They themselves, by name."""
    return {row.name: row.method for row in rows()}


def notes() -> dict[str, dict[str, str]]:
    """What each score must see, and how many models it evaluates in a round of eight clients."""
    watch = watched(recorded(fb.WORLDS["sizes"], 0), methods())
    counts = {name: watch.evaluated[name] / ROUNDS for name in methods()}
    today = {"date": date.today().isoformat(), "version": fb.VERSION}
    return {
        row.name: {"sees": WORDS[frozenset(row.sees)], "cost": _models(counts[row.name]), **today}
        for row in rows()
    }


def _models(count: float) -> str:
    return f"{count:.0f} models a round" if count else "no model evaluated"


def enter(names: Iterable[str]) -> None:
    """Let the book's scores watch every scenario; what a file holds already is not done again."""
    torch.set_num_threads(1)
    said, scoring = notes(), methods()
    files = {row.name: SUBMISSIONS / f"{slug(row.name)}.csv" for row in rows()}
    held = {name: fb.read_submission(path) for name, path in files.items() if path.is_file()}
    known = {name: dict(held[name].scores) if name in held else {} for name in files}
    for name, one in held.items():
        said[name] = said[name] | {note: one.notes[note] for note in DATED if note in one.notes}
    for name in names:
        world = fb.WORLDS[name]
        cells = [(name, seed) for seed in seeds_of(world, SEEDS)]
        missing = {
            score: scoring[score]
            for score in files
            if world.clients <= MOST_CLIENTS.get(score, 100) and not set(cells) <= set(known[score])
        }
        for entered in fb.entered(missing, [name], SEEDS) if missing else []:
            # What a file holds stays, also of the twin that an attack brings along.
            known[entered.name] = {**entered.scores, **known[entered.name]}
        for score in missing:
            ordered = {cell: known[score][cell] for cell in _ordered(known[score])}
            fb.Submission(ordered, {"name": score, **said[score]}).write(files[score])
        print(name, flush=True)


def _ordered(cells: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    places = {name: place for place, name in enumerate(fb.WORLDS)}
    return sorted(cells, key=lambda cell: (places[cell[0]], cell[1]))


def submissions() -> list[fb.Submission]:
    """All that have been committed, by name."""
    return [fb.read_submission(path) for path in sorted(SUBMISSIONS.glob("*.csv"))]


def judge(held_out: Path) -> None:
    """Judge all submissions by all truth; what they are worth, and a manifest of all files."""
    before = manifest(PLACE)
    MANIFEST.unlink(missing_ok=True)  # what is frozen now is the truth from here on
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
    """The rows with the stored value where it differs by rounding only: what stands, stays.

    So do the stored rows of scenarios and seeds whose truth is not at hand.
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
    """Let the book's scores watch seeds that were never seen; only what the sentences are about.

    What is stored of a score in a family is not done again, so that the block is looked at once
    """
    torch.set_num_threads(1)
    frozen = fb.Frozen(folder)
    stored = pandas.read_csv(CONFIRMED) if CONFIRMED.is_file() else pandas.DataFrame(columns=KEYS)
    for family in bench_findings.TOLD:
        names = [name for name, world in fb.WORLDS.items() if world.family == family]
        cells = cells_of({name: fb.WORLDS[name] for name in names}, fb.CONFIRMING)
        there = set(zip(stored.method, stored.scenario, strict=True))
        entering = {
            score: method
            for score, method in methods().items()
            if fb.WORLDS[names[0]].clients <= MOST_CLIENTS.get(score, 100)
            and any((score, name) not in there for name in names)
        }
        if not entering:
            continue
        if lacking := {str(owner_of(name)) for name, seed in cells if not frozen.knows(name, seed)}:
            sys.exit(f"{folder}: no truth of seeds 300-309 of {', '.join(sorted(lacking))}")
        frame = fb.judge(fb.entered(entering, names, fb.CONFIRMING), frozen)
        # Attacks bring their twin, which stands in a family of its own.
        frame = frame[frame.scenario.isin(names)].assign(value=frame.value.round(6))
        new = zip(frame.method, frame.scenario, strict=True)  # of a later score, not the ceiling
        frame = frame[[one not in there for one in new]]
        stored = pandas.concat([stored, frame], ignore_index=True)
        with whole_file(CONFIRMED) as part:
            stored.to_csv(part, index=False)
        print(family, flush=True)
    known = {"confirming": {}, **manifest(PLACE)}
    _write_manifest(known | {"confirming": known["confirming"] | _hashes(folder)})


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.glob("*.npz"))}


def _write_manifest(known: dict[str, Any]) -> None:
    with whole_file(MANIFEST) as part:
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _digests(known: dict[str, str]) -> Iterable[tuple[str, str]]:
    """The hash of every recording, public or held out; what is known is not recorded again."""
    for name, world in fb.WORLDS.items():
        for seed in seeds_of(world, SEEDS):
            cell = f"{name}/{seed}"
            yield cell, known.get(cell) or recorded(world, seed).digest()


def page() -> str:
    """The computed parts of the page, between marks."""
    frame = fb.judged(fb.HELD_OUT)
    said = {one.name: one.notes for one in submissions()}
    boards = {metric: leaderboard.fragment(frame, said, metric) for metric in SHOWN}
    told = bench_findings.findings(frame, fb.judged(fb.CONFIRMING))
    parts = {"scenarios": scenarios(), "findings": told, **boards}
    return computed.under_marks(parts | {"script": leaderboard.SCRIPT})


def scenarios() -> str:
    """Every scenario in a row: family, clients, whose truth, seeds."""
    lines = [
        "| scenario | family | clients | judged by | seeds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, world in fb.WORLDS.items():
        lines.append(
            f"| {name} | {world.family} | {world.clients} | {_truth_in_words(name, world)} "
            f"| 3 times {world.seeds} |"
        )
    return "\n".join(lines)


def _truth_in_words(name: str, world: fb.World) -> str:
    if world.truth is None:
        return "what the attacker gains"
    if world.truth:
        return f"the truth of *{world.truth}*"
    return f"{world.sampled} orders, twice" if world.sampled else "all 256 coalitions, twice"


def main(words: Sequence[str]) -> Any:
    """Do one of the four things; anything else prints how."""
    match words:
        case ["enter", *names]:
            return enter(names or fb.WORLDS)
        case ["judge", folder]:
            return judge(Path(folder))
        case ["confirm", folder]:
            return confirm(Path(folder))
        case ["write"] | ["write", "--check"]:
            return computed.write_or_check(FILE, page(), "python tools/leaderboard.py write")
    sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
