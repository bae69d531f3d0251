"""The bench's files: the book's own scores, what they are worth, the computed parts of its page.

    python tools/leaderboard.py enter           the book's scores into data/bench/*/submissions
    python tools/leaderboard.py judge FOLDER    judge all submissions; FOLDER: truth held out
    python tools/leaderboard.py write           book/bench.txt, which the page includes
    python tools/leaderboard.py check           only say whether something is out of date

Truth comes first: ``python -m fedlab_mini compare truth --to FOLDER``; held out: --seeds 100-109.
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
from fedlab_mini.engine.checkpoint import whole_file
from fedlab_mini.engine.train import train
from fedlab_mini.judge import bench, registry
from fedlab_mini.judge.bench.rounds import recorded, slug
from fedlab_mini.judge.bench.truth import seeds_of, sha256
from fedlab_mini.judge.bench.worlds import World
from fedlab_mini.judge.compare.cell import LOCAL, ROUNDS
from fedlab_mini.judge.compare.watch import Watch
from fedlab_mini.show import leaderboard

PLACE = chapters.ROOT / "data" / "bench" / f"v{bench.VERSION}"
SUBMISSIONS, JUDGED, MANIFEST = PLACE / "submissions", PLACE / "judged.csv", PLACE / "manifest.json"
FILE = chapters.ROOT / "book" / "bench.txt"
SHOWN = ("tau", "AUC", "rank gained", "pay gained")
SEEDS = (*bench.PUBLIC, *bench.HELD_OUT)
# All coalitions of thirty clients cannot be evaluated; of a hundred clients not even some orders.
FEW = {
    *("Shapley", "Shapley, silent", "Shapley, accuracy", "lambda-MR", "Banzhaf", "beta-Shapley"),
    *("least core", "nucleolus", "S-FedAvg's relevance", "ShapleyFL"),
}
LEFT_OUT = {"lambda-MR", "beta-Shapley"}  # nearly Shapley's: rows that would say nothing new
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
            if not (world.sampled and score in FEW) and not set(cells) <= set(known[score])
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
        "held out": {path.name: sha256(path) for path in sorted(held_out.glob("*.npz"))},
        "rounds": dict(_digests()),
    }
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
    parts: list[str] = [f"<!-- scenarios -->\n{scenarios()}\n<!-- end -->"]
    for metric in SHOWN:
        text = leaderboard.fragment(frame, said, metric)
        parts.append(f"<!-- {metric} -->\n{text}\n<!-- end -->")
    parts.append(f"<!-- script -->\n{leaderboard.SCRIPT}\n<!-- end -->")
    return "\n\n".join(parts) + "\n"


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
        case ["write"]:
            return FILE.write_text(page(), encoding="utf-8")
        case ["check"]:
            if FILE.read_text(encoding="utf-8") != page():
                sys.exit(f"{FILE} is out of date: python tools/leaderboard.py write")
            return None
    sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
