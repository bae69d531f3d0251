"""PotExplorer: one pot, four rules, and which promises each rule keeps. Chapter 14 shows it."""

from __future__ import annotations

import math

import torch
import traitlets
from torch import Tensor

from ...games.game import Game
from ...games.shapley import alone, exact, leave_one_out
from ...games.values import nucleolus
from ...methods.fedccea import contribution_index
from .base import Explorer, Numbers, by_name, floats, program

NAMES = ["A", "B", "C"]
RULES = ["Shapley", "marginal", "nucleolus", "by score"]
PLACES = torch.tensor([1, 2, 4])  # of clients in a coalition's index
PROMISES = ["left over", "worst alone", "worst group", "second name"]


class PotExplorer(Explorer):
    """Three clients earn a pot together; each rule divides it, and keeps some of four promises.

    worths  [8]  what every coalition earns, index = bit mask (A 1, B 2, C 4); the empty one earns 0
    copies       what A does under two names: each the same work, or, if False, half of it
    """

    _esm = program("kit", "pot")
    hides = (*NAMES, *PROMISES)
    worths = floats(0.0, 60.0, 60.0, 60.0, 30.0, 84.0, 84.0, 90.0)
    copies = traitlets.Bool(False).tag(sync=True)

    def paid(self, game: Game) -> dict[str, Tensor]:
        """{rule: pay [n]}; the nucleolus only of three clients."""
        few, unknown = game.n == len(NAMES), torch.full((game.n,), math.nan)
        return {
            "Shapley": exact(game).values,
            "marginal": leave_one_out(game).values,
            "nucleolus": nucleolus(game).values if few else unknown,
            "by score": game.all()[-1] * contribution_index(alone(game).values),
        }

    def numbers(self) -> Numbers:
        table = torch.tensor(self.worths, dtype=torch.float64)
        game = Game(3, lambda s: table[s.long() @ PLACES])

        def named_twice(s: Tensor) -> Tensor:
            present = s[:, 0] | s[:, 3] if self.copies else s[:, 0] & s[:, 3]
            return table[torch.cat([present[:, None], s[:, 1:3]], 1).long() @ PLACES]

        pays, twice = self.paid(game), self.paid(Game(4, named_twice))
        promises: dict[str, list[float]] = {name: [] for name in PROMISES}
        groups = [[mask >> k & 1 for k in range(3)] for mask in range(1, 7)]
        for rule, pay in pays.items():
            short = [float(table[m + 1]) - float(torch.tensor(g).double() @ pay)
                     for m, g in enumerate(groups)]  # fmt: skip
            promises["left over"].append(float(table[-1] - pay.sum()))
            promises["worst alone"].append(max(short[0], short[1], short[3]))
            promises["worst group"].append(max(short))
            promises["second name"].append(float(twice[rule][[0, 3]].sum() - pay[0]))
        each = {name: [float(pay[k]) for pay in pays.values()] for k, name in enumerate(NAMES)}
        return by_name(RULES, {**each, **promises})
