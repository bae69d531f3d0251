"""FedML's three assessors: MR as shipped; GTG and LOO with one line added.

They call for an aggregation and a validation function; here the first makes the set of members,
the second looks up its worth. `python fedml_scores.py CELLS OUT`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

from cells import Cell, main

# The package's own __init__ starts its services; these two stand in for it.
ROOT = Path(find_spec("fedml").origin).parent
for name, place in (("fedml", ROOT), ("fedml.core", ROOT / "core")):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [str(place)]
KINDS = {
    "MR": ("mr_shapley_value", "MRShapleyValue"),
    "GTG, one line added": ("gtg_shapley_value", "GTGShapleyValue"),
    "LOO, one line added": ("leave_one_out", "LeaveOneOut"),
}


def assess(kind: str, games: list, clients: int, ids_from: int, repaired: bool):
    """An assessor that has seen all rounds of clients ids_from, ids_from + 1, ..."""
    module, name = KINDS[kind]
    args = SimpleNamespace(client_num_in_total=clients)
    assessor = getattr(import_module(f"fedml.core.contribution.{module}"), name)(args)
    ids = list(range(ids_from, ids_from + clients))
    for args.round_idx, game in enumerate(games):

        def worth(members, data, device, game=game):
            return game([k - ids_from for k in members])

        if repaired:
            assessor.shapley_values_by_round[args.round_idx] = {}  # the line
        models = dict.fromkeys(ids)
        ends = (0.0, worth(ids, None, None))
        assessor.run(clients, ids, lambda args, kept: list(kept), models, *ends, None, worth, None)
    return assessor


def scores(cell: Cell) -> dict[str, list[float]]:
    found = {}
    for kind in KINDS:
        # GTG looks for client 1 in the first place; LOO takes an id for a place.
        ids_from = 0 if kind.startswith("LOO") else 1
        said = assess(kind, list(cell.games()), cell.clients, ids_from, kind != "MR")
        rounds = said.shapley_values_by_round.values()
        ids = range(ids_from, ids_from + cell.clients)
        found[f"FedML: {kind}"] = [sum(one.get(k, 0) for one in rounds) for k in ids]
    return found


if __name__ == "__main__":
    main(scores)
