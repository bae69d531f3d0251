"""Estimate: a value for every player, its standard error, and its cost.

Every estimator returns one, and asks the game for many coalitions at a time. Compared with a bare
vector of values, it says how sure they are. Its cost is the number of distinct coalitions that it
needed, as if none had been evaluated before.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..engine.history import frame
from ..parse import checks
from .game import Game

if TYPE_CHECKING:
    import pandas


ROUNDING = 1e-12  # of the largest worth: smaller differences are rounding errors


@dataclass(frozen=True)
class Estimate:
    """A value for every player.

    values, stderr [n]  the estimate and its standard error: 0 if the value is exact; NaN, shown as
                        ±?, if that is unknown: one sample, or samples that all agree
    evaluations         how many distinct coalitions were needed
    client_epochs       what it cost to train them (0 for games without training)
    method              name of the estimator
    """

    values: Tensor
    stderr: Tensor
    evaluations: int
    client_epochs: float = 0.0
    method: str = ""

    def __post_init__(self) -> None:
        values = checks.reals("values", self.values, ["n"], finite=False).clone()
        stderr = checks.reals("stderr", self.stderr, [len(values)], finite=False).clone()
        checks.store(self, values=values, stderr=stderr)

    def __repr__(self) -> str:
        texts = []
        for value, error in zip(self.values.tolist(), self.stderr.tolist(), strict=True):
            known = "?" if math.isnan(error) else f"{error:.2g}"
            texts.append(f"{value:.4g}" if error == 0 else f"{value:.4g}±{known}")
        return f"Estimate({self.method}: [{', '.join(texts)}], {self.evaluations} evaluations)"

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table: one row for each player 0..n-1, columns value and stderr."""
        return frame("player", value=self.values, stderr=self.stderr)


def unless_alike(stderr: Tensor, worth: Tensor) -> Tensor:
    """Standard errors [n]; NaN if all samples are equal up to rounding.

    worth  worths of the game, including the largest. Samples may be equal by chance
    """
    return stderr.where(stderr > ROUNDING * worth.abs().max(), torch.nan)


@contextlib.contextmanager
def asking(game: Game, most_players: float = math.inf) -> Iterator[Callable[..., Estimate]]:
    """Record the coalitions that a game is asked for inside the ``with`` block.

    yields  a function (method, values, stderr) that makes an ``Estimate`` with the cost so far
    raises  ValueError if the game has more than ``most_players``
    """
    if game.n > most_players:
        raise ValueError(f"game: needs all coalitions, n <= {most_players}; got {game.n} players")
    with game.tally() as codes:
        yield partial(_estimate, game, codes)


def _estimate(
    game: Game, codes: set[int], method: str, values: Tensor, stderr: Tensor | None = None
) -> Estimate:
    """An estimator's result with its cost; without standard errors the result is exact."""
    stderr = torch.zeros(game.n, dtype=torch.float64) if stderr is None else stderr
    # Training costs one unit for each member, evaluation one for each coalition.
    members = sum(int(code).bit_count() for code in codes)
    return Estimate(values, stderr, len(codes), members * game.client_epochs, method)
