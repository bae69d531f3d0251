"""ShapleyExplorer: change a coalition's worth and see the effect on orderings and Shapley values.

Chapter 2 shows it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import traitlets

from ...games.game import Game
from ...games.shapley import exact
from ...parse import checks
from .base import Explorer, Numbers, by_name, program


class ShapleyExplorer(Explorer):
    """A small game with one slider per coalition, one row per ordering, and one bar per player.

    values   [2^n]  worth of every coalition, index = bit mask (first player 1, second 2, third 4);
                    the empty coalition has worth 0
    names    [n]    names of the players, 2 to 4 names
    highest         upper end of the sliders; default: the largest worth. The lower end is 0, or
                    the lowest worth if it is negative
    orders          how many of the n! orderings count; all give the Shapley value ``phi`` [n]
    raises   ValueError for another number of values, or values not finite or above ``highest``
    """

    _esm = program("kit", "shapley")
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    values = traitlets.List(traitlets.Float()).tag(sync=True)
    orders = traitlets.Int().tag(sync=True)
    lowest = traitlets.Float().tag(sync=True)
    highest = traitlets.Float().tag(sync=True)

    def __init__(
        self,
        values: Sequence[float],
        *,
        names: Sequence[str] = ("A", "B", "C"),
        highest: float | None = None,
    ):
        # Two to four players, because more orderings do not fit on a screen.
        player_names = [str(name) for name in names]
        if not 2 <= len(player_names) <= 4:
            raise ValueError(f"names: expected 2 to 4 players, got {len(player_names)}")
        coalition_count = 1 << len(player_names)
        worths = checks.reals("values", values, [coalition_count], dtype=torch.float64).tolist()
        if worths[0] != 0:
            raise ValueError(f"values: the empty coalition has worth 0, got {worths[0]}")
        largest = max(worths)
        highest = checks.number("highest", largest if highest is None else highest, largest)
        if highest <= 0:
            raise ValueError(f"highest: expected a number above 0, got {highest}")
        super().__init__(
            names=player_names,
            values=worths,
            orders=math.factorial(len(player_names)),
            lowest=min(worths),
            highest=highest,
        )

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # players have names
        # The marginal gains in each ordering would reveal the answer.
        return ("share", *self.names)

    @property
    def phi(self) -> list[float]:
        """The Shapley value [n] of the current game."""
        worth_table = torch.tensor(self.values, dtype=torch.float64)
        player_count = len(self.names)
        player_bits = 1 << torch.arange(player_count)
        # Coalitions [S, n] become bit masks [S], which are the indices of their worths.
        game = Game(player_count, lambda coalitions: worth_table[(coalitions * player_bits).sum(1)])
        return exact(game).values.tolist()

    def numbers(self) -> Numbers:
        player_ids = range(len(self.names))
        gains_by_order: dict[str, list[float]] = {}
        for order in itertools.permutations(player_ids):
            gain_by_player = dict(zip(order, self._marginal_gains(order), strict=True))
            label = ", ".join(self.names[player] for player in order)
            gains_by_order[label] = [gain_by_player[player] for player in player_ids]
        counted = list(gains_by_order.values())[: self.orders]
        # The mean over all orderings is the Shapley value, and over fewer an estimate.
        all_counted = len(counted) == len(gains_by_order)
        player_shares = self.phi if all_counted else torch.tensor(counted).double().mean(0).tolist()
        gains_by_order["mean"] = player_shares
        player_columns = {
            name: {label: gains[player] for label, gains in gains_by_order.items()}
            for player, name in enumerate(self.names)
        }
        return {**player_columns, **by_name(self.names, {"share": player_shares})}

    def _marginal_gains(self, order: tuple[int, ...]) -> list[float]:
        """The marginal gain of each player, in the order of joining."""
        # There is one more mask than players, because the first mask is the empty coalition.
        coalition_masks = itertools.accumulate((1 << player for player in order), initial=0)
        return [
            self.values[mask_after] - self.values[mask_before]
            for mask_before, mask_after in itertools.pairwise(coalition_masks)
        ]
