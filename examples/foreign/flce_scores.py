"""FLCE: scores of a table of worths; and MultiRounds, which trains: it replays the rounds.

`FOREIGN_CODE=... python flce_scores.py CELLS OUT`. Its cache's keys are ``str(set)``, which NumPy 2
writes in another way, so its environment has NumPy 1.
"""

import os
import sys
from itertools import combinations
from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from cells import Cell, main

sys.modules["torchvision"] = ModuleType("torchvision")  # only its data sets need it
sys.path.insert(0, os.environ["FOREIGN_CODE"])
from module import method as theirs  # noqa: E402

KINDS = {
    "individual": theirs.Individual,
    "leave one out": theirs.LeaveOneOut,
    "guided sampling": theirs.TMC_GuidedSampling_Shapley,
    "structured sampling": theirs.MC_StructuredSampling_Shapley,
    "least core": theirs.LeastCore,
}
# As in its config.py, where it is dec_fac, and in its main.py: twice the square of eight clients.
DECAY, BUDGET, VALUE = 0.95, 128, "accuracy"


class Replay(torch.nn.Module):
    """A model whose training by client k in round t is the recorded update."""

    device, calls = "cpu", 0

    def __init__(self, cell: Cell):
        super().__init__()
        self.w = torch.nn.Parameter(torch.from_numpy(cell.theta[0]))
        self.initial_state_dict = self.state_dict()
        self.num_epoch, self.held = len(cell.theta), [cell]

    def __deepcopy__(self, memo):
        copy = Replay(self.held[0])
        copy.w.data = self.w.data.clone()
        return copy

    def fit(self, samples, labels, **options):
        t, client = divmod(Replay.calls, self.held[0].clients)
        self.w.data = torch.from_numpy(self.held[0].theta[t] + self.held[0].updates[t, client])
        Replay.calls += 1


def scores(cell: Cell) -> dict[str, list[float]]:
    n, found = cell.clients, {}
    parts = [torch.empty(int(size), 0) for size in cell.sizes]
    loader = SimpleNamespace(X_train_parts=parts, y_train_parts=parts, X_test=None, y_test=None)
    for number, game in enumerate(cell.games()):
        cache = {str(set(S)): [game(S)] for k in range(n + 1) for S in combinations(range(n), k)}
        for name, kind in KINDS.items():
            said = kind(loader, SimpleNamespace(device="cpu"), {**cache}, [VALUE])
            ((*values,),), _ = said.get_contributions(seed=number, num_samples=BUDGET)
            found[f"FLCE: {name}"] = found.get(f"FLCE: {name}", 0) + np.array(values)
    Replay.calls = 0
    said = theirs.Multi_Rounds(loader, Replay(cell), {}, [VALUE])
    said.measure_value = lambda model, value: cell.accuracy(model.w.detach().numpy())
    ((*values,),), _ = said.get_contributions(seed=0, decfac=DECAY, num_local_epochs=1)
    return found | {"FLCE: MultiRounds": values}


if __name__ == "__main__":
    main(scores)
