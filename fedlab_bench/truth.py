"""Reference values: the bench's values by retraining, frozen in files that anybody can recompute.

Each seed has two tables, from two training runs with other seeds than the recorded rounds. Worths
are minus the loss on samples that no server has seen. Builds on recording and games.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from fedlab_mini.engine import progress
from fedlab_mini.games import sampling, shapley
from fedlab_mini.games.game import Game
from fedlab_mini.gate.games import retraining_game
from fedlab_mini.gate.training import simulate
from fedlab_mini.keep.files import read_arrays, whole_file
from fedlab_mini.parse import checks
from fedlab_mini.streams import one_thread

from .recording import RULES, SECOND_TRUTH, TRUTH, luck, slug
from .worlds import WORLDS, World

# The files of a number before the point have a folder of their own, and a new number closes them: a
# new number after the point adds scenarios or scores, and changes no existing row.
VERSIONS = {1: "1.4", 2: "2.0"}
NEWEST = max(VERSIONS)
VERSION = VERSIONS[NEWEST]
# The later blocks are not for submissions: they confirmed the sentences of the bench's page, once.
PUBLIC, HELD_OUT = range(10), range(100, 110)
CONFIRMING, LATEST = range(300, 310), range(400, 410)
CONFIRMING_2 = range(500, 510)  # of version 2
VARIABLE = "FEDLAB_BENCH"


def folders() -> list[Path]:
    """Each version's files, the first one's first: in FEDLAB_BENCH, or the book's data/bench.

    raises  FileNotFoundError that says what to do
    """
    repository = Path(__file__).resolve().parents[1] / "data" / "bench"
    place = checks.home(os.environ.get(VARIABLE, "") or repository)
    places = [place / f"v{version}" for version in VERSIONS]
    if there := [place for place in places if place.is_dir()]:
        return there
    raise FileNotFoundError(
        f"the bench's frozen values are not at {places[0]}; give their FOLDER in {VARIABLE}, or: "
        "python -m fedlab_bench truth --to FOLDER/v1/truth"
    )


def game(world: World, seed: int, purpose: int) -> Game:
    """The retraining game, with worths on samples that no server sees."""
    fed, net = world.made(seed)
    lot, (_, rule) = luck(seed, purpose), RULES[world.rule]
    if not rule:
        return retraining_game(fed, net, world.rounds, world.local, world.metric, lot, on="test")

    def worth(coalitions: Tensor) -> Tensor:
        runs = coalitions[:, None].expand(-1, world.rounds, -1)
        asked: dict[str, Any] = {"metric": world.metric, "on": "test", "last": True, **rule}
        return -simulate(fed, net, runs, local=world.local, seed=lot, **asked)[:, 0]

    return Game(fed.clients, worth)


def trained(world: World, seed: int) -> np.ndarray:
    """All worths of two games [2, 2^n]; or, if orderings are sampled, values and errors [2, 2, n].

    Both games also sample other orderings, so that difference is in the ceiling, too
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
    """Train what is missing, with one file per world; a second call continues an interrupted one.

    Several processes may share a folder: each keeps the results of the others.
    raises  ValueError if no world in ``names`` has its own values, or none has such a seed
    """
    asked = list(names)
    owners = {name: WORLDS[name] for name in asked if WORLDS[name].truth == ""}
    if not owners:
        others = ", ".join(dict.fromkeys(owner_of(name) or "no retraining" for name in asked))
        raise ValueError(
            f"scenarios: {', '.join(asked)}: judged by {others}, without values of its own"
        )
    cells = cells_of(owners, seeds)
    with progress.bar(None, "truth", len(cells)) as progress_bar:
        for name, world in owners.items():
            path = checks.home(to) / f"{slug(name)}.npz"
            for seed in [seed for owner, seed in cells if owner == name]:
                if str(seed) not in read(path):
                    _add(path, str(seed), trained(world, seed))
                progress_bar.update()
            if path.is_file():
                yield path


