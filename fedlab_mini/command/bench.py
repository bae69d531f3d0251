"""The bench from the command line: judge scores beside frozen truth; the page *The bench* shows it.

compare judge scores.csv              a file of scores, from any language
compare judge module:NAME             a score in Python: it watches recorded rounds
compare rounds --to FOLDER            the recorded rounds as files, to score them elsewhere
compare truth --to FOLDER             retrain: the frozen truth, or that of held-out seeds
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.checkpoint import whole_file
from ..judge import bench
from ..judge.bench.judging import MEASURES
from ..judge.bench.rounds import FLOATS, slug
from ..judge.bench.truth import cells_of
from ..judge.bench.worlds import chosen
from ..judge.compare import METHODS
from ..judge.registry import looked_up, scoring
from . import PICTURES, explained, own_method, writable, write_csv

if TYPE_CHECKING:
    import pandas

MOST_SEEDS, LARGEST_SEED = 100_000, 10**9


def block(text: str) -> list[int]:
    """Seeds as they are written: ``10``, how many from 0, or ``100-109``, from one to another."""
    first, dash, last = text.partition("-")
    start, end = (int(first), int(last) + 1) if dash else (0, int(text))
    if not (0 < end - start <= MOST_SEEDS and end <= LARGEST_SEED):
        raise argparse.ArgumentTypeError(f"expected such as 10 or 100-109, got {text}")
    return list(range(start, end))


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    prog = "python -m fedlab_mini compare"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(dest="command", required=True)
    judge = commands.add_parser("judge", help="judge scores beside the frozen truth")
    judge.add_argument("scores", nargs="+", help="FILE.csv, module:NAME, or a score of the book")
    judge.add_argument("--alone", action="store_true", help="without the scores of the book")
    judge.add_argument("--truth", nargs="+", default=[], help="folders of truth for more seeds")
    judge.add_argument("--metric", default="tau", choices=tuple(MEASURES), help="what is printed")
    judge.add_argument("--csv", help="write all measures here, in long format")
    judge.add_argument("--page", help="write a page here (.html)")
    words = f"write a figure of the first family here ({', '.join(PICTURES)})"
    judge.add_argument("--figure", help=words)
    judge.add_argument("--scores-to", help="write the scores of a Python score here, to submit")
    rounds = commands.add_parser("rounds", help="write the recorded rounds as files")
    truth = commands.add_parser("truth", help="retrain the truth of seeds")
    for command in (rounds, truth):
        command.add_argument("--to", required=True, help="the folder")
    rounds.add_argument("--kind", default="float32", choices=tuple(FLOATS), help="of numbers")
    for command in (judge, rounds, truth):
        words = "; ".join(bench.WORLDS)
        command.add_argument("--scenarios", nargs="+", help=f"'all', or some of: {words}")
        command.add_argument(
            "--seeds", type=block, default=list(bench.PUBLIC), help="how many, from 0, or 100-109"
        )
    return parser


def _names(options: argparse.Namespace, default: Sequence[str]) -> list[str]:
    asked = default if options.scenarios is None else options.scenarios
    return list(chosen(None if list(asked) == ["all"] else asked))


def _python(text: str, options: argparse.Namespace) -> bench.Submission:
    """A score in Python, by ``module:NAME`` or by its name in the book, made into a submission."""
    known = scoring()
    if ":" in text and text not in METHODS:
        name, method = own_method("scores", text)
    else:
        (name,) = looked_up("scores", [text], known).values()
        method = known[name]
    (submission,) = bench.entered({name: method}, _names(options, bench.EIGHT), options.seeds)
    return submission


def _judge(options: argparse.Namespace) -> pandas.DataFrame:
    import pandas  # here: a usage error needs no table

    from ..show import leaderboard

    writable("--csv", options.csv)
    writable("--page", options.page, (".html",))
    writable("--figure", options.figure, PICTURES)
    writable("--scores-to", options.scores_to, (".csv",))
    watching = [at for at, text in enumerate(options.scores) if not text.endswith(".csv")]
    if options.scores_to and len(watching) != 1:
        raise ValueError(f"--scores-to: expected one score in Python, got {len(watching)}")
    places = [bench.folder() / "truth", *map(Path, options.truth)]
    frozen = bench.Frozen(*places)
    mine = [
        bench.read_submission(text) if text.endswith(".csv") else _python(text, options)
        for text in options.scores
    ]
    if options.scores_to:
        mine[watching[0]].write(options.scores_to)
        print(f"written: {options.scores_to}")
    frame = bench.judge(mine, frozen)
    if frame.empty:
        raise ValueError("no truth is at hand for these seeds; compare truth makes it")
    if unjudged := {seed for one in mine for _, seed in one.scores} - set(frame.seed):
        listed = ", ".join(map(str, sorted(unjudged)))
        print(f"not judged, as their truth is held out: seeds {listed}")
    notes = {one.name: one.notes for one in mine}
    if not options.alone:
        cells = {cell for one in mine for cell in one.scores}
        frame = pandas.concat([bench.stored(cells, notes), frame], ignore_index=True)
        notes |= {rival["name"]: rival for rival in _rivals() if rival["name"] not in notes}
    print(leaderboard.board(frame, options.metric))
    for line in bench.absent(frame, options.metric):
        print(line)
    if options.csv:
        write_csv(options.csv, frame, index=False)
    if options.page:
        metrics = tuple(metric for metric in MEASURES if metric in set(frame.metric))
        text = leaderboard.page(frame, notes, metrics, f"The bench, version {bench.VERSION}")
        with whole_file(Path(options.page)) as part:
            part.write_text(text, encoding="utf-8")
        print(f"written: {options.page}")
    if options.figure:
        drawn = leaderboard.picture(frame, options.metric)
        drawn.savefig(options.figure, bbox_inches="tight")
        print(f"written: {options.figure}")
    return frame


def _rivals() -> list[dict[str, str]]:
    """What the committed submissions say of themselves."""
    return [bench.notes_of(path) for path in sorted((bench.folder() / "submissions").glob("*.csv"))]


def _rounds(options: argparse.Namespace) -> None:
    worlds = chosen(_names(options, ["all"]))
    for name, seed in cells_of(worlds, options.seeds):
        folder = Path(options.to) / f"{slug(name)}-{seed}"
        bench.recorded(worlds[name], seed).write(folder, options.kind)
        print(folder)


def _freeze(options: argparse.Namespace) -> None:
    for path in bench.freeze(_names(options, ["all"]), options.seeds, Path(options.to)):
        print(path)


def main(words: Sequence[str]) -> object:
    """Run one of the three commands; errors of use are one line."""
    parser = _parser()
    options = parser.parse_args(words)
    try:
        if options.command == "judge":
            return _judge(options)
        if options.command == "rounds":
            _rounds(options)
        else:
            _freeze(options)
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
    return None
