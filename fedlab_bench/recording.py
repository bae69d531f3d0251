"""Recording: one training run of the bench, as its server sees it, recorded round by round.

``fm.score`` reads these records, in memory or as .npz files. Builds on worlds and the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.gate.training import train
from fedlab_mini.keep.files import whole_file
from fedlab_mini.methods.defences import Median
from fedlab_mini.methods.fedavg import FedAvg, Weighting
from fedlab_mini.parse.checks import home
from fedlab_mini.streams import one_thread

from .worlds import World

# No two purposes share a training run; the bench has frozen results of the first three.
TRUTH, SECOND_TRUTH, RECORDED, AGAIN, IN_USE = range(5)
FROZEN, OTHERS = 3, 10**6
PARTS = ("t", "theta", "updates", "clients", "sizes")
FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


MOMENTUM = 0.9  # the share of its last step that the server adds


@dataclass(frozen=True, eq=False)
class ServerMomentum(FedAvg):
    """Federated averaging where the server adds a share of its last step to the next one.

    source  [Hsu et al. 2019], FedAvgM with the usual share of 0.9
    """

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The model after the mean update and the share of the last step."""
        plain = super().step(server, state, round)
        step = plain.theta - round.theta
        if "last" in state:
            step = step + MOMENTUM * state["last"]
        return plain._replace(theta=round.theta + step, state={**state, "last": step})


def median(updates: Tensor, sizes: Tensor) -> Tensor:
    """The coordinate-wise median of updates [m, P], as ``fm.Median`` steps."""
    ordered, m = updates.sort(0).values, len(updates)
    return ordered[[(m - 1) // 2, m // 2]].mean(0)


# How a server aggregates: the strategy of recorded rounds, and the same rule for ``simulate``.
RULES: dict[str, tuple[type[FedAvg], dict[str, Any]]] = {
    "mean": (FedAvg, {}),
    "momentum": (ServerMomentum, {"momentum": MOMENTUM}),
    "median": (Median, {"rule": median}),
}


def luck(seed: int, purpose: int) -> int:
    """The seed of a training run, different for every purpose."""
    if purpose < FROZEN:
        return FROZEN * seed + purpose
    return OTHERS + 2 * seed + purpose - FROZEN


@dataclass(frozen=True)
class Recorded:
    """The rounds of one world and seed: ``fm.score(recorded.records, ...)``.

    rounds  what a strategy sees    server  its model, and its samples (x, y)
    """

    rounds: list[Round]
    server: Server

    @property
    def records(self) -> list[dict[str, Any]]:
        """One mapping per round: t, theta [P], updates [m, P], clients [m], sizes [m]."""
        return [{name: getattr(one, name) for name in PARTS} for one in self.rounds]

    def arrays(self, kind: str = "float32") -> Iterator[dict[str, np.ndarray]]:
        """The records as NumPy arrays, with theta and updates of this kind."""
        for record in self.records:
            yield {
                name: np.asarray(value, FLOATS[kind] if name in ("theta", "updates") else np.int64)
                for name, value in record.items()
            }

    def digest(self) -> str:
        """SHA-256 of all arrays in single precision."""
        total = hashlib.sha256()
        for arrays in self.arrays():
            for name in sorted(arrays):
                total.update(np.ascontiguousarray(arrays[name]).tobytes())
        return total.hexdigest()

    def write(self, folder: Path, kind: str = "float32") -> list[Path]:
        """One file per round, and ``server.npz`` with the samples x, y that a score may use."""
        inputs, labels = self.server.validation
        folder = home(folder)
        server = {"x": inputs.numpy().astype(np.float32), "y": labels.numpy().astype(np.int64)}
        named = {f"{int(arrays['t']):02d}.npz": arrays for arrays in self.arrays(kind)}
        for name, arrays in {**named, "server.npz": server}.items():
            with whole_file(folder / name) as part, open(part, "wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return [folder / name for name in (*named, "server.npz")]


def recorded(
    world: World, seed: int, purpose: int = RECORDED, weighting: Weighting = "size"
) -> Recorded:
    """Train once and keep every round; the bytes are equal on equal kinds of processors.

    purpose  decides the seed: that of the frozen bench, or that of another training run
    """
    fed, net = world.made(seed)
    rounds: list[Round] = []

    def keep(round: Round, step: Step) -> None:
        rounds.append(round)

    lot = luck(seed, purpose)
    strategy = RULES[world.rule][0](weighting=weighting, per_round=world.per_round)
    with one_thread():
        train(fed, net, strategy, rounds=world.rounds, local=world.local, seed=lot, watch=keep)
    return Recorded(rounds, Server(fed.clients, fed.classes, net, fed.validation, lot))


def slug(name: str) -> str:
    """A world's name as a file name: "attack: scale x2" is attack-scale-x2."""
    words = "".join(letter if letter.isalnum() or letter == "." else " " for letter in name)
    return "-".join(words.lower().split())
