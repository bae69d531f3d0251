"""Scores of recorded rounds from the command line; ``--help`` says what the files hold."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

from ..engine.model import Model, mlp
from ..judge.records import Archive
from ..judge.registry import looked_up, scoring
from ..judge.score import score
from . import explained, imported, writable, write_csv

if TYPE_CHECKING:
    import pandas

FILES = """
A round is an .npz file, written by numpy.savez:
  updates [m, P]  local minus global parameters, one row a client; or models [m, P], local ones
  clients [m]     ids, whole numbers or names (default: 0..m-1); sizes [m] samples (or equal)
  theta [P]       the model before the round (needed in the first; default: federated averaging's)
  t               the round's number (optional; numbers that do not increase are refused)
The validation file holds x [N, ...] and y [N]. P parameters in the order of module.parameters().

Give the rounds in their order: name files round_001.npz, so that round_*.npz sorts them.
"""


def read_network(text: str) -> Model:
    """A model by its widths, ``64,32,10``, or by name, ``package.module:NAME``."""
    if ":" not in text:
        try:
            return mlp(*(int(width) for width in text.split(",")))
        except ValueError:
            wanted = "widths such as 64,32,10 or module:NAME"
            raise ValueError(f"--net: expected {wanted}, got {text}") from None
    imported_object = imported("--net", text)
    # A class or a function makes the network; a network is taken as it is.
    is_network = isinstance(imported_object, nn.Module | Model)
    network = imported_object if is_network else imported_object()
    return network if isinstance(network, Model) else Model(network)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_mini score",
        description=__doc__,
        epilog=FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(name.replace(",", "").replace("%", "%%") for name in scoring())
    add = parser.add_argument
    add("rounds", nargs="+", help="one .npz file a round, in their order")
    add("--net", required=True, help="64,32,10 (an MLP) or package.module:NAME")
    add("--validation", required=True, help="an .npz file with x and y")
    add(
        "--methods",
        default="CGSV,leave_one_out",
        help=f"with commas between them, some of: {known}. A space may be an underscore",
    )
    add("--metric", default="accuracy", choices=("accuracy", "loss"))
    add("--seed", type=int, default=0)
    add("--csv", help="write the table here")
    return parser


def _scores(options: argparse.Namespace) -> pandas.DataFrame:
    writable("--csv", options.csv)
    known = scoring()
    chosen = looked_up("--methods", options.methods.split(","), known)
    with Archive("--validation", options.validation) as archive:
        if lacking := {"x", "y"} - set(archive):
            raise ValueError(f"{archive.label}: lacks {', '.join(sorted(lacking))}")
        validation = archive["x"], archive["y"]
    return score(
        options.rounds,
        net=read_network(options.net),
        validation=validation,
        methods={written: known[name] for written, name in chosen.items()},  # type: ignore[misc]
        metric=options.metric,
        seed=options.seed,
    )


def main(words: Sequence[str] | None = None) -> pandas.DataFrame:
    """Run ``score`` on files, print the table and write it where ``--csv`` says."""
    parser = _parser()
    options = parser.parse_args(words)
    try:
        table = _scores(options)
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
    print(table.to_string(float_format=lambda value: f"{value:.4g}"))
    if options.csv:
        write_csv(options.csv, table)
    return table
