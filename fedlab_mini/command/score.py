"""Scores of recorded rounds from the command line; ``--help`` describes the files."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from ..engine.fit import labels_for
from ..engine.model import Model
from ..engine.networks import mlp
from ..judge.draws import score_intervals
from ..judge.registry import looked_up, scoring
from ..judge.score import score
from ..parse.checks import home, reals
from ..parse.records import archive
from ..show.tables import Table, table
from . import (
    explained,
    imported,
    in_order,
    matched,
    module_files,
    own_method,
    tell,
    writable,
    write_csv,
)

if TYPE_CHECKING:
    import pandas

FILES = """
Each round is an .npz file, written by numpy.savez, or a dictionary in a .pt file of torch.save:
  updates [m, P]  local minus global parameters, a row per client; or models [m, P], the local ones
  clients [m]     ids or names (default: 0..m-1); sizes [m] numbers of samples (default: all equal)
  theta [P]       the model before the round (needed in the first; default: federated averaging's)
  t               the number of the round (optional; the numbers must increase)
An .npy file holds only updates. A round without rows, in which no client replied, changes no score.
The validation file holds x [N, ...] and y [N]. P parameters in the order of module.parameters().

Name a method of your own as module:NAME. It is an object, a class that takes no arguments, or a
function of a round's game or of (round, server). The module may be a file of the working folder.
Give the rounds in their order; a pattern such as round_*.npz puts round_2 before round_10.
"""


def read_network(text: str) -> Model:
    """A model from its widths, ``64,32,10``, or from a name, ``package.module:NAME``."""
    if ":" not in text:
        try:
            return mlp(*(int(layer_width) for layer_width in text.split(",")))
        except ValueError:
            wanted_forms = "widths such as 64,32,10 or module:NAME"
            raise ValueError(f"--net: expected {wanted_forms}, got {text}") from None
    imported_object = imported("--net", text)
    # A class or a function is called to make the network; a network is used as it is.
    is_network = isinstance(imported_object, nn.Module | Model)
    try:
        network = imported_object if is_network else imported_object()
    except Exception as error:  # the user's code may raise anything
        wanted = "a module, or a function without arguments that makes one"
        raise ValueError(f"--net: expected {wanted}, got {text} ({error})") from error
    return network if isinstance(network, Model) else Model(network)


def _parser(package: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {package} score",
        description=__doc__,
        epilog=FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Commas separate methods on the command line, and argparse reads "%" as a format.
    known_names = ", ".join(name.replace(",", "").replace("%", "%%") for name in scoring())
    add = parser.add_argument
    add("rounds", nargs="+", type=home, help="one file per round, in order")
    add("--net", required=True, help="64,32,10 (widths of an MLP) or package.module:NAME")
    add("--validation", type=home, help="a file with x and y; CGSV needs none")
    add(
        "--methods",
        default="second_order,CGSV,leave_one_out",
        help=f"names separated by commas: module:NAME, or one of {known_names}. Spaces may be "
        "underscores. For payments, chapter 10 compares second_order and Shapley_silent",
    )
    add(
        "--metric",
        default="loss",
        choices=("loss", "accuracy"),
        help="what the values of a round's game measure",
    )
    add("--seed", type=int, default=0)
    told = "add 95%% intervals: resample the validation samples this number of times; 20 are enough"
    add("--draws", type=int, help=f"{told}. The time is multiplied by this number")
    add("--csv", type=home, help="a file to which the table is written")
    return parser


def read_methods(texts: Sequence[str]) -> dict[str, Any]:
    """Methods by the given names: the book's methods, or a user's as ``module:NAME``."""
    own_methods = {text: own_method("--methods", text) for text in texts if ":" in text}
    book_methods = scoring()
    book_names = looked_up("--methods", [text for text in texts if ":" not in text], book_methods)
    named_methods = [
        own_methods[text] if text in own_methods else (text, book_methods[book_names[text]])
        for text in texts
    ]
    # A dict would silently keep the last of two methods with one name.
    if len(dict(named_methods)) != len(named_methods):
        raise ValueError(f"--methods: expected different names, got {', '.join(texts)}")
    return dict(named_methods)


def _scores(options: argparse.Namespace) -> pandas.DataFrame:
    asked_methods = [name for name in options.methods.split(",") if name.strip()]
    modules = module_files([options.net, *asked_methods])
    rounds = in_order(matched("rounds", options.rounds))
    # Refused now, before the scores are computed.
    read = [*rounds, *filter(None, [options.validation]), *modules]
    writable({"--csv": options.csv}, read)
    methods = read_methods(asked_methods)
    net = read_network(options.net)
    given: dict[str, Any] = {"metric": options.metric, "seed": options.seed}
    given |= {"methods": methods, "net": net}
    if options.validation is not None:
        with archive("--validation", options.validation, ("x", "y")) as samples:
            inputs = reals(f"{samples.label}: x", samples.value("x"), ["N", "..."])
            labels = labels_for(net, f"{samples.label}: y", samples.value("y"), inputs)
        given["validation"] = inputs, labels
    if options.draws is None:
        return score(rounds, **given)
    return score_intervals(rounds, draws=options.draws, **given)


def _shown(scores: pandas.DataFrame, draws: int) -> Table:
    """A table of scores with their intervals, one cell for each."""
    cells: dict[str, dict[str, object]] = {}
    for client, row in scores.to_dict("index").items():
        cells[str(client)] = {}
        for name in row:
            ends = [row.get(f"{name}, {end}", math.nan) for end in ("low", "high")]
            if not name.endswith((", low", ", high")):
                cell = row[name] if math.isnan(ends[0]) else (row[name], *ends)
                cells[str(client)][name] = cell
    over = f"95 % interval over {draws} resampled sets of validation samples"
    caption = f"Score [{over}]; a score that does not use these samples has no interval."
    return table(cells, rows="client", caption=caption, digits=4)


def main(words: Sequence[str] | None = None, package: str = "fedlab_mini") -> pandas.DataFrame:
    """Run ``score`` on files, print the table and write it where ``--csv`` says."""
    parser = _parser(package)
    options = parser.parse_args(words)
    try:
        score_table = _scores(options)
    except Exception as error:
        parser.exit(1, f"{explained(error)}\n")
    if options.draws is None:
        text = score_table.to_string(float_format=lambda value: f"{value:.4g}")
    else:
        text = str(_shown(score_table, options.draws))
    try:
        if options.csv:
            write_csv(options.csv, score_table)
    except OSError as error:
        # Print the scores, so that they are not lost.
        tell(text)
        parser.exit(1, f"{explained(error)}\n")
    tell(text, options.csv)
    return score_table
