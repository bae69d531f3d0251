"""Scoring: what people call to turn recorded rounds of any system into a table of scores.

Nothing is trained. The page "Bring your own" shows it. Below: judge.watch, judge.registry.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..engine.model import Model
from ..engine.outputs import snapshot
from ..engine.rounds import Round, Server, Strategy
from ..games.estimate import Estimate
from ..games.game import Game
from ..judge.registry import SCORES, by_name
from ..judge.watch import Watch
from ..parse.checks import alongside, choice, home, instance, reals, refusal, shown
from ..parse.ids import client_ids
from ..parse.metric import Metric, check_metric
from ..parse.records import all_clients, by_number, flat, in_order_of_rounds, opened
from ..streams import stream
from .fit import labels_for, output_count

if TYPE_CHECKING:
    import pandas

Recorded = Mapping[str, Any] | Tensor | np.ndarray | str | os.PathLike[str]
Method = Strategy | Callable[[Game], Estimate]
# Float masks are longer than an update by more than this factor.
MASKED = 100
ROUND_FILE = re.compile(r"[^.].*\.(npz|npy|pt|pth)", re.IGNORECASE)


def records(path: str | os.PathLike[str]) -> list[Path]:
    """The files of recorded rounds in a folder, in the order of the rounds' numbers.

    path     a folder; its .npz, .npy and .pt files with a number in their names are the rounds, so
             round_2.npz comes before round_10.npz, and server.npz is none. Or one such file
    returns  paths, which ``fm.score`` opens one after another
    raises   ValueError if there are no such files
    """
    place = home(instance("path", path, str | os.PathLike, "a folder"))  # type: ignore[arg-type]
    if place.is_file():
        return [place]
    found = [file for file in place.glob("*[0-9]*.*") if ROUND_FILE.fullmatch(file.name)]
    if not found:
        raise ValueError(f"path: expected a folder with files such as round_1.npz, got {place}")
    return sorted(found, key=lambda file: by_number(file.name))


def score(
    updates: Iterable[Recorded],
    *,
    net: Model,
    validation: tuple[Any, Any] | None = None,
    methods: Sequence[Method | str] | Mapping[str, Method | str],
    theta: Any = None,
    clients: Sequence[Hashable] | None = None,
    metric: Metric = "loss",
    per: str = "record",
    seed: int = 0,
) -> pandas.DataFrame:
    """The score of each client by each method, from rounds that some system has recorded.

    updates     one record per round, read one after another: an array [m, P] of clients 0..m-1; a
                mapping, see below; or the path of an .npz, .npy or .pt file that holds one of
                these. ``fm.records(folder)`` gives the files of a folder in their order
    net         the model, ``fm.Model(module)``; validation: the server's samples (x, y), which
                some methods, such as ``fm.CGSV()``, do not need
    methods     strategies such as ``fm.CGSV()``, which watch the rounds and change nothing;
                functions of a round's game such as ``fm.exact``, or of (round, server) -> [m],
                averaged over all rounds (a round without the client counts 0); names such as
                "leave one out" or "Shapley, silent" (the error for an unknown one lists all). A
                mapping {name: method} names the columns. Your own methods get copies, so they
                cannot change what other methods see
    theta       the model before round 1, if the records do not hold it
    clients     every client's id, whole numbers or names; needed if ``updates`` can be read only
                once, e.g. a generator
    metric      of the rounds' games that functions value, as in ``fm.round_game``; strategies have
                their own metric
    per         "record": means over all rounds; "round": means over the client's own rounds.
                Scores that are not means over rounds, such as CGSV's weights, do not change

    Keys of a record: ``updates`` [m, P], local minus global parameters, or ``models`` [m, P], the
    local parameters themselves; ``clients`` [m] ids, default 0..m-1; ``sizes`` [m] samples, default
    equal; ``theta`` [P], the model before the round, by default the result of federated averaging
    in the previous round; ``t``, which must increase. A vector [P] may also be a state dict, a
    module, or a list of arrays in the order of ``net.shapes`` or of all in ``state_dict()``.
    [m, P] may also be a list of m of these, or a state dict of stacks [m, ...]. A round without
    rows, in which no client replied, changes no score.

    returns     a frame with one row per client and one column per method; higher is a larger
                contribution. The last column, ``rounds``, counts the client's rounds
    raises      TypeError or ValueError naming the record, its file and its key. A client whose
                update, or its square in the update's type, is not finite is left out of that round,
                with a warning. Of several methods, one that fails has NaN in its column, and a
                warning says why
    """
    # Copies, here and in the records, because a generator may overwrite a round with the next.
    net = snapshot(instance("net", net, Model, "fm.Model(module)"))
    samples, classes = (ABSENT, 0) if validation is None else _samples(validation, net)
    like = torch.empty(0) if validation is None else samples[0]
    check_metric("metric", metric)
    choice("per", per, ("record", "round"))
    named_methods = by_name(methods, SCORES)
    if "rounds" in named_methods:
        raise ValueError('methods: expected other names than "rounds", a column of the table')
    # Called now, so that a bad seed raises an error before the first round.
    stream(seed, "scores")
    if isinstance(updates, list | tuple):
        in_order_of_rounds(updates)
    ids = all_clients(updates) if clients is None else client_ids("clients", clients)
    places = {client: row for row, client in enumerate(ids)}
    if len(places) != len(ids) or not ids:
        raise refusal("clients", "distinct ids, at least one", clients)
    server = Server(len(ids), classes, net, samples, seed)
    spare = len(named_methods) > 1 and validation is not None
    watch = Watch(named_methods, server, metric, spare=spare)
    model = None if theta is None else flat(net, "theta", theta).to(like, copy=True)
    t, last_number = 0, -1
    # One record at a time: a long history needs no more memory than a round.
    for entry in updates:
        t += 1
        with opened(entry, t - 1) as record:
            last_number = record.number(last_number)
            model = record.theta(net, model, like)
            if model is None:  # nobody replied yet
                continue
            this = Round(t, model, *record.of_round(t, net, model, places))
        _warn_of_masks(this, ids)
        model = watch(this)
        del this, record, entry  # before the next round is read
    if not t:
        raise ValueError("updates: expected at least one round, got none")
    if len(watch.failed) == len(named_methods):
        raise next(iter(watch.failed.values()))
    for name, error in watch.failed.items():
        message = f"methods: {name} fails, so its column is empty: {error}"
        warnings.warn(message, stacklevel=2)
    found = watch.scores(by_round=per == "round") | {"rounds": watch.present}
    import pandas  # here, since it takes a second to import

    columns = {name: values.numpy() for name, values in found.items()}
    return pandas.DataFrame(columns, index=pandas.Index(ids, name="client"))


def _warn_of_masks(this: Round, ids: Sequence[Hashable]) -> None:
    lengths = torch.linalg.vector_norm(this.updates, dim=1, dtype=torch.float64).cpu()
    if said := masked(lengths, [ids[client] for client in this.clients.tolist()]):
        warnings.warn(f"round {this.t}: {said}", stacklevel=3)


def masked(lengths: Tensor, names: Sequence[Hashable]) -> str:
    """Whose update is far longer than the median one, as by a mask or an attack; "" for nobody."""
    usual = lengths.median() if len(lengths) else 0
    far = list(itertools.compress(names, lengths > MASKED * usual))
    if not far or usual == 0:
        return ""
    return (
        f"the updates of {shown(far)} are over {MASKED} times as long as the median one; "
        "if they are masked, no score of this round means anything"
    )


def _samples(validation: Any, net: Model) -> tuple[tuple[Tensor, Tensor], int]:
    """The server's samples, and their number of classes, 0 if the labels are numbers."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise refusal("validation", "a pair (x, y)", validation, TypeError)
    inputs = reals("validation[0]", validation[0], ["N", "..."])
    given = alongside("validation[1]", validation[1], validation[0])
    count = output_count(net, inputs)
    labels = labels_for(net, "validation[1]", given, inputs, count)
    return (inputs.clone(), labels.clone()), 0 if labels.is_floating_point() else count


class Absent(tuple[Tensor, Tensor]):
    """A placeholder for missing samples, which raises an error when a method reads it."""

    def __iter__(self) -> NoReturn:
        raise ValueError(
            "validation: a method reads the server's samples; give validation=(x, y), or only "
            "methods that need none, such as fm.CGSV()"
        )

    def __getitem__(self, index: object) -> NoReturn:
        self.__iter__()


ABSENT = Absent()
