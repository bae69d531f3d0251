"""The bench from the command line; the pages *The bench* and *Bring your own* show it.

`compare`                     compare your method with others: freeze federations, then judge
`judge scores.csv`            judge a file of scores, beside the frozen reference values
`judge module:NAME`           judge a score in Python, which watches recorded rounds
`rounds --to FOLDER`          write the recorded rounds as files, to score them elsewhere
`truth --to FOLDER`           retrain: make the frozen reference values, or held-out ones
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedlab_mini.command import (
    PICTURES,
    explained,
    folder,
    matched,
    module_files,
    own_method,
    tell,
    writable,
    write_csv,
)
from fedlab_mini.judge.registry import looked_up, scoring
from fedlab_mini.keep.files import whole_file
from fedlab_mini.parse.checks import home

from . import entering, judging, submission, truth
from .comparing import compare
from .measures import BESIDE_TRUTH, MEASURES, OF_ATTACKS, OF_METHODS
from .registry import METHODS
from .rounds import FLOATS, recorded, slug
from .scenarios import SAMPLES, SCENARIOS
from .worlds import BAD, ROUNDS, WORLDS, chosen

if TYPE_CHECKING:
    import pandas

FEW = (*("size", "alone", "leave one out", "Shapley", "Shapley, silent"), *("CGSV", "second order"))
NO_TRUTH = "these seeds have no reference values; python -m fedlab_bench truth makes them"
MOST_SEEDS, LARGEST_SEED = 100_000, 10**9


def block(text: str) -> list[int]:
    """Seeds from text: ``10`` means how many, from 0; ``100-109`` means from one to another."""
    first_text, is_range, last_text = text.partition("-")
    first_seed, end_seed = (int(first_text), int(last_text) + 1) if is_range else (0, int(text))
    # Without a limit, one digit too many would fill the memory with seeds.
    if not (0 < end_seed - first_seed <= MOST_SEEDS and end_seed <= LARGEST_SEED):
        raise argparse.ArgumentTypeError(f"expected e.g. 10 or 100-109, got {text}")
    return list(range(first_seed, end_seed))


def _parser() -> argparse.ArgumentParser:
    # The module's docstring is the help text, with its own line breaks.
    formatter = argparse.RawDescriptionHelpFormatter
    program = "python -m fedlab_bench"
    parser = argparse.ArgumentParser(prog=program, description=__doc__, formatter_class=formatter)
    commands = parser.add_subparsers(dest="command", required=True)
    beside = commands.add_parser("compare", help="a method of yours beside others")
    judge = commands.add_parser("judge", help="judge scores beside the frozen reference values")
    rounds = commands.add_parser("rounds", help="write the recorded rounds as files")
    frozen = commands.add_parser("truth", help="retrain, for the reference values of seeds")
    _compare_options(beside.add_argument)
    _judge_options(judge.add_argument)
    for command in (rounds, frozen):
        command.add_argument("--to", required=True, type=home, help="the folder")
    rounds.add_argument("--kind", default="float32", choices=tuple(FLOATS), help="of numbers")
    for command in (judge, rounds, frozen):
        command.add_argument(
            "--scenarios", nargs="+", help=f"'all', or some of: {'; '.join(WORLDS)}"
        )
    for command in (beside, judge, rounds, frozen):
        default = [0, 1, 2] if command is beside else list(truth.PUBLIC)
        told = "how many, from 0, or 100-109"
        command.add_argument("--seeds", type=block, default=default, help=told)
    return parser


def _compare_options(add: Callable[..., object]) -> None:
    own = "module:NAME, a method of yours; repeatable"
    add("--method", action="append", default=[], help=own)
    some = f"'all', or some of: {'; '.join(METHODS)}"
    add("--beside", nargs="+", default=FEW, help=some)
    nine = tuple(SCENARIOS)
    add("--scenarios", nargs="+", default=nine, help=f"of: {'; '.join(nine)}")
    add("--rounds", type=int, default=ROUNDS, help="of every training run")
    add("--data", default="digits", choices=tuple(SAMPLES))
    measures = tuple(BESIDE_TRUTH | OF_METHODS)
    add("--metric", default="tau", choices=measures, help="what is printed")
    kept = "folder for finished cells, so that a second call goes on"
    add("--cache", type=home, help=kept)
    add("--csv", type=home, help="write all measures here, in long format")
    drawn = f"write a figure here, a panel a scenario ({', '.join(PICTURES)})"
    add("--figure", type=home, help=drawn)
    add("--jobs", type=int, default=1, help="cells side by side")


def _judge_options(add: Callable[..., object]) -> None:
    add("scores", nargs="+", help="FILE.csv, module:NAME, or a score of the book")
    add("--alone", action="store_true", help="without the scores of the book")
    more = "folders of reference values for more seeds"
    add("--truth", nargs="+", default=[], type=home, help=more)
    measures = tuple(BESIDE_TRUTH | OF_ATTACKS)
    add("--metric", default="tau", choices=measures, help="what is printed")
    add("--csv", type=home, help="write all measures here, in long format")
    add("--page", type=home, help="write a page here (.html)")
    drawn = f"write a figure here, a panel a family ({', '.join(PICTURES)})"
    add("--figure", type=home, help=drawn)
    told = "write the scores of a Python score here, to submit"
    add("--scores-to", type=home, help=told)


def _compare(options: argparse.Namespace) -> pandas.DataFrame:
    # Imported here, because a usage error needs no tables.
    from .show.leaderboard import summary

    # Checked now, not after an hour of training.
    outputs = {"--csv": options.csv, "--figure": options.figure}
    writable(outputs, [*module_files(options.method)], {"--figure": PICTURES})
    folder("--cache", options.cache)
    if options.metric == "AUC" and not BAD.keys() & {*options.scenarios}:
        raise ValueError(f"--metric: AUC needs one of the scenarios {'; '.join(BAD)}")
    asked = list(METHODS) if list(options.beside) == ["all"] else options.beside
    names = looked_up("--beside", asked, METHODS).values()
    own = dict(own_method("--method", text) for text in options.method)
    count = len(options.scenarios) * len(options.seeds)
    # Printed first, because a log shows no progress bar and nothing else before the table.
    each = "a cell takes some five seconds of a core with 20 rounds of digits"
    print(f"{count} cells, one a scenario and seed; {each}", file=sys.stderr)
    frame = compare(
        {name: METHODS[name] for name in names} | own,
        options.scenarios,
        options.seeds,
        data=options.data,
        rounds=options.rounds,
        cache=options.cache,
        n_jobs=options.jobs,
    )
    if options.csv:  # first, so that no error below loses what took long
        write_csv(options.csv, frame, index=False)
    tables = [summary(frame, options.metric)]
    tables += [summary(frame, options.metric, against=name) for name in own]
    if options.figure:
        measured = set(frame[frame.metric == options.metric].scenario)
        places = [scenario for scenario in options.scenarios if scenario in measured]
        _draw(options, frame, [*own], places)
    tell("\n\n".join(map(str, tables)), options.csv, options.figure)
    return frame


def _draw(
    options: argparse.Namespace,
    frame: pandas.DataFrame,
    own: Sequence[str],
    places: Sequence[str] | None = None,
) -> None:
    from .show.leaderboard import picture

    figure = picture(frame, options.metric, places, own=own)
    figure.savefig(options.figure, bbox_inches="tight")


def _names(options: argparse.Namespace, default_names: Sequence[str]) -> list[str]:
    asked_names = default_names if options.scenarios is None else options.scenarios
    return list(chosen(None if list(asked_names) == ["all"] else asked_names))


def _python(score_text: str, options: argparse.Namespace) -> submission.Submission:
    """A submission from a score in Python, given as ``module:NAME`` or by its name in the book."""
    known_scores = scoring()
    # A few names in the book, such as "retrained: alone", have a colon but are not modules.
    if ":" in score_text and score_text not in METHODS:
        score_name, method = own_method("scores", score_text)
    else:
        (score_name,) = looked_up("scores", [score_text], known_scores).values()
        method = known_scores[score_name]
    (entered,) = entering.entered(
        {score_name: method}, _names(options, entering.EIGHT), options.seeds
    )
    return entered


def _read(options: argparse.Namespace, truth_folders: Sequence[Path]) -> Iterator[Path]:
    """All files that a judgement reads: judged scores, reference values, the bench's own scores."""
    yield from (Path(text) for text in options.scores if text.endswith(".csv"))
    yield from module_files(options.scores)
    for place in truth_folders:
        yield from (*place.glob("*.npz"), place.parent / "manifest.json")
    if not options.alone:
        yield from (truth.folder() / "judged.csv", *_submissions())


