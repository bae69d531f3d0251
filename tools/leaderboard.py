"""The bench's files: the book's own scores, what they are worth, the computed parts of its page.

    python tools/leaderboard.py enter           the book's scores into data/bench/*/submissions
    python tools/leaderboard.py judge FOLDER    judge all submissions; FOLDER: truth held out
    python tools/leaderboard.py confirm FOLDER  the book's scores on seeds that confirm sentences
    python tools/leaderboard.py write           book/bench.txt, which the page includes
    python tools/leaderboard.py write --check   only say whether it is out of date

Truth comes first: ``python -m fedlab_mini compare truth --to FOLDER``; held out: --seeds 100-109;
to confirm: --seeds 200-209, and the scenarios that ``confirm`` asks for.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas
import torch

import chapters
import computed
from fedlab_mini.engine.checkpoint import whole_file
from fedlab_mini.engine.train import train
from fedlab_mini.judge import bench, registry
from fedlab_mini.judge.bench.rounds import recorded, slug
from fedlab_mini.judge.bench.truth import FOLDER, manifest, owner_of, seeds_of, sha256
from fedlab_mini.judge.bench.worlds import ATTACKS, World
from fedlab_mini.judge.compare.cell import LOCAL, ROUNDS
from fedlab_mini.judge.compare.watch import Watch
from fedlab_mini.judge.evidence import paired
from fedlab_mini.show import leaderboard

PLACE = chapters.ROOT / "data" / "bench" / FOLDER
SUBMISSIONS, JUDGED, MANIFEST = PLACE / "submissions", PLACE / "judged.csv", PLACE / "manifest.json"
CONFIRMED = PLACE / "confirmed.csv"
FILE = chapters.ROOT / "book" / "bench.txt"
SHOWN = ("tau", "AUC", "rank gained", "pay gained")
SEEDS = (*bench.PUBLIC, *bench.HELD_OUT)
# All coalitions of thirty clients cannot be evaluated; orders of a hundred until they settle can,
# but they take a quarter of an hour.
MOST_CLIENTS = {
    **dict.fromkeys(("Shapley", "Shapley, silent", "Banzhaf", "least core", "nucleolus"), 8),
    **dict.fromkeys(("S-FedAvg's relevance", "ShapleyFL"), 8),
    "GTG-Shapley": 30,
}
HARD, EASY = "dirt under skew", 0.95  # an AUC that would make it easy
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TOLD = ("skew", "skew, even sizes", "few samples", HARD, "attacks")  # families of the sentences
LEFT_OUT = {"lambda-MR", "beta-Shapley", "Shapley, accuracy"}  # nearly the row of another score
WORDS = {registry.SIZES: "sizes", registry.UPDATES: "updates", registry.BOTH: "updates, validation"}


def rows() -> list[registry.Row]:
    """The book's scores that watch rounds, by the registry."""
    return [
        row
        for row in registry.COMPARED
        if row.method is not None and row.name not in LEFT_OUT and "trainings" not in row.sees
    ]


def notes() -> dict[str, dict[str, str]]:
    """What each score must see, and how many models it evaluates in a round of eight clients."""
    methods = {row.name: registry.compared()[row.name] for row in rows()}
    fed, net = bench.WORLDS["sizes"].made(0)
    watch = Watch(methods, {"": fed.validation})
    train(fed, net, watch, rounds=ROUNDS, local=LOCAL, seed=0)
    counts = {name: watch.evaluations_of(name) / ROUNDS for name in methods}
    return {
        row.name: {"sees": WORDS[frozenset(row.sees)], "cost": _models(counts[row.name])}
        for row in rows()
    }


def _models(count: float) -> str:
    return f"{count:.0f} models a round" if count else "no model evaluated"


def enter(names: Iterable[str]) -> None:
    """Let the book's scores watch every scenario; what a file holds already is not done again."""
    torch.set_num_threads(1)
    said, methods = notes(), registry.compared()
    files = {row.name: SUBMISSIONS / f"{slug(row.name)}.csv" for row in rows()}
    known: dict[str, dict] = {
        name: dict(bench.read_submission(path).scores) if path.is_file() else {}
        for name, path in files.items()
    }
    for name in names:
        world = bench.WORLDS[name]
        cells = [(name, seed) for seed in seeds_of(world, SEEDS)]
        missing = {
            score: methods[score]
            for score in files
            if world.clients <= MOST_CLIENTS.get(score, 100) and not set(cells) <= set(known[score])
        }
        for entered in bench.entered(missing, [name], SEEDS) if missing else []:
            known[entered.name].update(entered.scores)
        for score in missing:
            ordered = {cell: known[score][cell] for cell in _ordered(known[score])}
            bench.Submission(ordered, {"name": score, **said[score]}).write(files[score])
        print(name, flush=True)


