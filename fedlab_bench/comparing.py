"""Comparing: compare any method with all others, on federations that are frozen, then judged.

    python -m fedlab_bench compare                               # the book's methods
    python -m fedlab_bench compare --method my_module:MyScore    # yours beside them

Chapter 10 uses it. Reference values, rounds and judgement come from other modules of the
bench. This module adds what scores do not show: a method's cost, stability and effect in use.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import torch
from torch import Tensor

from fedlab_mini import __version__
from fedlab_mini.engine import progress
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.rounds import Round, Server, State, Strategy
from fedlab_mini.engine.sweep import spread
from fedlab_mini.games import round_tables
from fedlab_mini.gate.games import retraining_game
from fedlab_mini.gate.methods import contribution_index
from fedlab_mini.gate.training import train
from fedlab_mini.judge.metrics import kendall
from fedlab_mini.judge.watch import Watch
from fedlab_mini.keep.files import Cache
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.parse import checks
from fedlab_mini.parse.metric import Metric
from fedlab_mini.streams import one_thread

from .compared import CEILING, METHODS, Method, Retrained, watchable
from .dealing import SAMPLES, SCENARIOS, resampled
from .entering import watched
from .judging import COLUMNS, against, ceiling
from .measures import removal
from .recording import AGAIN, IN_USE, RECORDED, Recorded, luck, recorded
from .truth import trained, values_of
from .worlds import DRAWN, LOCAL, ROUNDS, WORLDS, World

if TYPE_CHECKING:
    import pandas

Rows = Iterator[tuple[str, str, float]]


def compare(
    methods: Mapping[str, Method] | Sequence[Method] | None = None,
    scenarios: Iterable[str] | Mapping[str, Callable[..., Any]] | None = None,
    seeds: Iterable[int] = range(10),
    *,
    data: str = "digits",
    rounds: int = ROUNDS,
    local: LocalSGD | None = None,
    metric: Metric = "loss",
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> pandas.DataFrame:
    """Judge every method on every scenario and seed against retraining; returns a long table.

    methods    {name: method} or a list; default: ``fb.METHODS``. A method is a strategy, which
               watches federated averaging; a function of a round's ``Game`` that returns an
               ``Estimate``; a function (round, server) -> value of its updates [m]; or
               ``Retrained``
    scenarios  names from ``fb.SCENARIOS``, or {name: function (data, seed) -> (fed, net)};
               default: all nine. The value of a coalition is measured on the federation's test
               samples, which no server sees. Clients of less use are the corrupted clients
    data       "digits", "mnist5k" or "sms-synthetic"; rounds, local: for every run
    metric     of the values, as in ``fm.retraining_game``
    cache      folder for finished cells, so that an interrupted run can continue
    n_jobs     how many cells run in parallel, through joblib; ``joblib.parallel_config`` can set
               the backend

    returns    columns seed, scenario, method, metric, value. The method `(the truth itself)` holds
               the ceiling: how well the exact values of two training runs agree
    raises     TypeError or ValueError naming the argument, or a file of ``cache`` that is damaged
    """
    import pandas  # here, since it takes a second to import

    chosen = watchable(METHODS if methods is None else methods)
    source, n_jobs = checks.choice("data", data, tuple(SAMPLES)), checks.processes("n_jobs", n_jobs)
    given = {"rounds": rounds, "local": LOCAL if local is None else local, "metric": metric}
    setting: dict[str, Any] = {"source": source, **given}
    worlds = {name: replace(one, **setting) for name, one in _worlds(scenarios).items()}
    cells = [(seed, scenario) for seed in _seeds(seeds) for scenario in worlds]
    folders = {}
    if cache is not None:
        # The key includes the functions, because a scenario may change but keep its name.
        folders = {
            name: Cache(cache, (__version__, name, world.make, setting, chosen))
            for name, world in worlds.items()
        }
    found = {key: rows for key in cells if (rows := _kept(folders, *key)) is not None}
    missing = [key for key in cells if key not in found]
    tasks = (joblib.delayed(_cell)(seed, name, worlds[name], chosen) for seed, name in missing)
    with progress.bar(None, "cells", len(cells), len(found), delay=0) as progress_bar:
        for seed, name, rows in spread(tasks, n_jobs, ordered=False):
            found[seed, name] = rows
            if name in folders:
                folders[name].save(_arrays(rows), torch.tensor(seed))
            progress_bar.update()
    # Cells finish in any order, but the table has the order of the arguments.
    table = [(*key, *row) for key in cells for row in found[key]]
    return pandas.DataFrame(table, columns=COLUMNS)


def _cell(
    seed: int, name: str, world: World, methods: Mapping[str, Method]
) -> tuple[int, str, list[Any]]:
    with one_thread():
        return seed, name, list(cell(world, seed, methods))


def _kept(folders: Mapping[str, Cache], seed: int, name: str) -> list[Any] | None:
    arrays = folders[name].load(torch.tensor(seed)) if name in folders else None
    if arrays is None:
        return None
    columns = (arrays[part].tolist() for part in ("method", "metric", "value"))
    return list(zip(*columns, strict=True))


def _arrays(rows: Sequence[tuple[str, str, float]]) -> dict[str, np.ndarray]:
    columns = zip(*rows, strict=True)
    return dict(zip(("method", "metric", "value"), map(np.array, columns), strict=True))


def cell(world: World, seed: int, methods: Mapping[str, Method]) -> Rows:
    """Rows (method, metric, value) of one world and seed: the ceiling, then each method's.

    The reference values are the exact values of retraining, for two seeds of training; their
    agreement is the ceiling. Methods see the rounds of a third training run: unchanged, with the
    validation samples drawn again, from another run, and with a plain mean as the aggregate
    """
    table = trained(world, seed)
    values, worse = values_of(world, table), world.worse(seed)
    yield from ((CEILING, *measured) for measured in ceiling(values, worse))
    # [2, 2^K] -> [2^K]: removal uses the mean of both training runs
    worth = torch.from_numpy(table).double().mean(0)
    fed, net = world.made(seed)
    rounds, lot = recorded(world, seed), luck(seed, RECORDED)
    watch = watched(rounds, methods)
    said, again = watch.scores(), said_again(world, seed, rounds, methods)
    game = retraining_game(fed, net, world.rounds, world.local, world.metric, lot)
    plain = in_use(world, seed, FedAvg())
    for name, method in methods.items():
        if isinstance(method, Retrained):
            # All these methods share one game, so no training is done twice.
            start = time.process_time()
            estimate = method.estimator(game)
            scores, epochs = estimate.values, estimate.client_epochs
            seconds = time.process_time() - start
        else:
            scores, epochs = said[name], world.rounds * fed.clients * world.local.epochs
            seconds = world.rounds * seconds_a_round(watch, name, rounds.rounds[-1])
            yield name, "evaluations a round", watch.evaluated[name] / world.rounds
            for how, other in again.items():
                yield name, f"stability, {how}", kendall(scores, other[name])
        yield name, "client epochs", epochs
        yield name, "seconds", seconds
        yield from ((name, *measured) for measured in against(scores, values, worse))
        yield from ((name, *measured) for measured in removal(scores, worth, seed))
        weights = FixedWeights(client_weights=tuple(contribution_index(scores).tolist()))
        # The same seed as that of the plain run, so that only the weights differ.
        gained = in_use(world, seed, weights) - plain
        if not math.isnan(gained):  # it is NaN without classes
            yield name, "accuracy gained by weights", gained


def said_again(
    world: World, seed: int, seen: Recorded, methods: Mapping[str, Method]
) -> dict[str, dict[str, Tensor]]:
    """Scores on other validation samples, in another training run, and with a plain mean."""
    samples = resampled(world.made(seed)[0], seed).validation
    redrawn = replace(seen, server=replace(seen.server, validation=samples))
    others = {
        "validation draw": redrawn,
        "training": recorded(world, seed, AGAIN),
        "aggregation": recorded(world, seed, weighting="uniform"),
    }
    return {how: watched(other, methods).scores() for how, other in others.items()}


def seconds_a_round(watch: Watch, name: str, last: Round) -> float:
    """CPU seconds per round for a method alone, with an empty table: the least of 3."""
    strategy, server = watch.strategies[name], watch.servers[name]
    found = []
    for _ in range(3):
        state = strategy.init(server)
        # Otherwise earlier methods would have computed the round's table already.
        round_tables.forget(last)
        with one_thread():
            start = time.process_time()
            strategy.step(server, state, last)
            found.append(time.process_time() - start)
    return min(found)  # disturbances only make a measurement longer


def in_use(world: World, seed: int, strategy: Strategy) -> float:
    """Test accuracy of a training run under a strategy."""
    fed, net = world.made(seed)
    lot = luck(seed, IN_USE)
    done = train(fed, net, strategy, rounds=world.rounds, local=world.local, seed=lot)
    return float(done.accuracy[-1])


@dataclass(frozen=True, eq=False)
class FixedWeights(FedAvg):
    """Federated averaging with one fixed weight per client."""

    client_weights: tuple[float, ...] = ()

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """The fixed weights of the round's clients, scaled to sum 1, [m]; equal if all are 0."""
        weights = torch.tensor(self.client_weights, dtype=torch.float64)[round.clients]
        total = weights.sum()
        shares = weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))
        return shares.to(round.updates)