def _scores(texts: Sequence[str]) -> Iterator[str]:
    """The scores to judge: the matching files, and scores in Python unchanged."""
    for text in texts:
        is_file = text.endswith(".csv")
        yield from map(str, matched("scores", [home(text)])) if is_file else [text]


def _judge(options: argparse.Namespace) -> pandas.DataFrame:
    import pandas  # here, because a usage error needs no table

    from .show import leaderboard

    # The bench's own folder comes first, because the first folder with a seed counts.
    truth_folders = [truth.folder() / "truth", *matched("--truth", options.truth)]
    options.scores = [*_scores(options.scores)]
    # Checked now, not after everything has been judged.
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
    in_python = [index for index, text in enumerate(options.scores) if not text.endswith(".csv")]
    if options.scores_to and len(in_python) != 1:
        raise ValueError(f"--scores-to: expected one score in Python, got {len(in_python)}")
    frozen_truth = truth.Frozen(*truth_folders)
    if in_python and not options.scores_to:  # which keeps scores that nobody can judge yet
        _judgeable(options, frozen_truth)
    submissions = [
        submission.read_submission(text) if text.endswith(".csv") else _python(text, options)
        for text in options.scores
    ]
    if options.scores_to:
        # Written before judging, so that an error there does not lose scores that took long.
        entry = submissions[in_python[0]]
        asked = dict.fromkeys(("name", "sees", "cost", "date"), "")
        lines = asked | {"version": truth.VERSION} | dict(entry.notes)
        submission.Submission(entry.scores, lines).write(options.scores_to)
    frame = judging.judge(submissions, frozen_truth)
    if frame.empty:
        raise ValueError(NO_TRUTH)
    told: list[object] = []
    if unjudged := {seed for entry in submissions for _, seed in entry.scores} - set(frame.seed):
        seed_list = ", ".join(map(str, sorted(unjudged)))
        told.append(f"not judged, as their reference values are held out: seeds {seed_list}")
    notes = {entry.name: entry.notes for entry in submissions}
    if not options.alone:
        entered_cells = {cell for entry in submissions for cell in entry.scores}
        # Only stored scores of the same cells, and none with the name of an entered score.
        frame = pandas.concat([judging.stored(entered_cells, notes), frame], ignore_index=True)
        notes |= {rival["name"]: rival for rival in _rivals() if rival["name"] not in notes}
    told += [leaderboard.board(frame, options.metric), *judging.absent(frame, options.metric)]
    if options.csv:
        write_csv(options.csv, frame, index=False)
    if options.page:
        # A page has one table per measure, and a measure without values raises an error.
        page_metrics = tuple(metric for metric in MEASURES if metric in set(frame.metric))
        page_html = leaderboard.page(
            frame, notes, page_metrics, f"The bench, version {truth.VERSION}"
        )
        with whole_file(options.page) as partial_path:
            partial_path.write_text(page_html, encoding="utf-8")
    if options.figure:
        _draw(options, frame, [entry.name for entry in submissions])
    written = (options.scores_to, options.csv, options.page, options.figure)
    tell("\n".join(map(str, told)), *written)
    if options.scores_to:
        print("fill in its lines '# sees:', '# cost:', '# date:'")
    return frame


