"""FLCE: scores of a table of worths; and MultiRounds, which trains: it replays the rounds.

`FOREIGN_CODE=... python flce_scores.py CELLS OUT`. Its cache's keys are ``str(set)``, which NumPy 2
writes in another way, so its environment has NumPy 1.
"""

import os
import sys
from itertools import combinations
from types import ModuleType, SimpleNamespace

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
DECAY, VALUE = 0.95, "accuracy"  # dec_fac of its config.py
BUDGET = 128  # twice the square of eight clients, as its main.py has it


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
        sets = [set(S) for size in range(n + 1) for S in combinations(range(n), size)]
        for name, kind in KINDS.items():
            cache = {str(S): [game(S)] for S in sets}
            said = kind(loader, SimpleNamespace(device="cpu"), cache, [VALUE])
            ((*values,),), _ = said.get_contributions(seed=number, num_samples=BUDGET)
            total = found.setdefault(f"FLCE: {name}", [0.0] * n)
            found[f"FLCE: {name}"] = [sum(pair) for pair in zip(total, values, strict=True)]
    Replay.calls = 0
    said = theirs.Multi_Rounds(loader, Replay(cell), {}, [VALUE])
    said.measure_value = lambda model, value: cell.accuracy(model.w.detach().numpy())
    ((*values,),), _ = said.get_contributions(seed=0, decfac=DECAY, num_local_epochs=1)
    return found | {"FLCE: MultiRounds": values}


if __name__ == "__main__":
    main(scores)
