"""MixUpExplorer: replies come in another order; whose score is whose? Chapter 11 shows it."""

from __future__ import annotations

import itertools
import math

import traitlets

from .base import Explorer, Numbers, by_name, client_names, floats, program, uniforms

ORDERS = list(itertools.permutations(range(3)))


class MixUpExplorer(Explorer):
    """Three clients send one number each; a reply's score is its product with the mean. The server
    takes the first reply for client 0's, the second for client 1's, the third for client 2's.

    updates  [3]  the same in every round
    order         whose reply comes first, second and third in the first round; the order of every
                  later round is drawn at random
    rounds        a client is told the mean of the scores at its place
    """

    _esm = program("kit", "random", "mixup")
    hides = ("told",)
    updates = floats(2.0, 1.0, -1.0)
    order = traitlets.List(traitlets.Int(), [2, 0, 1]).tag(sync=True)
    rounds = traitlets.Int(1, min=1).tag(sync=True)

    def numbers(self) -> Numbers:
        mean = sum(self.updates) / 3
        scores = [update * mean for update in self.updates]
        drawn = uniforms(0, self.rounds - 1)
        orders = [self.order, *(ORDERS[math.floor(u * len(ORDERS))] for u in drawn)]
        client_columns = {
            "update": self.updates,
            "own score": scores,
            "told": [
                sum(scores[order[place]] for order in orders) / self.rounds for place in range(3)
            ],
        }
        single_numbers = {"the model moves by": mean, "mean score": sum(scores) / 3}
        return {**by_name(client_names(3), client_columns), "value": single_numbers}
