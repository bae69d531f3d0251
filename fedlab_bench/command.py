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
from collections.abc import Sequence
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
from fedlab_mini.judge.registry import SCORES, looked_up
from fedlab_mini.keep.files import whole_file
from fedlab_mini.parse.checks import home

from . import judging, submission, truth
from .compared import METHODS
from .comparing import compare
from .dealing import SAMPLES, SCENARIOS
from .entering import EIGHT, entered
from .measures import BESIDE_TRUTH, MEASURES, OF_ATTACKS, OF_METHODS
from .recording import FLOATS, recorded, slug
from .show import leaderboard
from .worlds import BAD, ROUNDS, WORLDS, chosen

if TYPE_CHECKING:
    import pandas

FEW = ("size", "alone", "leave one out", "Shapley", "Shapley, silent", "CGSV", "second order")
NO_TRUTH = "these seeds have no reference values; python -m fedlab_bench truth makes them"
GROUPS = {"all": [*WORLDS]} | {
    f"v{version}": [name for name, world in WORLDS.items() if world.version == version]
    for version in truth.VERSIONS
}
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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    beside = commands.add_parser("compare", help="a method of yours beside others")
    beside.set_defaults(run=_compare, seeds=[0, 1, 2], scenarios=[*SCENARIOS])
    add = beside.add_argument
    add("--method", action="append", default=[], help="module:NAME, yours; repeatable")
    add("--beside", nargs="+", default=FEW, help=f"'all', or some of: {'; '.join(METHODS)}")
    add("--rounds", type=int, default=ROUNDS, help="of every training run")
    add("--data", default="digits", help=f"one of: {'; '.join(SAMPLES)}")
    add("--cache", type=home, help="folder for finished cells, so that a second call goes on")
    add("--jobs", type=int, default=1, help="cells side by side")

    judge = commands.add_parser("judge", help="judge scores beside the frozen reference values")
    judge.set_defaults(run=_judge, seeds=[*truth.PUBLIC], scenarios=EIGHT)
    add = judge.add_argument
    add("scores", nargs="+", help="FILE.csv, module:NAME, or a score of the book")
    add("--alone", action="store_true", help="without the scores of the book")
    add("--truth", nargs="+", default=[], type=home, help="folders of values for more seeds")
    add("--page", type=home, help="write a page here (.html)")
    add("--scores-to", type=home, help="write the scores of a Python score here, to submit")

    rounds = commands.add_parser("rounds", help="write the recorded rounds as files")
    rounds.add_argument("--kind", default="float32", choices=FLOATS, help="of numbers")
    frozen = commands.add_parser("truth", help="retrain, for the reference values of seeds")
    for command, run in ((rounds, _rounds), (frozen, _freeze)):
        command.set_defaults(run=run, seeds=[*truth.PUBLIC], scenarios=["all"])
        command.add_argument("--to", required=True, type=home, help="the folder")

    for command in (beside, judge, rounds, frozen):
        names = [*SCENARIOS] if command is beside else [*GROUPS, *WORLDS]
        add = command.add_argument
        add("--scenarios", nargs="+", help=f"some of: {'; '.join(names)}")
        add("--seeds", type=block, help="how many, from 0, or 100-109")
    for command, measures in ((beside, OF_METHODS), (judge, OF_ATTACKS)):
        add = command.add_argument
        known = tuple(BESIDE_TRUTH | measures)
        add("--metric", default="tau", choices=known, help="what is printed")
        add("--csv", type=home, help="write all measures here, in long format")
        add("--figure", type=home, help=f"write a figure here ({', '.join(PICTURES)})")
    return parser


def _compare(options: argparse.Namespace) -> pandas.DataFrame:
    # Checked now, not after an hour of training.
    outputs = {"--csv": options.csv, "--figure": options.figure}
    writable(outputs, module_files(options.method), {"--figure": PICTURES})
    folder("--cache", options.cache)
    if options.metric == "AUC" and not BAD.keys() & {*options.scenarios}:
        raise ValueError(f"--metric: AUC needs one of the scenarios {'; '.join(BAD)}")
    asked = METHODS if list(options.beside) == ["all"] else options.beside
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
    tables = [leaderboard.summary(frame, options.metric)]
    tables += [leaderboard.summary(frame, options.metric, against=name) for name in own]
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
    figure = leaderboard.picture(frame, options.metric, places, own=own)
    figure.savefig(options.figure, bbox_inches="tight")


def _names(options: argparse.Namespace) -> list[str]:
    names = [name for asked in options.scenarios for name in GROUPS.get(asked, [asked])]
    return list(chosen(names))


def _submission(text: str, options: argparse.Namespace) -> submission.Submission:
    """A file of scores; or the scores of ``module:NAME``, or of one that the book knows."""
    if text.endswith(".csv"):
        return submission.read_submission(text)
    # A few names in the book, such as "retrained: alone", have a colon but are not modules.
    if ":" in text and text not in METHODS:
        name, method = own_method("scores", text)
    else:
        (name,) = looked_up("scores", [text], SCORES).values()
        method = SCORES[name]
    (one,) = entered({name: method}, _names(options), options.seeds)
    return one


