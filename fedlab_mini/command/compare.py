"""Your method beside the book's, from the command line; the page "Bring your own" shows it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pandas as pd

from ..judge.compare import METHODS, SAMPLES, SCENARIOS, compare
from ..judge.compare.methods import Method
from ..show.comparison import figure, summary
from . import imported

FEW = ("size", "alone", "leave one out", "Shapley", "Shapley, silent", "CGSV", "second order")


def yours(text: str) -> tuple[str, Method]:
    """A method by name, ``package.module:NAME``: an instance, a function, or a class to call."""
    found = imported("--method", text)
    return text.partition(":")[2], found() if isinstance(found, type) else found


def main(words: Sequence[str] | None = None) -> pd.DataFrame:
    """Compare, print a table, and write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m fedlab_mini compare", description=__doc__)
    add = parser.add_argument
    add("--method", action="append", default=[], help="module:NAME, a method of yours; repeatable")
    add("--beside", nargs="+", default=FEW, help=f"'all', or some of: {'; '.join(METHODS)}")
    add("--scenarios", nargs="+", default=tuple(SCENARIOS), help=f"of: {'; '.join(SCENARIOS)}")
    add("--seeds", type=int, default=3, help="how many, from 0")
    add("--data", default="digits", choices=tuple(SAMPLES))
    add("--metric", default="tau with retraining", help="of the table and the figure")
    add("--folder", help="where finished cells are kept, so that a second call goes on")
    add("--csv", help="write all measures here, in long format")
    add("--figure", help="write a figure of the first scenario here (.svg, .png, .pdf)")
    add("--jobs", type=int, default=1, help="cells side by side")
    asked = parser.parse_args(words)
    try:
        names = list(METHODS) if list(asked.beside) == ["all"] else asked.beside
        if unknown := [name for name in names if name not in METHODS]:
            raise ValueError(f"--beside: unknown {', '.join(unknown)}; see --help")
        methods = {name: METHODS[name] for name in names} | dict(map(yours, asked.method))
        found = compare(
            methods,
            asked.scenarios,
            range(asked.seeds),
            data=asked.data,
            folder=asked.folder,
            n_jobs=asked.jobs,
        )
        table = summary(found, asked.metric)
    except (OSError, ValueError, TypeError) as error:
        parser.exit(1, f"{error}\n")
    print(table)
    if asked.csv:
        found.to_csv(asked.csv, index=False)
        print(f"written: {asked.csv}")
    if asked.figure:
        figure(found, asked.scenarios[0], asked.metric).savefig(asked.figure, bbox_inches="tight")
        print(f"written: {asked.figure}")
    return found
