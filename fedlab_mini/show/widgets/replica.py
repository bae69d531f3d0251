"""ReplicaExplorer: what happens to the values if a client joins twice? Chapter 3 shows it."""

from __future__ import annotations

import torch
import traitlets

from ...games.game import Game
from ...games.shapley import exact, leave_one_out
from .base import Explorer, Numbers, by_name, floats, program

NAMES = ["A", "B", "C", "C again"]


class ReplicaExplorer(Explorer):
    """Clients hold numbers. A coalition's model is the mean of its numbers, or 0 without any. Its
    value is minus the squared distance from the true number.

    sizes, means  [3]  how many numbers A, B and C hold, and their means
    `truth`, `twice`   the true number; whether C joins a second time with the same numbers
    """

    _esm = program("kit", "line", "replica")
    hides = ("leave-one-out", "Shapley value φ")
    sizes = traitlets.List(traitlets.Int(), [2, 1, 3]).tag(sync=True)
    means = floats(2.0, 5.0, 9.0)
    truth = traitlets.Float(6.0).tag(sync=True)
    twice = traitlets.Bool(True).tag(sync=True)

    def numbers(self) -> Numbers:
        sizes = torch.tensor([*self.sizes, self.sizes[-1] * self.twice]).double()
        means = torch.tensor([*self.means, self.means[-1]]).double()

        def worth(coalitions: torch.Tensor) -> torch.Tensor:
            # A coalition without numbers has no mean, so its model is 0.
            counts = (coalitions * sizes).sum(1)
            models = (coalitions * sizes * means).sum(1) / counts.clamp(min=1)
            return -((models - self.truth) ** 2)

        # An absent copy holds no numbers, so its value is 0 and no other value changes.
        game = Game(len(NAMES), worth)
        everybody = torch.ones(1, len(NAMES), dtype=torch.bool)
        client_columns = {
            "n": sizes,
            "mean": means,
            "leave-one-out": leave_one_out(game).values,
            "Shapley value φ": exact(game).values,
        }
        single_numbers = {
            "model of all": float((sizes * means).sum() / sizes.sum()),
            "worth of all": float(game(everybody)),
        }
        return {**by_name(NAMES, client_columns), "value": single_numbers}
