"""ShapleyExplorer: change the worth of a coalition, watch every order and the Shapley value follow.

Chapter 2 shows it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import traitlets

from ... import checks
from ...games.game import Game
from ...games.shapley import exact
from .base import Explorer, Numbers, by_name, program


class ShapleyExplorer(Explorer):
    """A small game to play with: a slider a coalition, a row an order, a bar a player.

    values   [2^n]  worth of every coalition, index = bit mask (first player 1, second 2, third 4);
                    the empty coalition is worth 0
    names    [n]    names of the players, 2 to 4 of them
    highest         upper end of the sliders; default: the largest worth. The lower end is 0, or
                    the lowest worth if that is negative
    orders          how many of the n! orders count; all of them give the Shapley value ``phi`` [n]
    raises   ValueError for 2^n numbers that are missing, not finite, or above ``highest``
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
        names = [str(name) for name in names]
        if not 2 <= len(names) <= 4:
            raise ValueError(f"names: expected 2 to 4 players, got {len(names)}")
        worth = checks.reals("values", values, [1 << len(names)], dtype=torch.float64).tolist()
        if worth[0] != 0:
            raise ValueError(f"values: the empty coalition is worth 0, got {worth[0]}")
        top = checks.number("highest", max(worth) if highest is None else highest, max(worth))
        if top <= 0:
            raise ValueError(f"highest: expected a number above 0, got {top}")
        super().__init__(
            names=names,
            values=worth,
            orders=math.factorial(len(names)),
            lowest=min(worth),
            highest=top,
        )

    @property
    def phi(self) -> list[float]:
        """The Shapley value [n] of the game as it is now."""
        table = torch.tensor(self.values, dtype=torch.float64)
        n = len(self.names)
        bits = 1 << torch.arange(n)
        return exact(Game(n, lambda sets: table[(sets * bits).sum(1)])).values.tolist()

    def numbers(self) -> Numbers:
        players = range(len(self.names))
        rows: dict[str, list[float]] = {}
        for order in itertools.permutations(players):
            masks = list(itertools.accumulate((1 << i for i in order), initial=0))
            steps = [self.values[b] - self.values[a] for a, b in itertools.pairwise(masks)]
            by_player = dict(zip(order, steps, strict=True))
            rows[", ".join(self.names[i] for i in order)] = [by_player[i] for i in players]
        counted = list(rows.values())[: self.orders]
        complete = len(counted) == len(rows)
        share = self.phi if complete else torch.tensor(counted).double().mean(0).tolist()
        rows["mean"] = share
        found = {
            name: {order: values[i] for order, values in rows.items()}
            for i, name in enumerate(self.names)
        }
        return {**found, **by_name(self.names, {"share": share})}
