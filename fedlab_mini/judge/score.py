"""Score: recorded rounds of anybody's system in, a table of scores out; nothing is trained.

The page "Bring your own" shows it. Below: games, rounds. ``python -m fedlab_mini score`` above.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import warnings
import zipfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..checks import array, choice, dims, distinct_ids, instance, reals, shown, wholes
from ..engine.local import finite_rows
from ..engine.model import Model
from ..engine.rounds import Round, Server, Strategy
from ..games.game import Game
from ..games.shapley import Estimate
from ..games.training_games import round_game
from ..streams import stream

KEYS = ("t", "theta", "updates", "models", "clients", "sizes")
Record = Mapping[str, Any] | Tensor | np.ndarray | str | os.PathLike
Method = Strategy | Callable[[Game], Estimate]


def score(
    updates: Iterable[Record],
    *,
    net: Model,
    validation: tuple[Any, Any],
    methods: Sequence[Method] | Mapping[str, Method],
    theta: Any = None,
    clients: Sequence[Hashable] | None = None,
    metric: str = "accuracy",
    seed: int = 0,
) -> pd.DataFrame:
    """What each method says of each client, from rounds that some system has recorded.

    updates     one record a round, read one after another: an array [m, P] of clients 0..m-1; a
                mapping, see below; or the path of an .npz file that holds one
    net         the model, ``fm.Model(module)``; validation: the server's samples (x, y)
    methods     strategies such as ``fm.CGSV()``, which watch the rounds and change nothing, and
                functions of a round's game such as ``fm.exact``, averaged over all rounds: a round
                without the client counts 0. A mapping {name: method} names the columns
    theta       the model before round 1, if the records do not hold it
    clients     every client's id, whole numbers or names; needed where ``updates`` can be read only
                once, e.g. a generator
    metric      of the rounds' games: "accuracy", or "loss" (worth is then minus the loss)

    Keys of a record: ``updates`` [m, P], local minus global parameters, or ``models`` [m, P], the
    local parameters themselves; ``clients`` [m] ids, default 0..m-1; ``sizes`` [m] samples, default
    equal; ``theta`` [P], the model before the round, default: where federated averaging of the
    round before it ends; ``t``, which must increase. Instead of a vector [P]: a state dict, or a
    list of arrays in the order of ``net.shapes``; instead of [m, P]: a list of m of these.

    returns     a frame, one row a client, one column a method; higher is a larger contribution
    raises      TypeError or ValueError naming the record and its key. A client whose update is not
                finite is left out of that round, with a warning
    """
    instance("net", net, Model, "fm.Model(module)")
    x, y = _samples(validation, net)
    choice("metric", metric, ("accuracy", "loss"))
    watching, playing = _methods(methods)
    stream(seed, "scores")  # refuses what is no seed
    ids = _all_clients(updates) if clients is None else _names("clients", clients)
    place = {client: k for k, client in enumerate(ids)}
    if len(place) != len(ids) or not ids:
        raise ValueError(f"clients: expected distinct ids, at least one, got {shown(clients)}")
    for strategy in watching.values():
        strategy.start(Server(len(ids), net.outputs(x), net, (x, y), seed))
    totals = {name: torch.zeros(len(ids), dtype=torch.float64) for name in playing}
    now, t, last = None if theta is None else flat(net, "theta", theta).to(x), 0, -1
    for record in updates:
        t += 1
        with _opened(record, t) as fields:
            last = _after(fields, last, t)
            this = _round(fields, net, now, place, t, x)
        if not len(this.clients):
            now = this.theta
            continue
        for strategy in watching.values():
            strategy.aggregate(this)
        for name, estimator in playing.items():
            found = estimator(
                round_game(net, this.theta, this.updates, x, y, metric=metric, weights=this.sizes)
            )
            totals[name][this.clients] += found.values
        now = this.theta + (this.sizes / this.sizes.sum()).to(x) @ this.updates
        del this, fields, record  # before the next round is read
    if not t:
        raise ValueError("updates: expected at least one round, got none")
    scores = {name: total / t for name, total in totals.items()}
    for name, strategy in watching.items():
        scores[name] = reals(f"{name}.scores", strategy.scores, [len(ids)]).cpu()
    order = [*_named(methods)]
    table = {name: scores[name].double().numpy() for name in order}
    return pd.DataFrame(table, index=pd.Index(ids, name="client"))


def flat(net: Model, name: str, value: Any) -> Tensor:
    """All parameters as one vector [P], from a vector, a state dict, or a list of arrays.

    Entries of a state dict that are no parameters of ``net`` are ignored
    """
    parts = value
    if isinstance(value, Mapping):
        lacking = [key for key in net.shapes if key not in value]
        if lacking:
            raise ValueError(f"{name}: lacks the parameters {', '.join(lacking)}")
        parts = [value[key] for key in net.shapes]
    elif not isinstance(value, list | tuple) or not any(np.ndim(part) for part in value):
        return reals(name, value, [net.P], finite=False)
    if len(parts) != len(net.shapes):
        wanted = ", ".join(f"{key} {dims(shape)}" for key, shape in net.shapes.items())
        raise ValueError(f"{name}: expected {len(net.shapes)} arrays, {wanted}, got {len(parts)}")
    named = zip(net.shapes.items(), parts, strict=True)
    found = [reals(f"{name}: {key}", part, shape, finite=False) for (key, shape), part in named]
    return torch.cat([part.flatten() for part in found])


def _samples(validation: Any, net: Model) -> tuple[Tensor, Tensor]:
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(f"validation: expected a pair (x, y), got {shown(validation)}")
    x = reals("validation[0]", validation[0], ["N", "..."])
    y = wholes("validation[1]", validation[1], [len(x)], 0, net.outputs(x) - 1)
    return x, y.to(x.device)


def _named(methods: Any) -> dict[str, Any]:
    if isinstance(methods, Mapping):
        return dict(methods)
    if not isinstance(methods, list | tuple):
        raise TypeError(f"methods: expected a list such as [fm.CGSV(), fm.exact], got {methods!r}")
    bare = [m.func if isinstance(m, functools.partial) else m for m in methods]
    names = [getattr(m, "__name__", type(m).__name__) for m in bare]
    if len(set(names)) != len(names):
        raise ValueError(f"methods: two of one name; write {{name: method}}, got {names}")
    return dict(zip(names, methods, strict=True))


def _methods(methods: Any) -> tuple[dict[str, Strategy], dict[str, Callable[[Game], Estimate]]]:
    """Strategies to watch, each a copy, and functions of a game; by name."""
    watching, playing = {}, {}
    for name, method in _named(methods).items():
        if isinstance(method, type):
            raise TypeError(f"methods: {name} is a class; write {method.__name__}()")
        if hasattr(method, "aggregate"):
            watching[name] = copy.deepcopy(method)
        elif callable(method):
            playing[name] = method
        else:
            raise TypeError(
                f"methods: {name}: expected a strategy or a function of a game, got {shown(method)}"
            )
    if not watching and not playing:
        raise ValueError("methods: expected at least one, such as [fm.CGSV(), fm.exact]")
    return watching, playing


@contextlib.contextmanager
def _opened(record: Any, t: int) -> Iterator[Mapping[str, Any]]:
    """A record as a mapping; a file stays open, its arrays unread, while it is used."""
    name = f"updates[{t - 1}]"
    if isinstance(record, str | os.PathLike):
        try:
            file = np.load(record, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{name}: cannot read {record} as an .npz file of numbers ({type(error).__name__})"
            ) from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError(f"{name}: {record} holds one array; save a round by np.savez")
        with file:
            yield file
    else:
        given = isinstance(record, Mapping)
        yield record if given else {"updates": array(name, record, ["m", "P"])}


def _all_clients(updates: Iterable[Record]) -> list[Hashable]:
    """Every id of the records; numbers in order, names as they come."""
    try:
        once = iter(updates) is updates
    except TypeError:
        once = None
    if once is None or isinstance(updates, Mapping | str | bytes):
        raise TypeError(f"updates: expected one record a round, got {shown(updates)}")
    if once:
        raise TypeError("clients: this iterator is read only once; name all clients, clients=[...]")
    found: dict[Hashable, None] = {}
    for t, record in enumerate(updates, 1):
        with _opened(record, t) as fields:
            found.update(dict.fromkeys(_ids(fields, t)))
    numbers = all(isinstance(client, int) for client in found)
    return sorted(found) if numbers else list(found)  # type: ignore[type-var]


def _ids(fields: Mapping[str, Any], t: int) -> list[Hashable]:
    """The ids of a round's rows, as Python's numbers and words."""
    if unknown := [key for key in fields if key not in KEYS]:
        raise ValueError(f"updates[{t - 1}]: unknown keys {unknown}; known are {', '.join(KEYS)}")
    if ("updates" in fields) == ("models" in fields):
        raise ValueError(f"updates[{t - 1}]: expected either updates or models, got {[*fields]}")
    if "clients" in fields:
        return _names(f"updates[{t - 1}]: clients", fields["clients"])
    rows = fields["updates" if "updates" in fields else "models"]
    if not isinstance(rows, list | tuple):
        rows = array(f"updates[{t - 1}]: rows", rows, ["m", "P"])
    return list(range(len(rows)))


def _names(name: str, value: Any) -> list[Hashable]:
    """Client ids as Python's numbers and words."""
    try:
        ids = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        ids = np.array(None)
    if ids.ndim != 1 or ids.dtype.kind not in "iuUS":
        raise TypeError(f"{name}: expected ids [m], numbers or words, got {shown(value)}")
    return ids.tolist()


