"""The bench from the command line: judge scores beside frozen truth; the page *The bench* shows it.

judge scores.csv              a file of scores, from any language
judge module:NAME             a score in Python: it watches recorded rounds
rounds --to FOLDER            the recorded rounds as files, to score them elsewhere
truth --to FOLDER             retrain: the frozen truth, or that of held-out seeds
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedlab_mini.checks import home
from fedlab_mini.command import (
    PICTURES,
    explained,
    module_files,
    own_method,
    writable,
    write_csv,
)
from fedlab_mini.engine.files import whole_file
from fedlab_mini.judge.registry import looked_up, scoring

from .. import bench
from ..bench.judging import MEASURES
from ..bench.rounds import FLOATS, slug
from ..bench.truth import cells_of
from ..bench.worlds import chosen
from ..compare import METHODS

if TYPE_CHECKING:
    import pandas

MOST_SEEDS, LARGEST_SEED = 100_000, 10**9


def block(text: str) -> list[int]:
    """Seeds as they are written: ``10``, how many from 0, or ``100-109``, from one to another."""
    first_text, is_range, last_text = text.partition("-")
    first_seed, end_seed = (
        (int(first_text), int(last_text) + 1) if is_range else (0, int(text))
    )
    # Without a limit one digit too many would fill the memory with seeds.
    if not (0 < end_seed - first_seed <= MOST_SEEDS and end_seed <= LARGEST_SEED):
        raise argparse.ArgumentTypeError(f"expected such as 10 or 100-109, got {text}")
    return list(range(first_seed, end_seed))


def _parser() -> argparse.ArgumentParser:
    # The module's docstring is the help, and its lines stay as they stand there.
    formatter = argparse.RawDescriptionHelpFormatter
    program = "python -m fedlab_bench"
    parser = argparse.ArgumentParser(
        prog=program, description=__doc__, formatter_class=formatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    judge = commands.add_parser("judge", help="judge scores beside the frozen truth")
    judge.add_argument(
        "scores", nargs="+", help="FILE.csv, module:NAME, or a score of the book"
    )
    judge.add_argument(
        "--alone", action="store_true", help="without the scores of the book"
    )
    judge.add_argument(
        "--truth",
        nargs="+",
        default=[],
        type=home,
        help="folders of truth for more seeds",
    )
    judge.add_argument(
        "--metric", default="tau", choices=tuple(MEASURES), help="what is printed"
    )
    judge.add_argument("--csv", type=home, help="write all measures here, in long format")
    judge.add_argument("--page", type=home, help="write a page here (.html)")
    figure_help = f"write a figure of the first family here ({', '.join(PICTURES)})"
    judge.add_argument("--figure", type=home, help=figure_help)
    judge.add_argument(
        "--scores-to",
        type=home,
        help="write the scores of a Python score here, to submit",
    )
    rounds = commands.add_parser("rounds", help="write the recorded rounds as files")
    truth = commands.add_parser("truth", help="retrain the truth of seeds")
    for command in (rounds, truth):
        command.add_argument("--to", required=True, type=home, help="the folder")
    rounds.add_argument(
        "--kind", default="float32", choices=tuple(FLOATS), help="of numbers"
    )
    for command in (judge, rounds, truth):
        world_names = "; ".join(bench.WORLDS)
        command.add_argument(
            "--scenarios", nargs="+", help=f"'all', or some of: {world_names}"
        )
        command.add_argument(
            "--seeds",
            type=block,
            default=list(bench.PUBLIC),
            help="how many, from 0, or 100-109",
        )
    return parser


def _names(options: argparse.Namespace, default_names: Sequence[str]) -> list[str]:
    asked_names = default_names if options.scenarios is None else options.scenarios
    return list(chosen(None if list(asked_names) == ["all"] else asked_names))


def _python(score_text: str, options: argparse.Namespace) -> bench.Submission:
    """A score in Python, by ``module:NAME`` or by its name in the book, made into a submission."""
    known_scores = scoring()
    # A few names of the book, such as "retrained: alone", have a colon and are no module.
    if ":" in score_text and score_text not in METHODS:
        score_name, method = own_method("scores", score_text)
    else:
        (score_name,) = looked_up("scores", [score_text], known_scores).values()
        method = known_scores[score_name]
    (submission,) = bench.entered(
        {score_name: method}, _names(options, bench.EIGHT), options.seeds
    )
    return submission


def _read(options: argparse.Namespace, truth_folders: Sequence[Path]) -> Iterator[Path]:
    """Every file that a judgement reads: what is judged, the truth, the bench's own scores."""
    yield from (home(text) for text in options.scores if text.endswith(".csv"))
    yield from module_files(options.scores)
    for place in truth_folders:
        yield from (*place.glob("*.npz"), place.parent / "manifest.json")
    if not options.alone:
        yield from (bench.folder() / "judged.csv", *_submissions())


