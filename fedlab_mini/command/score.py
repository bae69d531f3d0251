"""Scores of recorded rounds from the command line; ``--help`` says what the files hold."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch import nn

import fedlab_mini as fm

from ..judge.score import Method, score
from . import imported

METHODS: dict[str, Method] = {
    "FedAvg": fm.FedAvg(),
    "CGSV": fm.CGSV(),
    "FRCCE": fm.FRCCE(),
    "FLDVE": fm.FLDVE(),
    "SFedAvg": fm.SFedAvg(None),  # type: ignore[arg-type]
    "exact": fm.exact,
    "leave_one_out": fm.leave_one_out,
    "banzhaf": fm.banzhaf,
    "permutation": functools.partial(fm.permutation, samples=200),
}
FILES = """
A round is an .npz file, written by numpy.savez:
  updates [m, P]  local minus global parameters, one row a client; or models [m, P], local ones
  clients [m]     ids, whole numbers or names (default: 0..m-1); sizes [m] samples (or equal)
  theta [P]       the model before the round (needed in the first; default: federated averaging's)
  t               the round's number (optional; numbers that do not increase are refused)
The validation file holds x [N, ...] and y [N]. P parameters in the order of module.parameters().

Give the rounds in their order: name files round_001.npz, so that round_*.npz sorts them.
"""


def network(text: str) -> fm.Model:
    """A model by its widths, ``64,32,10``, or by name, ``package.module:NAME``."""
    if ":" not in text:
        try:
            return fm.mlp(*(int(width) for width in text.split(",")))
        except ValueError:
            raise ValueError(
                f"--net: expected widths such as 64,32,10 or module:NAME, got {text}"
            ) from None
    found = imported("--net", text)
    found = found() if not isinstance(found, nn.Module | fm.Model) else found
    return found if isinstance(found, fm.Model) else fm.Model(found)


def main(words: Sequence[str] | None = None) -> pd.DataFrame:
    """Run ``score`` on files, print the table and write it where ``--csv`` says."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_mini score",
        description=__doc__,
        epilog=FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rounds", nargs="+", help="one .npz file a round, in their order")
    parser.add_argument("--net", required=True, help="64,32,10 (an MLP) or package.module:NAME")
    parser.add_argument("--validation", required=True, help="an .npz file with x and y")
    parser.add_argument("--methods", default="CGSV,leave_one_out", help=", ".join(METHODS))
    parser.add_argument("--metric", default="accuracy", choices=("accuracy", "loss"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", help="write the table here")
    asked = parser.parse_args(words)
    names = asked.methods.split(",")
    if unknown := [name for name in names if name not in METHODS]:
        parser.error(f"--methods: unknown {', '.join(unknown)}; known are {', '.join(METHODS)}")
    try:
        with np.load(asked.validation, allow_pickle=False) as file:
            validation = (file["x"], file["y"])
        table = score(
            asked.rounds,
            net=network(asked.net),
            validation=validation,
            methods={name: METHODS[name] for name in names},
            metric=asked.metric,
            seed=asked.seed,
        )
    except (OSError, KeyError, ValueError, TypeError) as error:
        parser.exit(1, f"{error}\n")
    print(table.to_string(float_format=lambda value: f"{value:.4g}"))
    if asked.csv:
        table.to_csv(asked.csv)
        print(f"written: {asked.csv}")
    return table