def _judgeable(options: argparse.Namespace, frozen: truth.Frozen) -> None:
    """Refuse scores in Python that could not be judged or not be shown, before computing them."""
    cells = [(name, seed) for name in _names(options, entering.EIGHT) for seed in options.seeds]
    known = {name for name, seed in cells if frozen.knows(name, seed)}
    attacks = {name for name in known if truth.owner_of(name) is None}
    fit = attacks if options.metric in OF_ATTACKS else known - attacks
    if options.metric == "AUC":
        fit = {name for name in fit if WORLDS[name].bad is not None}
    if not known:
        raise ValueError(NO_TRUTH)
    if not fit:
        raise ValueError(f"--metric: no scenario that these seeds can judge has {options.metric}")


def _rivals() -> list[dict[str, str]]:
    """What the committed submissions say of themselves."""
    return [submission.notes_of(path) for path in _submissions()]


def _submissions() -> list[Path]:
    return sorted((truth.folder() / "submissions").glob("*.csv"))


def _rounds(options: argparse.Namespace) -> None:
    folder("--to", options.to)
    chosen_worlds = chosen(_names(options, ["all"]))
    for world_name, seed in truth.cells_of(chosen_worlds, options.seeds):
        cell_folder = options.to / f"{slug(world_name)}-{seed}"
        recorded(chosen_worlds[world_name], seed).write(cell_folder, options.kind)
        print(cell_folder)


def _freeze(options: argparse.Namespace) -> None:
    folder("--to", options.to)
    for truth_path in truth.freeze(_names(options, ["all"]), options.seeds, options.to):
        print(truth_path)


def main(words: Sequence[str] | None = None) -> object:
    """Run one of the commands; a usage error prints one line."""
    parser = _parser()
    options = parser.parse_args(words)
    commands = {"compare": _compare, "judge": _judge, "rounds": _rounds, "truth": _freeze}
    try:
        return commands[options.command](options)
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