def _after(fields: Mapping[str, Any], last: int, t: int) -> int:
    """The record's own number, which must be above the last one's."""
    if "t" not in fields:
        return last
    found = int(wholes(f"updates[{t - 1}]: t", np.atleast_1d(fields["t"]), [1])[0])
    if found <= last:
        raise ValueError(
            f"updates[{t - 1}]: t: {found} after {last}; give the rounds in their order"
        )
    return found


def _round(
    fields: Mapping[str, Any],
    net: Model,
    theta: Tensor | None,
    place: Mapping[Hashable, int],
    t: int,
    like: Tensor,
) -> Round:
    """One record as a ``Round``, ids as places in the table; broken updates are missing."""
    names = _ids(fields, t)
    if unknown := [name for name in names if name not in place]:
        raise ValueError(f"updates[{t - 1}]: {unknown} are not among the clients named")
    ids = distinct_ids(f"updates[{t - 1}]: clients", [place[name] for name in names], len(place))
    if "theta" in fields:
        theta = flat(net, f"updates[{t - 1}]: theta", fields["theta"]).to(like)
    if theta is None:
        raise ValueError("theta: the first round holds none; give theta=, the model before it")
    if not torch.isfinite(theta).all():
        raise ValueError(f"updates[{t - 1}]: theta: holds NaN or infinite values")
    key = "updates" if "updates" in fields else "models"
    rows = _rows(net, f"updates[{t - 1}]: {key}", fields[key], len(ids)).to(like)
    rows = rows - theta if key == "models" else rows
    sizes = wholes(
        f"updates[{t - 1}]: sizes", fields.get("sizes", [1] * len(ids)), [len(ids)], 1
    ).cpu()
    good = finite_rows(rows).cpu()
    if not good.all():
        bad = [names[row] for row in (~good).nonzero().flatten().tolist()]
        warnings.warn(f"round {t}: the update of {bad} is not finite; left out", stacklevel=3)
        rows = rows[good.to(rows.device)]  # a copy: only where it must be
    return Round(t, theta, ids[good], sizes[good], rows, ids[~good])


def _rows(net: Model, name: str, value: Any, m: int) -> Tensor:
    """Rows [m, P], from such an array or from a list of m sets of parameters."""
    if not isinstance(value, list | tuple):
        return reals(name, value, [m, net.P], finite=False)
    if len(value) != m:
        raise ValueError(f"{name}: expected one entry a client, {m}, got {len(value)}")
    rows = [flat(net, f"{name}[{i}]", item) for i, item in enumerate(value)]
    return torch.stack(rows) if rows else torch.empty(0, net.P)
