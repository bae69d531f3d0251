"""Entering: a Python score watches the bench's rounds and becomes a submission. Below: rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch

from fedlab_mini.engine import progress
from fedlab_mini.judge.score import score
from fedlab_mini.streams import one_thread

from .registry import watcher
from .rounds import recorded
from .submission import Submission
from .truth import cells_of
from .worlds import TWIN, WORLDS, chosen

EIGHT = (  # what a first look takes: every kind of question once
    *("sizes", TWIN, "even Dirichlet 0.5", "wrong labels", "wrong labels, Dirichlet 0.5"),
    *("noisy inputs", "validation 50", "attack: scale x4"),
)


def entered(
    methods: Mapping[str, Any],
    scenarios: Iterable[str] = EIGHT,
    seeds: Iterable[int] = range(10),
    notes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Submission]:
    """What each method says of the recorded rounds of each scenario and seed.

    methods  {name: a strategy, a function of a round's game, or of (round, server)}
    scenarios  by name; an attack brings the world that it is judged beside
    seeds    those of them that a scenario has
    notes    {name: {"sees": ..., "cost": ...}}, which go into the submission
    raises   ValueError for a scenario that is none and seeds of none, or what a method raises
    """
    worlds = chosen(scenarios)
    for world in [world for world in worlds.values() if world.truth is None]:
        worlds.setdefault(world.beside, WORLDS[world.beside])
    cells = cells_of(worlds, seeds)
    found: dict[str, dict[tuple[str, int], torch.Tensor]] = {name: {} for name in methods}
    for name, seed in progress.bar(cells, "scenarios"):
        rounds = recorded(worlds[name], seed)
        # A method each: one cannot touch what a rival sees of a round, nor be paid for its work.
        strategies = {method: watcher(maker) for method, maker in methods.items()}
        server = rounds.server
        look = partial(score, net=server.net, validation=server.validation, metric="loss")
        with one_thread():
            table = look(
                rounds.records, methods=strategies, clients=range(server.clients)
            )
        for method in methods:
            found[method][name, seed] = torch.tensor(table[method].to_numpy())
    said = notes or {}
    return [
        Submission(found[name], {"name": name, **said.get(name, {})}) for name in methods
    ]
