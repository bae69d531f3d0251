"""ShapleyFL (ZJU): complementary contributions; `FOREIGN_CODE=... shapleyfl_scores.py CELLS OUT`.

Models are averaged with equal weights there, so the game is that of plain means. Two of its
helpers stand in: a coalition's "average" is its members, its "accuracy" their worth.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

from cells import Cell, main

sys.path.insert(0, str(Path(os.environ["FOREIGN_CODE"], "ImageClassification")))
update, tools = ModuleType("update"), ModuleType("tools")
update.test_inference = lambda args, model, samples: (model.worth(), None)
tools.average_weights = list
sys.modules |= {"src_opt.utils.update": update, "src_opt.utils.tools": tools}
from src_opt.utils import Shapley as theirs  # noqa: E402

theirs.trange = range  # no bars of progress
SAMPLES = 6  # times the clients: pairs of a coalition and its complement a round


class Model:
    """Takes the members for its parameters."""

    def __init__(self, game):
        self.game, self.eval = game, lambda: None

    def load_state_dict(self, members):
        self.members = members

    def worth(self) -> float:
        return self.game(self.members)


def scores(cell: Cell) -> dict[str, list[float]]:
    total = [0.0] * cell.clients
    for game in cell.games(plain=True):
        shapley = theirs.Shapley(list(range(cell.clients)), None, Model(game), None, 0.0)
        for client, value in enumerate(shapley.eval_ccshap(SAMPLES)):
            total[client] += value
    return {"ShapleyFL: complementary": total}


if __name__ == "__main__":
    main(scores)
