"""Game: a worth for every coalition, a memoised set function on boolean matrices.

Chapter 2 derives it. Below: checkpoint. Above: games (the games of the book), shapley (estimators).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..engine import checkpoint as files

DENSE = 20  # up to so many players the memo is a table of 2^n values


class Game:
    """A set function v on n players, evaluated once a coalition.

    n          number of players
    value      BoolTensor [C, n] of distinct coalitions -> Tensor [C]; more is better
    shapley    the exact Shapley value [n] where a closed form is known
    name       what the game is, for its repr and its files
    client_epochs  training cost of one member of one coalition (0 for games without training)
    checkpoint  file that values are read from at first, and written to after every ``batch``
    batch      how many coalitions are handed to ``value`` at once; default: all
    mark       what tells the game from others in its files; default: a fingerprint of ``value``,
               taken now: of its code and of all that it refers to

    ``game(coalitions)`` gives float64 values [C]; ``game.evaluations`` counts distinct coalitions.
    raises     TypeError for a matrix that is not boolean; ValueError for wrong shapes, n < 1, or
               a value that is not finite
    """

    def __init__(
        self,
        n: int,
        value: Callable[[Tensor], Tensor],
        *,
        shapley: Tensor | None = None,
        name: str = "game",
        client_epochs: float = 0.0,
        checkpoint: str | os.PathLike | None = None,
        batch: int | None = None,
        mark: str | None = None,
    ):
        self.n = n = checks.whole("n", n)
        such_as = "a function of a coalition matrix"
        self.value = checks.instance("value", value, Callable, such_as)  # type: ignore
        self.name = checks.instance("name", name, str, "a text")
        self.shapley = (
            None if shapley is None else checks.reals("shapley", shapley, [n], dtype=torch.float64)
        )
        self.client_epochs = checks.number("client_epochs", client_epochs, 0)
        self.batch = None if batch is None else checks.whole("batch", batch)
        self._memo: np.ndarray | dict[int, float] = np.full(1 << n, np.nan) if n <= DENSE else {}
        self._tallies: list[set[int]] = []
        self.evaluations = 0
        own = value if mark is None else checks.instance("mark", mark, str, "a text")
        self._mark = files.fingerprint("game", name, n, own)
        self.checkpoint = checkpoint
        if checkpoint is not None:
            self._take(files.begin(checkpoint, self._mark))

    def __repr__(self) -> str:
        return f"Game({self.name}: {self.n} players, {self.evaluations} coalitions evaluated)"

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Worth [C] of the coalitions [C, n]; each is computed once in the game's life."""
        codes = encode(self._check(coalitions))
        for tally in self._tallies:
            tally.update(codes.tolist())
        known = self._lookup(codes)
        missing = np.isnan(known)
        if missing.any():
            self._compute(np.unique(codes[missing]))
            known = self._lookup(codes)
        return torch.from_numpy(known)

    def all(self) -> Tensor:
        """Worth of all 2^n coalitions, [2^n]; index = bit mask, bit i for player i."""
        return self(all_coalitions(self.n))

    @contextlib.contextmanager
    def tally(self) -> Iterator[set[int]]:
        """Collect the codes of the distinct coalitions asked for inside the ``with`` block."""
        codes: set[int] = set()
        self._tallies.append(codes)
        try:
            yield codes
        finally:
            self._tallies = [tally for tally in self._tallies if tally is not codes]

    def save(self, path: str | os.PathLike) -> None:
        """Write all known values to ``path`` (npz), atomically."""
        codes, values = self._known()
        files.save(path, self._mark, members=decode(codes, self.n).numpy(), values=values)

    def load(self, path: str | os.PathLike) -> None:
        """Read values that this very game has saved; ValueError if it was another."""
        if (saved := files.load(path, self._mark)) is None:
            raise FileNotFoundError(f"path: no file {path}")
        self._take(saved)

    def _take(self, saved: dict[str, np.ndarray] | None) -> None:
        if saved is not None:
            self._remember(encode(torch.from_numpy(saved["members"])), saved["values"])

    def _check(self, coalitions: Tensor) -> Tensor:
        found = checks.array("coalitions", coalitions, ["C", self.n])
        if found.dtype != torch.bool:
            shown = checks.shown(coalitions)
            raise TypeError(f"coalitions: expected a boolean matrix [C, {self.n}], got {shown}")
        return found.cpu()

    def _lookup(self, codes: np.ndarray) -> np.ndarray:
        if isinstance(self._memo, dict):
            return np.array([self._memo.get(c, math.nan) for c in codes.tolist()], dtype=np.float64)
        return self._memo[codes.astype(np.int64)]

    def _compute(self, codes: np.ndarray) -> None:
        for low in range(0, len(codes), self.batch or len(codes)):
            part = codes[low : low + (self.batch or len(codes))]
            given = self.value(decode(part, self.n))
            values = checks.array("value", given, [len(part)]).double().cpu()
            if not torch.isfinite(values).all():
                at = int((~torch.isfinite(values)).nonzero()[0])
                members = decode(part[at : at + 1], self.n)[0].nonzero().flatten().tolist()
                raise ValueError(f"value: gave {float(values[at])} for the coalition {members}")
            self._remember(part, values.numpy())
            if self.checkpoint is not None:
                self.save(self.checkpoint)

    def _remember(self, codes: np.ndarray, values: np.ndarray) -> None:
        new = np.isnan(self._lookup(codes))
        if isinstance(self._memo, dict):
            self._memo.update(zip(codes.tolist(), values.tolist(), strict=True))
        else:
            self._memo[codes.astype(np.int64)] = values
        self.evaluations += int(new.sum())

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(self._memo, dict):
            return np.array(list(self._memo), dtype=object), np.array(list(self._memo.values()))
        codes = np.flatnonzero(~np.isnan(self._memo))
        return codes, self._memo[codes]


def encode(coalitions: Tensor) -> np.ndarray:
    """Bit masks of coalitions [C, n]: int64 up to 62 players, Python integers beyond."""
    members = coalitions.numpy()
    if members.shape[1] <= 62:
        return members @ (np.int64(1) << np.arange(members.shape[1], dtype=np.int64))
    packed = np.packbits(members, axis=1, bitorder="little")
    return np.array([int.from_bytes(row.tobytes(), "little") for row in packed], dtype=object)


def decode(codes: np.ndarray, n: int) -> Tensor:
    """The coalitions [C, n] of bit masks; inverse of ``encode``."""
    if n <= 62:
        return torch.from_numpy((codes.astype(np.int64)[:, None] >> np.arange(n)) & 1 == 1)
    if len(codes) == 0:
        return torch.zeros(0, n, dtype=torch.bool)
    width = (n + 7) // 8
    rows = [np.frombuffer(int(c).to_bytes(width, "little"), dtype=np.uint8) for c in codes]
    bits = np.unpackbits(np.stack(rows), axis=1, bitorder="little", count=n)
    return torch.from_numpy(bits.astype(bool))


def all_coalitions(n: int) -> Tensor:
    """All subsets of n players, BoolTensor [2^n, n]; row index = bit mask (row 0 is empty)."""
    return decode(np.arange(1 << checks.whole("n", n, high=24)), n)
