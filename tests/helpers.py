"""What tests of strategies and trainings share: rounds made by hand, attackers, comparisons."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, Step, copied
from fedlab_mini.worlds.attacks import UpdateAttack

ALL_CASES = bool(os.environ.get("FEDLAB_ALL_CASES"))


def each_value(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every value of each parameter once at least; with FEDLAB_ALL_CASES=1, all combinations."""
    if ALL_CASES:
        return list(itertools.product(*values))
    return [tuple(v[i % len(v)] for v in values) for i in range(max(map(len, values)))]


def with_all_cases(reason: str) -> pytest.MarkDecorator:
    """What only FEDLAB_ALL_CASES=1 runs, and why."""
    return pytest.mark.skipif(not ALL_CASES, reason=f"{reason}, with FEDLAB_ALL_CASES=1")


def numbers(*shape: int, seed: int) -> Tensor:
    """Gaussian numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def airport(costs: Sequence[float]) -> fm.Game:
    """v(S) = the longest runway that S needs; its users share every piece of it."""
    lengths = torch.tensor(costs, dtype=torch.float64)
    order = lengths.argsort()
    pieces = torch.diff(lengths[order], prepend=lengths.new_zeros(1))
    phi = torch.empty_like(lengths)
    phi[order] = (pieces / torch.arange(len(lengths), 0, -1)).cumsum(0)
    return fm.Game(len(lengths), lambda s: (s * lengths).amax(1), shapley=phi, name="airport")


def majority(votes: Sequence[int], quota: int) -> fm.Game:
    """v(S) = 1 if the votes of S reach the quota."""
    counts = torch.tensor(votes, dtype=torch.float64)
    return fm.Game(len(votes), lambda s: (s.double() @ counts >= quota).double(), name="majority")


class Played:
    """A strategy that is shown rounds by hand: its state, and the bill so far."""

    def __init__(self, strategy: Any, server: Server):
        self.strategy, self.server, self.evaluated = strategy, server, 0
        self.state = strategy.init(server)

    def step(self, round: Round) -> Step:
        done = self.strategy.step(self.server, copied(self.state), round)
        self.state, self.evaluated = done.state, self.evaluated + done.evaluated
        return done

    def select(self, t: int) -> Tensor:
        return self.strategy.select(self.server, self.state, t)

    @property
    def scores(self) -> Tensor:
        return self.strategy.scores(self.server, self.state)

    def __getitem__(self, name: str) -> Tensor:
        return self.state[name]


class Own(nn.Sequential):
    """Layers that are not known to be the book's own, so that nothing is made of them."""


def of_module(net: fm.Model, known: bool = False) -> fm.Model:
    """The same layers as a module of somebody's own, or as a perceptron that is known."""
    return fm.Model(net.module if known else Own(*net.module))


def a_round(
    updates,
    sizes=10,
    clients: Iterable[int] | None = None,
    *,
    t: int = 1,
    missing: Iterable[int] = (),
    theta: float | Tensor = 1.0,
    dtype: torch.dtype = torch.float64,
) -> Round:
    """A round with the given updates; by default of clients 0, 1, ... with ten samples each."""
    updates = torch.as_tensor(updates, dtype=dtype)
    ids = torch.arange(len(updates)) if clients is None else torch.tensor(list(clients))
    sizes = torch.as_tensor(sizes).expand(len(ids)).clone()
    start = torch.as_tensor(theta, dtype=dtype).expand(updates.shape[1]).clone()
    return Round(t, start, ids, sizes, updates, torch.tensor(list(missing), dtype=torch.long))


class Sends(UpdateAttack):
    """Sends one number in every place, or with ``alternating`` its negative in every second one."""

    def __init__(self, number: float, *, alternating: bool = False):
        self.number, self.alternating = number, alternating

    looks_around = False

    def sends(self, known):
        sent = torch.full_like(known.theta, self.number)
        if self.alternating:
            sent[1::2] *= -1
        return sent


def with_attacks(fed: fm.Federation, attacks: Mapping[int, UpdateAttack]) -> fm.Federation:
    """The same federation, with attackers in it."""
    return replace(fed, attacks=attacks)


def check_finite(history: fm.History) -> None:
    """No NaN and nothing infinite anywhere."""
    for values in (history.theta, history.scores, history.weights, history.loss):
        assert torch.isfinite(values).all()


def small_blocks(monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
    """Let simulations hand out this many runs at a time."""
    for most in ("RUNS", "WHOLE_RUNS"):
        monkeypatch.setattr(f"fedlab_mini.engine.sweep.{most}", runs)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Equal to the last bit."""
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()
