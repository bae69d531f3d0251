"""mplc: truncated orderings; `python mplc_scores.py CELLS OUT`.

Its table of worths is filled beforehand. Its __init__ loads TensorFlow, which no score here needs.
"""

import sys
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace

from cells import Cell, main

package = ModuleType("mplc")
package.__path__ = [str(Path(find_spec("mplc").origin).parent)]
learning = ModuleType("mplc.multi_partner_learning")
learning.basic_mpl = None
constants = ModuleType("mplc.constants")
sys.modules |= {"mplc": package, learning.__name__: learning, constants.__name__: constants}
package.constants = constants
from mplc.contributivity import Contributivity  # noqa: E402

ACCURACY = 0.1  # of a loss; as shipped 0.01, of an accuracy


def scores(cell: Cell) -> dict[str, list[float]]:
    n, total = cell.clients, 0
    partners = [SimpleNamespace(y_train=range(size)) for size in cell.sizes]
    for game in cell.games():
        said = Contributivity(SimpleNamespace(partners_list=partners))
        for size in range(1, n + 1):
            said.charac_fct_values |= {S: game(S) for S in combinations(range(n), size)}
        said.truncated_MC(sv_accuracy=ACCURACY)
        total = total + said.contributivity_scores
    return {"mplc: truncated orderings": total}


if __name__ == "__main__":
    main(scores)
