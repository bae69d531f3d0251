"""Your method beside the book's, from the command line; the page "Bring your own" shows it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..judge.compare import METHODS, SAMPLES, SCENARIOS, compare
from ..judge.compare.cell import MEASURES
from ..judge.registry import Method, looked_up
from . import explained, imported, writable, write_csv

if TYPE_CHECKING:
    import pandas

FEW = ("size", "alone", "leave one out", "Shapley", "Shapley, silent", "CGSV", "second order")
PICTURES = (".svg", ".png", ".pdf")


def yours(text: str) -> tuple[str, Method]:
    """A method by name, ``package.module:NAME``: an instance, a function, or a class to call."""
    named = imported("--method", text)
    return text.partition(":")[2], named() if isinstance(named, type) else named


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fedlab_mini compare", description=__doc__)
    add = parser.add_argument
    add("--method", action="append", default=[], help="module:NAME, a method of yours; repeatable")
    add("--beside", nargs="+", default=FEW, help=f"'all', or some of: {'; '.join(METHODS)}")
    add("--scenarios", nargs="+", default=tuple(SCENARIOS), help=f"of: {'; '.join(SCENARIOS)}")
    add("--seeds", type=int, default=3, help="how many, from 0")
    add("--data", default="digits", choices=tuple(SAMPLES))
    add("--metric", default=MEASURES[0], choices=MEASURES, help="of the table and the figure")
    add("--folder", help="where finished cells are kept, so that a second call goes on")
    add("--csv", help="write all measures here, in long format")
    add("--figure", help=f"write a figure of the first scenario here ({', '.join(PICTURES)})")
    add("--jobs", type=int, default=1, help="cells side by side")
    return parser


def _compared(asked: argparse.Namespace) -> pandas.DataFrame:
    # Refused now, and not after an hour of training.
    writable("--csv", asked.csv)
    writable("--figure", asked.figure, PICTURES)
    names = list(METHODS) if list(asked.beside) == ["all"] else asked.beside
    chosen = looked_up("--beside", names, METHODS).values()
    return compare(
        {name: METHODS[name] for name in chosen} | dict(map(yours, asked.method)),
        asked.scenarios,
        range(asked.seeds),
        data=asked.data,
        folder=asked.folder,
        n_jobs=asked.jobs,
    )


def main(words: Sequence[str] | None = None) -> pandas.DataFrame:
    """Compare, print a table, and write what is asked for."""
    from ..show.comparison import figure, summary  # here: a usage error needs no matplotlib

    parser = _parser()
    asked = parser.parse_args(words)
    try:
        frame = _compared(asked)
        print(summary(frame, asked.metric))
        if asked.csv:
            write_csv(asked.csv, frame, index=False)
        if asked.figure:
            picture = figure(frame, asked.scenarios[0], asked.metric)
            picture.savefig(asked.figure, bbox_inches="tight")
            print(f"written: {asked.figure}")
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
    return frame