def _judge(options: argparse.Namespace) -> pandas.DataFrame:
    import pandas  # here, because a usage error needs no table

    texts: list[str] = []
    for text in options.scores:
        is_file = text.endswith(".csv")
        texts += map(str, matched("scores", [home(text)])) if is_file else [text]
    in_python = [place for place, text in enumerate(texts) if not text.endswith(".csv")]
    # The bench's own folders come first, because the first folder with a seed counts.
    own = [place / "truth" for place in truth.folders() if (place / "truth").is_dir()]
    places = [*own, *matched("--truth", options.truth)]
    # Checked now, not after everything has been judged.
    outputs = {
        "--scores-to": options.scores_to,
        "--csv": options.csv,
        "--page": options.page,
        "--figure": options.figure,
    }
    read: list[str | Path] = [*texts, *module_files(texts)]
    for place in truth.folders():
        read += place.rglob("*.*")
    for place in places:
        read += [*place.glob("*.npz"), place.parent / "manifest.json"]
    endings = {"--scores-to": (".csv",), "--page": (".html",), "--figure": PICTURES}
    writable(outputs, read, endings)
    if options.scores_to and len(in_python) != 1:
        raise ValueError(f"--scores-to: expected one score in Python, got {len(in_python)}")
    frozen = truth.Frozen(*places)
    if in_python and not options.scores_to:  # which keeps scores that nobody can judge yet
        _judgeable(options, frozen)
    entries = [_submission(text, options) for text in texts]
    if options.scores_to:
        # Written before judging, so that an error there does not lose scores that took long.
        mine = entries[in_python[0]]
        asked = dict.fromkeys(("name", "sees", "cost", "date"), "") | {"version": truth.VERSION}
        submission.Submission(mine.scores, asked | dict(mine.notes)).write(options.scores_to)
    frame = judging.judge(entries, frozen)
    if frame.empty:
        raise ValueError(NO_TRUTH)
    told: list[object] = []
    cells = {cell for entry in entries for cell in entry.scores}
    if unjudged := {seed for _, seed in cells} - set(frame.seed):
        seeds = ", ".join(map(str, sorted(unjudged)))
        told.append(f"not judged, as their reference values are held out: seeds {seeds}")
    notes = {entry.name: entry.notes for entry in entries}
    if not options.alone:
        # Only stored scores of the same cells, and none with the name of an entered score.
        frame = pandas.concat([judging.stored(cells, notes), frame], ignore_index=True)
        notes = submission.committed() | notes
    told += [leaderboard.board(frame, options.metric), *judging.absent(frame, options.metric)]
    if options.csv:
        write_csv(options.csv, frame, index=False)
    if options.page:
        # A page has one table per measure, and a measure without values raises an error.
        metrics = tuple(metric for metric in MEASURES if metric in set(frame.metric))
        version = max(WORLDS[name].version for name in frame.scenario)
        title = f"The bench, version {truth.VERSIONS[version]}"
        with whole_file(options.page) as partial_path:
            page = leaderboard.page(frame, notes, metrics, title)
            partial_path.write_text(page, encoding="utf-8")
    if options.figure:
        _draw(options, frame, [entry.name for entry in entries])
    tell("\n".join(map(str, told)), *outputs.values())
    if options.scores_to:
        print("fill in its lines '# sees:', '# cost:', '# date:'")
    return frame


def _judgeable(options: argparse.Namespace, frozen: truth.Frozen) -> None:
    """Refuse scores in Python that could not be judged or not be shown, before computing them."""
    names = _names(options)
    known = {name for name in names for seed in options.seeds if frozen.knows(name, seed)}
    if not known:
        raise ValueError(NO_TRUTH)
    of_attacks = options.metric in OF_ATTACKS
    fit = {name for name in known if (truth.owner_of(name) is None) == of_attacks}
    if options.metric == "AUC":
        fit = {name for name in fit if WORLDS[name].bad is not None}
    if not fit:
        raise ValueError(f"--metric: no scenario that these seeds can judge has {options.metric}")


def _rounds(options: argparse.Namespace) -> None:
    folder("--to", options.to)
    worlds = {name: WORLDS[name] for name in _names(options)}
    for name, seed in truth.cells_of(worlds, options.seeds):
        place = options.to / f"{slug(name)}-{seed}"
        recorded(worlds[name], seed).write(place, options.kind)
        print(place)


def _freeze(options: argparse.Namespace) -> None:
    folder("--to", options.to)
    for path in truth.freeze(_names(options), options.seeds, options.to):
        print(path)


def main(words: Sequence[str] | None = None) -> object:
    """Run one of the commands; an error that its user can correct is one line."""
    parser = _parser()
    options = parser.parse_args(words)
    try:
        return options.run(options)
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
