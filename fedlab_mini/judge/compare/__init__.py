"""Compare: any method beside all others, on the same federations, under the truth's own noise.

    python -m fedlab_mini compare                                 the book's methods, on digits
    python -m fedlab_mini compare --method my_module:MyScore      and yours

Chapter 10 reads it. cell: one scenario and seed; scenarios; methods; judge: what is measured.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from ... import checks
from ...engine import checkpoint as files
from ...engine import progress
from ...engine.local import LocalSGD
from ...engine.model import one_thread
from ...engine.sweep import spread
from .cell import CEILING, LOCAL, ROUNDS, cell
from .methods import METHODS, Method, Retrained, named
from .scenarios import SAMPLES, SCENARIOS

__all__ = [
    "CEILING",
    "METHODS",
    "SAMPLES",
    "SCENARIOS",
    "Method",
    "Retrained",
    "cell",
    "compare",
]
COLUMNS = ["seed", "scenario", "method", "metric", "value"]


def compare(
    methods: Mapping[str, Method] | Sequence[Method] | None = None,
    scenarios: Iterable[str] | Mapping[str, Callable] | None = None,
    seeds: Iterable[int] = range(10),
    *,
    data: str = "digits",
    rounds: int = ROUNDS,
    local: LocalSGD | None = None,
    metric: str = "loss",
    folder: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Every method on every scenario and seed, judged against retraining; a long table.

    methods    {name: method} or a list; default: ``compare.METHODS``. A method is a strategy, which
               watches federated averaging; a function of a round's ``Game`` that returns an
               ``Estimate``; a function (round, server) -> worth of its updates [m]; or
               ``Retrained``
    scenarios  names out of ``SCENARIOS``, or {name: function (data, seed) -> (fed, net)};
               default: all nine
    data       "digits", "mnist5k", "sms-synthetic"; rounds, local: of every training
    metric     of the games: "loss" or "accuracy"
    folder     where finished cells are kept, a file each: an interrupted run goes on
    n_jobs     cells side by side, through joblib: a backend set by ``joblib.parallel_config`` is
               used

    returns    columns seed, scenario, method, metric, value. The method "(the truth itself)" holds
               the ceiling: how far the exact values of two trainings agree
    raises     TypeError or ValueError naming the argument
    """
    chosen = named(METHODS if methods is None else methods)
    places = _scenarios(scenarios)
    numbers = _seeds(seeds)
    checks.choice("data", data, tuple(SAMPLES))
    checks.choice("metric", metric, ("accuracy", "loss"))
    local = LOCAL if local is None else local
    checks.instance("local", local, LocalSGD, "fm.LocalSGD()")
    if folder is not None:
        checks.instance("folder", folder, (str, os.PathLike), "a path")  # type: ignore[arg-type]
    setting = {"rounds": checks.whole("rounds", rounds), "local": local, "metric": metric}
    mark = files.fingerprint("compare", data, setting, chosen)
    cells = [(seed, name) for seed in numbers for name in places]
    paths = {c: None if folder is None else _path(folder, mark, *c) for c in cells}
    parts = {c: pd.read_csv(p) for c, p in paths.items() if p is not None and p.is_file()}
    tasks = (
        joblib.delayed(_cell)(chosen, seed, name, places[name], data, setting)
        for seed, name in cells
        if (seed, name) not in parts
    )
    with progress.bar(None, "cells", len(cells), len(parts)) as seen:
        for part in spread(tasks, n_jobs, ordered=False):
            where = part.seed[0], part.scenario[0]
            parts[where] = part
            if (path := paths[where]) is not None:
                with files.whole_file(path) as whole:
                    part.to_csv(whole, index=False)
            seen.update()
    return pd.concat([parts[c] for c in cells], ignore_index=True)


def _cell(
    methods: Mapping[str, Method],
    seed: int,
    name: str,
    make: Callable,
    data: str,
    setting: Mapping[str, Any],
) -> pd.DataFrame:
    with one_thread():
        rows = [(seed, name, *row) for row in cell(methods, name, make, data, seed, **setting)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _path(folder: str | os.PathLike, mark: str, seed: int, name: str) -> Path:
    word = hashlib.sha256(f"{mark} {name}".encode()).hexdigest()[:16]
    return Path(folder) / f"{word}-{seed}.csv"


def _listed(name: str, given: Any, such_as: str) -> list:
    try:
        if isinstance(given, str | bytes):
            raise TypeError
        return list(given)
    except TypeError:
        shown = checks.shown(given)
        raise TypeError(f"{name}: expected such as {such_as}, got {shown}") from None


def _seeds(given: Any) -> list[int]:
    if isinstance(given, Mapping):
        raise TypeError(f"seeds: expected such as range(10), got {checks.shown(given)}")
    found = [checks.whole("seeds", seed, 0) for seed in _listed("seeds", given, "range(10)")]
    if not found or len(set(found)) != len(found):
        raise ValueError(f"seeds: expected different whole numbers, at least one, got {found}")
    return found


def _scenarios(given: Any) -> dict[str, Callable]:
    if isinstance(given, Mapping):
        if not given or not all(map(callable, given.values())):
            asked = "scenarios: expected {name: function (data, seed) -> (fed, net)}"
            raise TypeError(f"{asked}, got {checks.shown(given)}")
        return {checks.text("scenarios", name): make for name, make in given.items()}
    wanted = SCENARIOS if given is None else given
    names = _listed("scenarios", wanted, "['alike'] or {name: function}")
    for name in names:
        checks.choice("scenarios", name, tuple(SCENARIOS))
    if not names:
        raise ValueError("scenarios: expected at least one name")
    return {name: SCENARIOS[name] for name in names}