def _add(path: Path, seed: str, table: np.ndarray) -> None:
    """Add a table to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        # Read under the lock, because another process may just have added a table.
        tables = {**read(path), seed: table}
        with whole_file(path) as part, open(part, "wb") as file:
            np.savez_compressed(file, **tables)  # type: ignore[arg-type]


def seeds_of(world: World, seeds: Iterable[int]) -> list[int]:
    """The seeds that a world has, among those given."""
    # Every block of seeds begins at a hundred.
    return [seed for seed in seeds if seed % 100 < world.seeds]


def cells_of(worlds: Mapping[str, World], seeds: Iterable[int]) -> list[tuple[str, int]]:
    """(scenario, seed) for the given seeds that each world has; ValueError if none has any."""
    numbers = list(seeds)
    if cells := [(name, seed) for name in worlds for seed in seeds_of(worlds[name], numbers)]:
        return cells
    most = max((world.seeds for world in worlds.values()), default=0)
    known = f"0 to {most - 1}, or of 100 to {99 + most}"
    raise ValueError(f"seeds: expected some of {known}, got {checks.shown(numbers)}")


def read(path: Path) -> dict[str, np.ndarray]:
    """The tables of a file by seed, none if it does not exist; ValueError if it is damaged."""
    return read_arrays("truth", path) if path.is_file() else {}


def sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Frozen:
    """The reference values in one or more folders; a hash checks each of the bench's own files.

    If two folders hold a seed, the first one counts.
    """

    def __init__(self, *places: Path):
        self.tables: dict[str, dict[str, np.ndarray]] = {}
        for place in map(checks.home, places or [place / "truth" for place in folders()]):
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
                tables = read(path)
                shape = (2, 2, world.clients) if world.sampled else (2, 2**world.clients)
                for seed, table in tables.items():
                    if table.shape != shape:
                        raise ValueError(
                            f"{path}: seed {seed}: expected numbers {shape}, got {table.shape}"
                        )
                self.tables[name] = {**tables, **self.tables.get(name, {})}

    def knows(self, name: str, seed: int) -> bool:
        """Are the reference values of a world and seed available? An attack needs none."""
        owner = owner_of(name)
        return owner is None or str(seed) in self.tables.get(owner, {})

    def of(self, name: str, seed: int) -> Tensor:
        """The retraining values of a world's clients in two runs: Shapley values [2, K]."""
        owner = owner_of(name)
        assert owner is not None, f"{name} has no reference values"
        return values_of(WORLDS[owner], self.tables[owner][str(seed)])


def owner_of(name: str) -> str | None:
    """The world whose reference values judge this one."""
    truth = WORLDS[name].truth
    return name if truth == "" else truth


def values_of(world: World, table: np.ndarray) -> Tensor:
    """Shapley values [2, K] of a table from ``trained``."""
    worths = torch.from_numpy(table).double()
    if world.sampled:
        return worths[:, 0]  # without their standard errors
    return torch.stack([shapley.exact(table_game(own)).values for own in worths])


def table_game(worths: Tensor) -> Game:
    """A table of worths [2^n] as a game; its bits are the players."""
    players = len(worths).bit_length() - 1
    weights = 1 << torch.arange(players)
    # [C, n] @ [n] -> [C], the positions of the coalitions in the table
    return Game(players, lambda coalitions: worths[coalitions.long() @ weights])


def manifest(place: Path) -> dict[str, Any]:
    """The bench's manifest, {"files": {name: SHA-256}, "rounds": {...}}; without one, no files."""
    path = place / "manifest.json"
    if not path.is_file():
        return {"files": {}}
    known = None
    with contextlib.suppress(ValueError):  # also for text that is not UTF-8
        known = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(known, dict) and isinstance(known.get("files"), dict):
        return known
    raise ValueError(f"{path}: expected the manifest of a bench, with its files")
