"""Your method beside the book's, from the command line; the page "Bring your own" shows it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
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
from fedlab_mini.judge.registry import looked_up

from ..compare import METHODS, SAMPLES, SCENARIOS, compare
from ..compare.cell import MEASURES, ROUNDS
from ..compare.files import finished
from . import bench

if TYPE_CHECKING:
    import pandas

FEW = (
    "size",
    "alone",
    "leave one out",
    "Shapley",
    "Shapley, silent",
    "CGSV",
    "second order",
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_bench compare", description=__doc__
    )
    add = parser.add_argument
    add(
        "--method",
        action="append",
        default=[],
        help="module:NAME, a method of yours; repeatable",
    )
    add(
        "--beside",
        nargs="+",
        default=FEW,
        help=f"'all', or some of: {'; '.join(METHODS)}",
    )
    add(
        "--scenarios",
        nargs="+",
        default=tuple(SCENARIOS),
        help=f"of: {'; '.join(SCENARIOS)}",
    )
    add(
        "--seeds",
        type=bench.block,
        default=[0, 1, 2],
        help="how many, from 0, or 100-109",
    )
    add("--rounds", type=int, default=ROUNDS, help="of every training")
    add("--data", default="digits", choices=tuple(SAMPLES))
    add(
        "--metric",
        default=MEASURES[0],
        choices=MEASURES,
        help="of the table and the figure",
    )
    add(
        "--folder",
        type=home,
        help="where finished cells are kept, so that a second call goes on",
    )
    add("--csv", type=home, help="write all measures here, in long format")
    add(
        "--figure",
        type=home,
        help=f"write a figure of the first scenario here ({', '.join(PICTURES)})",
    )
    add("--jobs", type=int, default=1, help="cells side by side")
    return parser


def _compared(options: argparse.Namespace) -> pandas.DataFrame:
    # Refused now, and not after an hour of training.
    read = [*module_files(options.method), *finished(options.folder)]
    outputs = {"--csv": options.csv, "--figure": options.figure}
    writable(outputs, read, {"--figure": PICTURES})
    asked_names = list(METHODS) if list(options.beside) == ["all"] else options.beside
    method_names = looked_up("--beside", asked_names, METHODS).values()
    rivals = {method_name: METHODS[method_name] for method_name in method_names}
    return compare(
        rivals
        | dict(own_method("--method", method_text) for method_text in options.method),
        options.scenarios,
        options.seeds,
        data=options.data,
        rounds=options.rounds,
        folder=options.folder,
        n_jobs=options.jobs,
    )


def main(words: Sequence[str] | None = None) -> pandas.DataFrame:
    """Compare, print a table, and write what is options for."""
    # Here: a usage error needs no matplotlib.
    from ..show.comparison import figure, summary

    parser = _parser()
    options = parser.parse_args(words)
    try:
        frame = _compared(options)
        print(summary(frame, options.metric))
        if options.csv:
            write_csv(options.csv, frame, index=False)
        if options.figure:
            picture = figure(frame, options.scenarios[0], options.metric)
            picture.savefig(options.figure, bbox_inches="tight")
            print(f"written: {options.figure}")
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
    return frame