def _judge(options: argparse.Namespace) -> pandas.DataFrame:
    import pandas  # here: a usage error needs no table

    from ..show import leaderboard

    # The bench's own comes first: of a seed that lies in two folders, the first counts.
    truth_folders = [bench.folder() / "truth", *options.truth]
    # Refused now, and not when all has been judged.
    writable(
        {
            "--csv": options.csv,
            "--page": options.page,
            "--figure": options.figure,
            "--scores-to": options.scores_to,
        },
        [*_read(options, truth_folders)],
        {"--page": (".html",), "--figure": PICTURES, "--scores-to": (".csv",)},
    )
    in_python = [
        index for index, text in enumerate(options.scores) if not text.endswith(".csv")
    ]
    if options.scores_to and len(in_python) != 1:
        raise ValueError(
            f"--scores-to: expected one score in Python, got {len(in_python)}"
        )
    frozen_truth = bench.Frozen(*truth_folders)
    submissions = [
        bench.read_submission(text) if text.endswith(".csv") else _python(text, options)
        for text in options.scores
    ]
    if options.scores_to:
        # Before anything is judged: scores that took long are not lost to an error there.
        submissions[in_python[0]].write(options.scores_to)
        print(f"written: {options.scores_to}")
    frame = bench.judge(submissions, frozen_truth)
    if frame.empty:
        maker = "python -m fedlab_bench truth"
        raise ValueError(f"no truth is at hand for these seeds; {maker} makes it")
    if unjudged := {seed for entry in submissions for _, seed in entry.scores} - set(
        frame.seed
    ):
        seed_list = ", ".join(map(str, sorted(unjudged)))
        print(f"not judged, as their truth is held out: seeds {seed_list}")
    notes = {entry.name: entry.notes for entry in submissions}
    if not options.alone:
        entered_cells = {cell for entry in submissions for cell in entry.scores}
        # Stored scores of the same cells only, and none of a name that was just entered.
        frame = pandas.concat(
            [bench.stored(entered_cells, notes), frame], ignore_index=True
        )
        notes |= {
            rival["name"]: rival for rival in _rivals() if rival["name"] not in notes
        }
    print(leaderboard.board(frame, options.metric))
    for absence in bench.absent(frame, options.metric):
        print(absence)
    if options.csv:
        write_csv(options.csv, frame, index=False)
    if options.page:
        # A page has a table a measure, and a measure without values is refused.
        page_metrics = tuple(metric for metric in MEASURES if metric in set(frame.metric))
        page_html = leaderboard.page(
            frame, notes, page_metrics, f"The bench, version {bench.VERSION}"
        )
        with whole_file(options.page) as partial_path:
            partial_path.write_text(page_html, encoding="utf-8")
        print(f"written: {options.page}")
    if options.figure:
        figure = leaderboard.picture(frame, options.metric)
        figure.savefig(options.figure, bbox_inches="tight")
        print(f"written: {options.figure}")
    return frame


def _rivals() -> list[dict[str, str]]:
    """What the committed submissions say of themselves."""
    return [bench.notes_of(path) for path in _submissions()]


def _submissions() -> list[Path]:
    return sorted((bench.folder() / "submissions").glob("*.csv"))


def _rounds(options: argparse.Namespace) -> None:
    chosen_worlds = chosen(_names(options, ["all"]))
    for world_name, seed in cells_of(chosen_worlds, options.seeds):
        cell_folder = options.to / f"{slug(world_name)}-{seed}"
        bench.recorded(chosen_worlds[world_name], seed).write(cell_folder, options.kind)
        print(cell_folder)


def _freeze(options: argparse.Namespace) -> None:
    for truth_path in bench.freeze(_names(options, ["all"]), options.seeds, options.to):
        print(truth_path)


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
