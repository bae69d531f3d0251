"""shapiq: two estimators of Shapley values, Banzhaf values, and its egalitarian least core.

`python shapiq_scores.py CELLS OUT`.
"""

import numpy as np
from cells import Cell, main
from shapiq import SVARM, ExactComputer, KernelSHAP

BUDGET = 100  # coalitions a round


def scores(cell: Cell) -> dict[str, list[float]]:
    n, found = cell.clients, {}
    bits = 1 << np.arange(n)
    for number, table in enumerate(cell.worths):
        gains = table - table[0]

        def game(coalitions, gains=gains):
            return gains[np.asarray(coalitions, dtype=int) @ bits]

        exact = ExactComputer(game, n)
        values = {
            "KernelSHAP": KernelSHAP(n, random_state=number).approximate(BUDGET, game),
            "SVARM": SVARM(n, random_state=number).approximate(BUDGET, game),
            "Banzhaf": exact("BV", order=1),
            "ELC": exact("ELC", order=1),
        }
        for name, value in values.items():
            own = np.array([value[(k,)] for k in range(n)])
            found[f"shapiq: {name}"] = found.get(f"shapiq: {name}", 0) + own
    return found


if __name__ == "__main__":
    main(scores)
