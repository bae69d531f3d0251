"""Game: a worth for every coalition, computed once; coalitions are rows of boolean matrices.

Chapter 2 derives it [Shapley 1953]. In place of a function of one set, the worth is a function of
many sets at once, and each is remembered by its bit mask. The empty coalition may have any worth.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ..parse import checks

MOST_DENSE = 20  # up to this many players the memo is a table of 2^n values
MOST_ENUMERATED = 24  # up to this many players all coalitions fit into memory
MOST_PLAYERS = 10_000


class Game:
    """A function v of the coalitions of n players, evaluated once for each coalition.

    n          number of players
    value      BoolTensor [C, n] of distinct coalitions -> Tensor [C]; more is better
    shapley    the exact Shapley value [n] if a closed form is known
    name       what the game is, for its repr
    client_epochs  training cost of one member of one coalition (0 for games without training)

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
    ):
        self.n = checks.whole("n", n, 1, MOST_PLAYERS)
        such_as = "a function of a coalition matrix"
        self.value = checks.instance("value", value, Callable, such_as)  # type: ignore
        self.name = checks.text("name", name)
        self.shapley = shapley
        if shapley is not None:
            known = checks.reals("shapley", shapley, [self.n], dtype=torch.float64)
            self.shapley = known.clone()
        self.client_epochs = checks.number("client_epochs", client_epochs, 0)
        self._memo: np.ndarray | dict[int, float] = {}
        if self.n <= MOST_DENSE:
            self._memo = np.full(1 << self.n, np.nan)
        self._tallies: list[set[int]] = []

    def __repr__(self) -> str:
        return f"Game({self.name}: {self.n} players, {self.evaluations} coalitions evaluated)"

    @property
    def evaluations(self) -> int:
        """How many distinct coalitions have been evaluated."""
        if isinstance(self._memo, dict):
            return len(self._memo)
        return int(np.isfinite(self._memo).sum())

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Worth [C] of the coalitions [C, n]; each is computed once only."""
        codes = encode(self._checked(coalitions))
        # Known coalitions count, too, because a cost must not depend on earlier requests.
        for tally in self._tallies:
            tally.update(codes.tolist())
        worth = self._look_up(codes)
        unknown = np.isnan(worth)
        if unknown.any():
            self._compute(np.unique(codes[unknown]))
            worth = self._look_up(codes)
        return torch.from_numpy(worth)

    def all(self) -> Tensor:
        """Worth of all 2^n coalitions, [2^n]; the index is a bit mask with bit i for player i."""
        return self(all_coalitions(self.n))

    @contextlib.contextmanager
    def tally(self) -> Iterator[set[int]]:
        """Collect the codes of the distinct coalitions requested inside the ``with`` block."""
        codes: set[int] = set()
        self._tallies.append(codes)
        try:
            yield codes
        finally:
            # By identity, because the sets of nested blocks may hold equal codes.
            self._tallies = [tally for tally in self._tallies if tally is not codes]

    def _checked(self, coalitions: Tensor) -> Tensor:
        matrix = checks.array("coalitions", coalitions, ["C", self.n])
        if matrix.dtype != torch.bool:
            shown = checks.shown(coalitions)
            raise TypeError(f"coalitions: expected a boolean matrix [C, {self.n}], got {shown}")
        return matrix.cpu()

    def _compute(self, codes: np.ndarray) -> None:
        """Compute the worth of coalitions by ``value``, and store it."""
        coalitions = decode(codes, self.n)
        answer = checks.array("value", self.value(coalitions), [len(coalitions)])
        worth = answer.double().cpu()
        # NaN means unknown in the memo, so such a worth would be computed again every time.
        strange = ~torch.isfinite(worth)
        if strange.any():
            first = int(strange.nonzero()[0])
            members = coalitions[first].nonzero().flatten().tolist()
            raise ValueError(f"value: gave {float(worth[first])} for the coalition {members}")
        if isinstance(self._memo, dict):
            self._memo.update(zip(codes.tolist(), worth.tolist(), strict=True))
        else:
            self._memo[codes.astype(np.int64)] = worth.numpy()

    def _look_up(self, codes: np.ndarray) -> np.ndarray:
        """The stored worth of coalitions, NaN if there is none."""
        if isinstance(self._memo, dict):
            worth = [self._memo.get(code, math.nan) for code in codes.tolist()]
            return np.array(worth, dtype=np.float64)
        return self._memo[codes.astype(np.int64)]


def encode(coalitions: Tensor) -> np.ndarray:
    """Bit masks of coalitions [C, n]: int64 up to 62 players, Python integers beyond."""
    members = coalitions.numpy()
    players = members.shape[1]
    if players <= 62:
        place_values = np.int64(1) << np.arange(players, dtype=np.int64)
        # [C, n] @ [n] -> [C]
        return members @ place_values
    # More players do not fit into 64-bit integers, but they do into Python's.
    packed = np.packbits(members, axis=1, bitorder="little")
    codes = [int.from_bytes(row.tobytes(), "little") for row in packed]
    return np.array(codes, dtype=object)


def decode(codes: np.ndarray, n: int) -> Tensor:
    """The coalitions [C, n] of bit masks; inverse of ``encode``."""
    if n <= 62:
        shifted = codes.astype(np.int64)[:, None] >> np.arange(n)
        return torch.from_numpy(shifted & 1 == 1)
    width = (n + 7) // 8
    packed = b"".join(int(code).to_bytes(width, "little") for code in codes)
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(len(codes), width)
    bits = np.unpackbits(rows, axis=1, bitorder="little", count=n)
    return torch.from_numpy(bits.astype(bool))


def all_coalitions(n: int) -> Tensor:
    """All subsets of n players, BoolTensor [2^n, n]; row index = bit mask (row 0 is empty)."""
    if n > MOST_ENUMERATED:
        raise ValueError(f"n: expected a whole number of 1..{MOST_ENUMERATED}, got {n}")
    return decode(np.arange(1 << n), n)
