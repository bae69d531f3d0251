"""Compare: any method beside all others, on the same federations, under the truth's own noise.

    python -m fedlab_bench compare                                 the book's methods, on digits
    python -m fedlab_bench compare --method my_module:MyScore      and yours

Chapter 10 reads it. cell: one scenario and seed; scenarios; methods; judge: what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import joblib

from fedlab_mini import checks
from fedlab_mini.engine import progress
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.sweep import spread
from fedlab_mini.streams import one_thread

from ..registry import Method
from ..registry import Retrained as Retrained
from .cell import LOCAL, ROUNDS, cell
from .files import COLUMNS, cell_paths, read_cell, write_cell
from .methods import METHODS as METHODS
from .methods import watchable
from .scenarios import SAMPLES as SAMPLES
from .scenarios import SCENARIOS as SCENARIOS

if TYPE_CHECKING:
    import pandas


def compare(
    methods: Mapping[str, Method] | Sequence[Method] | None = None,
    scenarios: Iterable[str] | Mapping[str, Callable[..., Any]] | None = None,
    seeds: Iterable[int] = range(10),
    *,
    data: str = "digits",
    rounds: int = ROUNDS,
    local: LocalSGD | None = None,
    metric: str = "loss",
    folder: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> pandas.DataFrame:
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
    raises     TypeError or ValueError naming the argument, or a file of ``folder`` that is damaged
    """
    import pandas  # here, since it takes a second to import

    chosen = watchable(METHODS if methods is None else methods)
    makers = _scenarios(scenarios)
    checks.choice("data", data, tuple(SAMPLES))
    checks.choice("metric", metric, ("accuracy", "loss"))
    local = checks.instance(
        "local", LOCAL if local is None else local, LocalSGD, "fm.LocalSGD()"
    )
    setting = {"rounds": checks.whole("rounds", rounds), "local": local, "metric": metric}
    cells = [(seed, scenario) for seed in _seeds(seeds) for scenario in makers]
    paths = cell_paths(folder, cells, makers, data, setting, chosen)
    frames = {key: read_cell(path, *key) for key, path in paths.items() if path.is_file()}
    missing = [seed_and_name for seed_and_name in cells if seed_and_name not in frames]
    tasks = (
        joblib.delayed(_frame)(chosen, data, setting, seed, scenario, makers[scenario])
        for seed, scenario in missing
    )
    with progress.bar(None, "cells", len(cells), len(frames)) as progress_bar:
        for frame in spread(tasks, n_jobs, ordered=False):
            seed_and_name = int(frame.seed[0]), frame.scenario[0]
            frames[seed_and_name] = frame
            if seed_and_name in paths:
                write_cell(paths[seed_and_name], frame)
            progress_bar.update()
    # Cells end in any order; the table keeps the one that was asked for.
    return pandas.concat(
        [frames[seed_and_name] for seed_and_name in cells], ignore_index=True
    )


def _frame(
    methods: Mapping[str, Any],
    data: str,
    setting: Mapping[str, Any],
    seed: int,
    scenario: str,
    make: Callable[..., Any],
) -> pandas.DataFrame:
    """The rows of one cell as a table."""
    import pandas

    with one_thread():
        measured = list(cell(methods, scenario, make, data, seed, **setting))
    return pandas.DataFrame([(seed, scenario, *row) for row in measured], columns=COLUMNS)


def compared_frame(frame: Any) -> pandas.DataFrame:
    """A table that ``compare`` returned; TypeError or ValueError for any other thing."""
    import pandas

    checks.instance("frame", frame, pandas.DataFrame, "the table that fb.compare returns")
    if lacking := set(COLUMNS) - set(frame):
        raise ValueError(
            f"frame: expected what fb.compare returns, lacks {sorted(lacking)}"
        )
    return frame


def _list(name: str, value: Any, such_as: str) -> list[Any]:
    message = f"{name}: expected such as {such_as}, got {checks.shown(value)}"
    if isinstance(value, str | bytes):
        raise TypeError(message)
    try:
        return list(value)
    except (TypeError, RuntimeError):  # a nested tensor has no length
        raise TypeError(message) from None


def _seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, Mapping):
        raise TypeError(f"seeds: expected such as range(10), got {checks.shown(seeds)}")
    numbers = [
        checks.whole("seeds", seed, 0) for seed in _list("seeds", seeds, "range(10)")
    ]
    if not numbers or len(set(numbers)) != len(numbers):
        shown = checks.shown(numbers)
        raise ValueError(
            f"seeds: expected different whole numbers, at least one, got {shown}"
        )
    return numbers


def _scenarios(scenarios: Any) -> dict[str, Callable[..., Any]]:
    if isinstance(scenarios, Mapping):
        if not scenarios or not all(map(callable, scenarios.values())):
            wanted = "{name: function (data, seed) -> (fed, net)}"
            raise TypeError(
                f"scenarios: expected {wanted}, got {checks.shown(scenarios)}"
            )
        # The name stands in the table and in the file's name, so it must be a text.
        return {
            checks.text("scenarios", scenario): scenarios[scenario]
            for scenario in scenarios
        }
    wanted = "['alike'] or {name: function}"
    names = (
        list(SCENARIOS) if scenarios is None else _list("scenarios", scenarios, wanted)
    )
    if not names:
        raise ValueError("scenarios: expected at least one name")
    known = tuple(SCENARIOS)
    return {
        checks.choice("scenarios", scenario, known): SCENARIOS[scenario]
        for scenario in names
    }
