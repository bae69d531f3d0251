"""Values of table games by pyDVL and shapiq; JSON in and out.

Lists of worths [2^n] on stdin, values on stdout. Runs in an environment of its own, without
fedlab_mini; see ``test_foreign.py``.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from pydvl.valuation import (
    BanzhafValuation,
    DeterministicUniformSampler,
    FiniteSequentialIndexIteration,
    LOOValuation,
    NoStopping,
    ShapleyValuation,
)
from pydvl.valuation.dataset import Dataset
from pydvl.valuation.utility.base import UtilityBase
from shapiq import ExactComputer, KernelSHAP


class Table(UtilityBase):
    """pyDVL's utility of a subset of the players: a look-up in the table."""

    def __init__(self, worths: np.ndarray):
        self.worths = worths

    def __call__(self, sample) -> float:
        members = [] if sample is None else np.asarray(sample.subset, dtype=int).tolist()
        return float(self.worths[sum(1 << k for k in members)])


def pydvl_values(worths: np.ndarray, n: int) -> dict[str, list[float]]:
    """Shapley, Banzhaf and leave-one-out by pyDVL, every marginal contribution enumerated."""
    players = Dataset(np.arange(n)[:, None].astype(float), np.zeros(n))
    every = {"index_iteration": FiniteSequentialIndexIteration, "batch_size": 1}
    valuations = {
        "shapley": ShapleyValuation(
            Table(worths), DeterministicUniformSampler(**every), NoStopping(), progress=False
        ),
        "banzhaf": BanzhafValuation(
            Table(worths), DeterministicUniformSampler(**every), NoStopping(), progress=False
        ),
        "leave_one_out": LOOValuation(Table(worths), progress=False),
    }
    found = {}
    for name, valuation in valuations.items():
        result = valuation.fit(players).result
        order = np.argsort(result.indices)  # results may come sorted by value
        found[name] = np.asarray(result.values)[order].tolist()
    return found


def shapiq_values(worths: np.ndarray, n: int) -> dict[str, list[float]]:
    """Shapley and Banzhaf by shapiq, and its KernelSHAP with the budget of all coalitions."""
    bits = 1 << np.arange(n)

    def game(coalitions: np.ndarray) -> np.ndarray:
        return worths[np.asarray(coalitions, dtype=int) @ bits]

    def single(values) -> list[float]:
        return [float(values[(k,)]) for k in range(n)]

    exact = ExactComputer(n_players=n, game=game)
    return {
        "shapley": single(exact("SV", order=1)),
        "banzhaf": single(exact("BV", order=1)),
        "kernel": single(KernelSHAP(n=n, random_state=0).approximate(2**n, game)),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answers = []
    for table in map(np.array, json.load(sys.stdin)):
        players = len(table).bit_length() - 1
        answers.append(
            {"pydvl": pydvl_values(table, players), "shapiq": shapiq_values(table, players)}
        )
    print(json.dumps(answers))
