"""Exact Shapley values of a game that is a table: the cost of the estimator itself.

``fm.exact`` against pyDVL and shapiq, each in the environment that holds it. Evaluating the game is
one look-up in each: of whole coalition matrices here and in shapiq, of one set in pyDVL,
whose utilities take one sample each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .timing import Result, cpu, interleave, ratios
from .worker import Worker, WorkerError, python_with

NAME = "shapley"
PLAYERS = (10, 12, 14)
PEERS = (("pyDVL", "pydvl", 5.0), ("shapiq", "shapiq", 1.0))


def table(n: int) -> np.ndarray:
    """A random worth for every coalition, [2^n]; bit i of the index for player i."""
    return np.random.default_rng(n).normal(size=1 << n)


def shapiq(*, n: int) -> Callable[[], dict]:
    """shapiq's exact computer on a vectorised table game."""
    from shapiq import ExactComputer

    worth, bits, asked = table(n), 1 << np.arange(n), []

    def game(coalitions: np.ndarray) -> np.ndarray:
        asked.append(len(coalitions))
        return worth[coalitions @ bits]

    def repeat() -> dict:
        asked.clear()
        values = ExactComputer(game, n_players=n)("SV", 1)
        return {"values": [float(values[(i,)]) for i in range(n)], "evaluations": sum(asked)}

    return repeat


def pydvl(*, n: int) -> Callable[[], dict]:
    """pyDVL's Shapley valuation with its deterministic sampler, in large batches."""
    from pydvl.valuation import Dataset, NoStopping, ShapleyValuation
    from pydvl.valuation.samplers import DeterministicUniformSampler
    from pydvl.valuation.utility.base import UtilityBase

    worth, asked = table(n).tolist(), [0]

    class Table(UtilityBase):
        def __call__(self, sample) -> float:
            asked[0] += 1
            return worth[sum(1 << i for i in sample.subset.tolist())] if sample else worth[0]

    data = Dataset(np.arange(n)[:, None], np.zeros(n))

    def repeat() -> dict:
        asked[0] = 0
        sampler = DeterministicUniformSampler(batch_size=512)
        method = ShapleyValuation(Table(), sampler, NoStopping(sampler), show_warnings=False)
        method.fit(data)
        return {"values": method.result.values.tolist(), "evaluations": asked[0]}

    return repeat


def compare(label: str, python: str, n: int, target: float, repetitions: int) -> Result:
    """One package and one number of players, in turns; the values must agree."""
    import torch

    import fedlab_mini as fm
    from fedlab_mini.games.estimate import Estimate

    worth, bits = torch.from_numpy(table(n)), 1 << torch.arange(n)
    found: dict[str, Estimate] = {}
    answer: dict[str, dict] = {}

    def mine() -> None:
        found["mine"] = fm.exact(fm.Game(n, lambda s: worth[s.long() @ bits]))

    with Worker(python, f"tools.benchmarks.shapley:{label.lower()}", n=n) as worker:

        def theirs() -> float:
            answer["theirs"] = worker.run()
            return answer["theirs"]["seconds"]

        seconds = interleave({"theirs": theirs, "mine": cpu(mine)}, repetitions)
    assert found["mine"].evaluations == 1 << n, found["mine"].evaluations
    difference = float(np.abs(found["mine"].values.numpy() - answer["theirs"]["values"]).max())
    assert difference < 1e-9, f"values differ by {difference}"
    asked = answer["theirs"]["evaluations"]
    print(
        f"n = {n}: {1 << n:,} evaluations here, {asked:,} in {label}; values {difference:.0e} apart"
    )
    what = f"n = {n}: {label} / exact"
    return Result(NAME, what, ratios(seconds["theirs"], seconds["mine"]), target)


def run(repetitions: int) -> list[Result]:
    """Random table games of 10 to 14 players."""
    results = []
    for label, package, target in PEERS:
        if python := python_with(package, package, "FEDLAB_ORACLES_PYTHON"):
            try:
                for n in PLAYERS:
                    results.append(compare(label, python, n, target, repetitions))
            except WorkerError as error:  # another release, perhaps: keep the other figures
                print(f"{label}: {error}", flush=True)
    return results
