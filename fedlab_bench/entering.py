"""Entering: a Python score watches the bench's rounds and becomes a submission."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from fedlab_mini.engine import progress
from fedlab_mini.judge.watch import Watch
from fedlab_mini.streams import one_thread

from .compared import Method, Retrained, watchable, watcher
from .recording import Recorded, recorded
from .submission import Submission
from .truth import cells_of
from .worlds import TWIN, WORLDS, chosen

EIGHT = (  # for a first look: each kind of question once
    *("sizes", TWIN, "even Dirichlet 0.5", "wrong labels", "wrong labels, Dirichlet 0.5"),
    *("noisy inputs", "validation 50", "attack: scale x4"),
)


def entered(
    methods: Mapping[str, Any], scenarios: Iterable[str] = EIGHT, seeds: Iterable[int] = range(10)
) -> list[Submission]:
    """The scores of each method for the recorded rounds of each scenario and seed.

    methods  {name: a strategy, a function of a round's game, or of (round, server)}
    scenarios  by name; an attack also adds the world that it is compared with
    seeds    seeds that a scenario does not have are left out
    raises   ValueError for an unknown scenario, or if no scenario has such seeds; TypeError for a
             method that cannot watch rounds; or what a method raises
    """
    methods = watchable(methods)
    if trainers := [name for name in methods if isinstance(methods[name], Retrained)]:
        raise TypeError(f"methods: {trainers[0]} trains itself; expected a score of rounds")
    worlds = chosen(scenarios)
    for world in [world for world in worlds.values() if world.truth is None]:
        worlds.setdefault(world.beside, WORLDS[world.beside])
    return scored(methods, cells_of(worlds, seeds))


def scored(methods: Mapping[str, Method], cells: Iterable[tuple[str, int]]) -> list[Submission]:
    """The scores of each method for the recorded rounds of these worlds and seeds."""
    found: dict[str, dict[tuple[str, int], torch.Tensor]] = {name: {} for name in methods}
    for name, seed in progress.bar([*cells], "scenarios"):
        seen = recorded(WORLDS[name], seed)
        # Scores draw with the seed of ``fm.score``, so that they equal its table.
        seen = replace(seen, server=replace(seen.server, seed=0))
        with one_thread():
            scores = watched(seen, methods).scores()
        for method in methods:
            found[method][name, seed] = scores[method]
    return [Submission(found[name], {"name": name}) for name in methods]


def watched(seen: Recorded, methods: Mapping[str, Method]) -> Watch:
    """Show a training run to all methods that do not train themselves."""
    strategies = {
        name: watcher(method)
        for name, method in methods.items()
        if not isinstance(method, Retrained)
    }
    watch = Watch(strategies, seen.server)
    for one in seen.rounds:
        watch(one)
    return watch
