"""Rounds: what a server of the bench sees: one training, recorded round by round.

Records are what ``fm.score`` reads, in memory or as .npz files. Below: worlds, engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedlab_mini.checks import home
from fedlab_mini.engine.files import whole_file
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Step
from fedlab_mini.engine.train import train
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.streams import one_thread
from fedlab_mini.worlds.data.dataset import Samples

from ..compare.cell import ROUNDS
from .worlds import World

# No two purposes share a training: each has its own seed of every three.
TRUTH, SECOND_TRUTH, RECORDED = range(3)
FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


def luck(seed: int, purpose: int) -> int:
    """The seed of a training: its own for every purpose."""
    return 3 * seed + purpose


@dataclass(frozen=True)
class Recorded:
    """The rounds of one world and seed: ``fm.score(recorded.records, ...)``.

    records     one mapping a round: t, theta [P], updates [m, P], clients [m], sizes [m]
    net, validation  the server's model and its samples (x, y)
    clients     how many there are
    """

    records: list[dict[str, Any]]
    net: Model
    validation: Samples
    clients: int

    def arrays(self, kind: str = "float32") -> Iterator[dict[str, np.ndarray]]:
        """The records as NumPy arrays, their numbers of this kind."""
        for record in self.records:
            yield {
                name: np.asarray(
                    value, FLOATS[kind] if name in ("theta", "updates") else np.int64
                )
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
        """A file a round, and ``server.npz`` with the samples x, y that a score may look at."""
        inputs, labels = self.validation
        folder = home(folder)
        server = {
            "x": inputs.numpy().astype(np.float32),
            "y": labels.numpy().astype(np.int64),
        }
        named = {f"{int(arrays['t']):02d}.npz": arrays for arrays in self.arrays(kind)}
        for name, arrays in {**named, "server.npz": server}.items():
            with whole_file(folder / name) as part, open(part, "wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return [folder / name for name in (*named, "server.npz")]


def recorded(world: World, seed: int) -> Recorded:
    """Train once and keep every round; the same bytes on the same kind of processor."""
    fed, net = world.made(seed)
    records: list[dict[str, Any]] = []

    def keep(round: Round, step: Step) -> None:
        parts = ("theta", "updates", "clients", "sizes")
        kept = {name: getattr(round, name).clone() for name in parts}
        records.append({"t": round.t, **kept})

    strategy, lot = FedAvg(per_round=world.per_round), luck(seed, RECORDED)
    with one_thread():
        train(fed, net, strategy, rounds=ROUNDS, local=world.local, seed=lot, watch=keep)
    return Recorded(records, net, fed.validation, fed.clients)


def slug(name: str) -> str:
    """A world's name as a file's: "attack: scale x2" is attack-scale-x2."""
    words = "".join(
        letter if letter.isalnum() or letter == "." else " " for letter in name
    )
    return "-".join(words.lower().split())
