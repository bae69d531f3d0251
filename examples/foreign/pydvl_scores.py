"""pyDVL: sampled orderings, Beta Shapley, and a point of the least core; clients are its "samples".

`python pydvl_scores.py CELLS OUT`.
"""

import numpy as np
from cells import Cell, main
from pydvl.valuation import (
    BetaShapleyValuation,
    DeterministicUniformSampler,
    ExactLeastCoreValuation,
    FiniteSequentialIndexIteration,
    MaxUpdates,
    NoStopping,
    PermutationSampler,
    ShapleyValuation,
)
from pydvl.valuation.dataset import Dataset
from pydvl.valuation.utility.base import UtilityBase

SOLVER = {"solver": "CLARABEL"}  # with its own choice, SCS, a round in some hundreds fails


class Gain(UtilityBase):
    """The worth of a subset of the clients."""

    def __init__(self, game):
        self.game = game

    def __call__(self, sample) -> float:
        return self.game(() if sample is None else sample.subset)


def scores(cell: Cell) -> dict[str, list[float]]:
    n, found = cell.clients, {}
    players = Dataset(np.arange(n)[:, None].astype(float), np.zeros(n))
    quiet = {"progress": False}
    for number, game in enumerate(cell.games()):
        every = DeterministicUniformSampler(
            index_iteration=FiniteSequentialIndexIteration, batch_size=1
        )
        orders = PermutationSampler(seed=number)
        gain = Gain(game)
        made = {
            "permutations": ShapleyValuation(gain, orders, MaxUpdates(14), **quiet),
            "Beta Shapley (16, 1)": BetaShapleyValuation(
                gain, every, NoStopping(), alpha=16, beta=1, **quiet
            ),
            "least core": ExactLeastCoreValuation(gain, solver_options=SOLVER, **quiet),
        }
        for name, valuation in made.items():
            result = valuation.fit(players).result
            values = np.asarray(result.values)[np.argsort(result.indices)]
            found[f"pyDVL: {name}"] = found.get(f"pyDVL: {name}", 0) + values
    return found


if __name__ == "__main__":
    main(scores)