def _ordered(cells: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    places = {name: place for place, name in enumerate(bench.WORLDS)}
    return sorted(cells, key=lambda cell: (places[cell[0]], cell[1]))


def submissions() -> list[bench.Submission]:
    """All that have been committed, by name."""
    return [bench.read_submission(path) for path in sorted(SUBMISSIONS.glob("*.csv"))]


def judge(held_out: Path) -> None:
    """Judge all submissions by all truth; what they are worth, and a manifest of all files."""
    confirming = manifest(PLACE).get("confirming", {})
    MANIFEST.unlink(missing_ok=True)  # what is frozen now is the truth from here on
    frozen = bench.Frozen(PLACE / "truth", held_out)
    frame = bench.judge(submissions(), frozen)
    with whole_file(JUDGED) as part:
        frame.assign(value=frame.value.round(6)).to_csv(part, index=False)
    files = [*sorted((PLACE / "truth").glob("*.npz")), *sorted((PLACE / "rounds").glob("*/*.npz"))]
    known = {
        "version": bench.VERSION,
        "rounds of a training": ROUNDS,
        "local training": repr(LOCAL),
        "torch": torch.__version__.partition("+")[0],
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "files": {path.relative_to(PLACE).as_posix(): sha256(path) for path in files},
        "held out": _hashes(held_out),
        "confirming": confirming,
        "rounds": dict(_digests()),
    }
    _write_manifest(known)


def confirm(folder: Path) -> None:
    """Let the book's scores watch seeds that were never seen; only what the sentences are about.

    What is stored of a family is not done again, so that the block is looked at once
    """
    torch.set_num_threads(1)
    frozen, methods = bench.Frozen(folder), registry.compared()
    entering = {row.name: methods[row.name] for row in rows()}
    stored = pandas.read_csv(CONFIRMED) if CONFIRMED.is_file() else pandas.DataFrame()
    for family in TOLD:
        names = [name for name, world in bench.WORLDS.items() if world.family == family]
        if not stored.empty and set(names) <= set(stored.scenario):
            continue
        cells = [(name, seed) for name in names for seed in bench.CONFIRMING]
        if lacking := {str(owner_of(name)) for name, seed in cells if not frozen.knows(name, seed)}:
            sys.exit(f"{folder}: no truth of seeds 200-209 of {', '.join(sorted(lacking))}")
        frame = bench.judge(bench.entered(entering, names, bench.CONFIRMING), frozen)
        # Attacks bring their twin, which stands in a family of its own.
        frame = frame[frame.scenario.isin(names)].assign(value=frame.value.round(6))
        stored = pandas.concat([stored, frame], ignore_index=True)
        with whole_file(CONFIRMED) as part:
            stored.to_csv(part, index=False)
        print(family, flush=True)
    _write_manifest(manifest(PLACE) | {"confirming": _hashes(folder)})


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.glob("*.npz"))}


def _write_manifest(known: dict[str, Any]) -> None:
    with whole_file(MANIFEST) as part:
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _digests() -> Iterable[tuple[str, str]]:
    """The hash of every recording, public or held out."""
    for name, world in bench.WORLDS.items():
        for seed in seeds_of(world, SEEDS):
            yield f"{name}/{seed}", recorded(world, seed).digest()


def judged(seeds: Sequence[int]) -> pandas.DataFrame:
    """What is stored of the submissions' worth, of these seeds."""
    frame = pandas.read_csv(JUDGED)
    return frame[frame.seed.isin(list(seeds))]


def page() -> str:
    """The computed parts of the page, between marks."""
    frame = judged(bench.HELD_OUT)
    said = {one.name: one.notes for one in submissions()}
    boards = {metric: leaderboard.fragment(frame, said, metric) for metric in SHOWN}
    told = findings(frame, pandas.read_csv(CONFIRMED))
    parts = {"scenarios": scenarios(), "findings": told, **boards}
    return computed.under_marks(parts | {"script": leaderboard.SCRIPT})


def findings(seen: pandas.DataFrame, fresh: pandas.DataFrame) -> str:
    """What the board says, a paragraph each, with the numbers of the fresh block.

    raises  AssertionError where one of the two blocks says so no longer
    """
    tau, auc = [_upheld(frame) for frame in (seen, fresh)][-1]
    paid = [bench.standings(frame, "pay gained")["attacks"] for frame in (seen, fresh)]
    gain = [name for name in paid[0] if all(one[name].interval.low > 0 for one in paid)]
    lose = [name for name in paid[0] if all(one[name].interval.high < 0 for one in paid)]
    once = [name for name, own in paid[0].items() if own.interval.low > 0 and name not in gain]
    before = f" On the held-out seeds alone it rose by {_listed(once)}." if once else ""
    skew, even, few, hard = tau["skew"], tau["skew, even sizes"], auc["few samples"], auc[HARD]
    best, finder = _first(even), _first(hard)
    attacks = NUMBERS[len(ATTACKS)]
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
            f"**What attacks earn is open.** Over all {attacks} attacks together, the attacker's "
            f"pay clearly rises by {_listed(gain)}, and clearly falls by {_listed(lose)}, on both "
            f"blocks of seeds.{before}",
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


def _first(family: dict[str, Any]) -> str:
    """The score with the highest mean; that it is clearly the best is not said."""
    scores = {name: own.interval.mean for name, own in family.items() if name != bench.CEILING}
    return max(scores, key=lambda name: scores[name])


def _listed(names: Sequence[str]) -> str:
    *others, last = [f"*{name}*" for name in names] or ["no score"]
    return f"{', '.join(others)} and {last}" if others else last


def scenarios() -> str:
    """Every scenario in a row: family, clients, whose truth, seeds."""
    lines = [
        "| scenario | family | clients | judged by | seeds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, world in bench.WORLDS.items():
        lines.append(
            f"| {name} | {world.family} | {world.clients} | {_truth_in_words(name, world)} "
            f"| {world.seeds} + {world.seeds} |"
        )
    return "\n".join(lines)


def _truth_in_words(name: str, world: World) -> str:
    if world.truth is None:
        return "what the attacker gains"
    if world.truth:
        return f"the truth of *{world.truth}*"
    return f"{world.sampled} orders, twice" if world.sampled else "all 256 coalitions, twice"


def main(words: Sequence[str]) -> Any:
    """Do one of the four things; anything else prints how."""
    match words:
        case ["enter", *names]:
            return enter(names or bench.WORLDS)
        case ["judge", folder]:
            return judge(Path(folder))
        case ["confirm", folder]:
            return confirm(Path(folder))
        case ["write"] | ["write", "--check"]:
            return computed.write_or_check(FILE, page(), "python tools/leaderboard.py write")
    sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
