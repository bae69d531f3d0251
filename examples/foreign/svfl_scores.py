"""svfl: all orderings, every gain floored at 0. `python svfl_scores.py CELLS OUT`."""

from cells import Cell, main
from svfl.svfl import calculate_sv


def scores(cell: Cell) -> dict[str, list[float]]:
    total = dict.fromkeys(range(cell.clients), 0.0)
    for game in cell.games():
        # A coalition's "average" is the list of its members, which the evaluation looks up.
        for client, value in calculate_sv(dict(enumerate(range(cell.clients))), game, list).items():
            total[client] += value
    return {"svfl": list(total.values())}


if __name__ == "__main__":
    main(scores)
