"""ShapFed: class-wise cosines with the aggregate, of models and of updates.

`FOREIGN_CODE=... python shapfed_scores.py CELLS OUT`. Its scripts train when they are imported, so
each function is read out of its script. The moving average and the weights are those of the script.
"""

import ast
import os
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from cells import Cell, main

MEMORY = 0.9  # mu of main_synthetic.py
CLASSES = 10  # written into main_cifar10.py: classes that lack here are rows of zeros


class Server:
    """What its functions ask of a server: a weighted mean of models or of updates."""

    def __init__(self, clients):
        self.held = [client.get_gradients() for client in clients]

    def aggregate(self, coefficients):
        pairs = list(zip(coefficients, self.held, strict=True))
        mean = {name: sum(weight * one[name] for weight, one in pairs) for name in self.held[0]}
        self.model, self.stored_grads = SimpleNamespace(state_dict=lambda: mean), mean

    aggregate_gradients = aggregate


def lifted(script: str, function: str):
    """A function of a script, without running the script."""
    text = Path(os.environ["FOREIGN_CODE"], script).read_text()
    (found,) = [one for one in ast.parse(text).body if getattr(one, "name", "") == function]
    known = {"torch": torch, "F": torch.nn.functional, "np": np, "combinations": combinations}
    exec(ast.unparse(found), known | {"Server": Server}, own := {})
    return own[function]


KINDS = {
    "models": (lifted("main_synthetic.py", "compute_cssv"), "fc5"),
    "updates": (lifted("main_cifar10.py", "compute_cssv_cifar"), "linear"),
}


def scores(cell: Cell) -> dict[str, list[float]]:
    found = {}
    for kind, (function, layer) in KINDS.items():
        values, weights = None, np.full(cell.clients, 1 / cell.clients)
        for theta, updates in zip(cell.theta, cell.updates, strict=True):
            clients = []
            for update in updates:
                *_, last, shift = cell.layers(update + theta if kind == "models" else update)
                lacking = CLASSES - len(last) if kind == "updates" else 0
                parts = np.pad(last, ((0, lacking), (0, 0))), np.pad(shift, (0, lacking))
                names = f"{layer}.weight", f"{layer}.bias"
                state = dict(zip(names, map(torch.tensor, parts), strict=True))
                model = SimpleNamespace(state_dict=lambda state=state: state)
                clients.append(SimpleNamespace(model=model, get_gradients=model.state_dict))
            own, _ = function(clients, weights)
            values = own if values is None else MEMORY * values + (1 - MEMORY) * own
            weights = values / values.sum()
        found[f"ShapFed: {kind}"] = values
    return found


if __name__ == "__main__":
    main(scores)