def _list(name: str, value: Any, such_as: str) -> list[Any]:
    with contextlib.suppress(TypeError, RuntimeError):  # a nested tensor has no length
        if not isinstance(value, str | bytes | Mapping):
            return list(value)
    raise TypeError(f"{name}: expected such as {such_as}, got {checks.shown(value)}")


def _seeds(seeds: Any) -> list[int]:
    numbers = [checks.whole("seeds", seed, 0) for seed in _list("seeds", seeds, "range(10)")]
    if not numbers or len(set(numbers)) != len(numbers):
        shown = checks.shown(numbers)
        raise ValueError(f"seeds: expected different whole numbers, at least one, got {shown}")
    return numbers


def _worlds(scenarios: Any) -> dict[str, World]:
    if isinstance(scenarios, Mapping):
        if not scenarios or not all(map(callable, scenarios.values())):
            wanted = "{name: function (data, seed) -> (fed, net)}"
            raise TypeError(f"scenarios: expected {wanted}, got {checks.shown(scenarios)}")
        return {
            checks.text("scenarios", name): World(make, name, bad=DRAWN)
            for name, make in scenarios.items()
        }
    wanted = "['alike'] or {name: function}"
    names = list(SCENARIOS) if scenarios is None else _list("scenarios", scenarios, wanted)
    if not names:
        raise ValueError("scenarios: expected at least one name")
    known = tuple(SCENARIOS)
    return {checks.choice("scenarios", name, known): WORLDS[name] for name in names}
