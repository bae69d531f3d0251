"""Truth: what retraining says of the bench's clients, frozen in files that anybody can make again.

Two tables a seed, from two trainings that share no luck with the recorded rounds; worths are minus
the loss on samples that no server has seen. Below: rounds, games.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...engine import progress
from ...engine.checkpoint import whole_file
from ...engine.model import one_thread
from ...games import sampling, shapley
from ...games.game import Game
from ...games.training_games import retraining_game
from ..compare.cell import LOCAL, ROUNDS
from .rounds import SECOND_TRUTH, TRUTH, luck, slug
from .worlds import WORLDS, World

VERSION = "1"
PUBLIC, HELD_OUT = range(10), range(100, 110)
VARIABLE = "FEDLAB_BENCH"


@dataclass(frozen=True)
class Truth:
    """What two trainings say of the clients of one world and seed.

    values [2, K]  exact Shapley values of retraining, or estimates of them
    stderr [2, K]  their standard errors, zero where all coalitions were trained
    """

    values: Tensor
    stderr: Tensor


def folder() -> Path:
    """Where the bench's files are: FEDLAB_BENCH, or data/bench of the book's repository.

    raises  FileNotFoundError that names the ways out
    """
    repository = Path(__file__).resolve().parents[3] / "data" / "bench"
    place = Path(os.environ.get(VARIABLE, "") or repository) / f"v{VERSION}"
    if place.is_dir():
        return place
    raise FileNotFoundError(
        f"the bench's frozen truth is not at {place}; give its place in {VARIABLE}, or make it: "
        f"python -m fedlab_mini compare truth --to FOLDER/v{VERSION}"
    )


def game(world: World, seed: int, purpose: int) -> Game:
    """Retraining on the samples that are kept for this: worth is minus the loss there."""
    fed, net = world.made(seed)
    return retraining_game(fed, net, ROUNDS, LOCAL, "loss", luck(seed, purpose), on="test")


def trained(world: World, seed: int) -> np.ndarray:
    """All worths of two games [2, 2^n]; or, where orders are sampled, values and errors [2, 2, n].

    Two samples of orders, too: what they disagree in is part of the ceiling
    """
    rows: list[Tensor] = []
    with one_thread():
        for purpose in (TRUTH, SECOND_TRUTH):
            played = game(world, seed, purpose)
            if not world.sampled:
                rows.append(played.all())
                continue
            orders = luck(seed, purpose)
            estimate = sampling.permutation(played, world.sampled, orders, antithetic=True)
            rows.append(torch.stack([estimate.values, estimate.stderr]))
    return torch.stack(rows).numpy().astype(np.float32)


def freeze(names: Iterable[str], seeds: Iterable[int], to: Path) -> Iterator[Path]:
    """Train what is missing, a file a world; a second call goes on where the first was stopped."""
    owners = [name for name in names if WORLDS[name].truth == ""]
    numbers = {name: seeds_of(WORLDS[name], seeds) for name in owners}
    with progress.bar(None, "truth", sum(map(len, numbers.values()))) as progress_bar:
        for name in owners:
            path = to / f"{slug(name)}.npz"
            tables = dict(read(path)) if path.is_file() else {}
            for seed in numbers[name]:
                if str(seed) not in tables:
                    tables[str(seed)] = trained(WORLDS[name], seed)
                    with whole_file(path) as part, open(part, "wb") as file:
                        np.savez_compressed(file, **tables)  # type: ignore[arg-type]
                progress_bar.update()
            yield path


def seeds_of(world: World, seeds: Iterable[int]) -> list[int]:
    """Those of the seeds that a world has."""
    return [seed for seed in seeds if seed % 100 < world.seeds]


def read(path: Path) -> dict[str, np.ndarray]:
    """The tables of a file by seed; ValueError naming it where it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {seed: file[seed] for seed in file.files}
    except Exception as error:  # a damaged zip raises a dozen kinds
        raise ValueError(f"{path} is damaged ({type(error).__name__}: {error})") from error


def sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Frozen:
    """The truth that lies in one or more folders; files of the bench's own are checked by hash."""

    def __init__(self, *places: Path):
        self.tables: dict[str, dict[str, np.ndarray]] = {}
        for place in places or (folder() / "truth",):
            if not place.is_dir():
                raise FileNotFoundError(f"truth: expected a folder of tables, got {place}")
            hashes = manifest(place.parent)["files"]
            for name, world in WORLDS.items():
                path = place / f"{slug(name)}.npz"
                if world.truth != "" or not path.is_file():
                    continue
                expected = hashes.get(f"{place.name}/{path.name}")
                if expected is not None and expected != sha256(path):
                    raise ValueError(f"{path} is not the file that the bench was frozen with")
                self.tables.setdefault(name, {}).update(read(path))

    def knows(self, name: str, seed: int) -> bool:
        """Whether the truth of a world and seed is at hand; of an attack nothing needs to be."""
        owner = owner_of(name)
        return owner is None or str(seed) in self.tables.get(owner, {})

    def of(self, name: str, seed: int) -> Truth:
        """What retraining says of a world's clients."""
        owner = owner_of(name)
        assert owner is not None, f"{name} has no truth"
        table = torch.from_numpy(self.tables[owner][str(seed)]).double()
        if WORLDS[owner].sampled:
            return Truth(values=table[:, 0], stderr=table[:, 1])
        values = torch.stack([shapley.exact(_game(worths)).values for worths in table])
        return Truth(values=values, stderr=torch.zeros_like(values))


def owner_of(name: str) -> str | None:
    """The world whose truth judges this one."""
    truth = WORLDS[name].truth
    return name if truth == "" else truth


def _game(worths: Tensor) -> Game:
    """A table of worths as a game; its bits are the players."""
    players = len(worths).bit_length() - 1
    weights = 1 << torch.arange(players)
    return Game(players, lambda coalitions: worths[coalitions.long() @ weights])


def manifest(place: Path) -> dict[str, Any]:
    """What the bench was frozen with: {"files": {name: SHA-256}, "rounds": {...}}; else empty."""
    path = place / "manifest.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"files": {}}
