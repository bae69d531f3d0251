"""What scores of whole games say of a round of the bench, where a network is written out in NumPy.

Of the package the references take the round's numbers and the games' values, which
``test_values`` and ``test_closed_forms`` hold against their definitions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import truth
from fedlab_bench.compared import METHODS, compared
from fedlab_bench.recording import Recorded
from fedlab_mini.gate.games import least_core, nucleolus

SCENARIO, SEED, N = "sizes", 0, 8
VALUES = {"Shapley": fm.exact, "Banzhaf": fm.banzhaf, "leave one out": fm.leave_one_out}
VALUES |= {"least core": least_core, "nucleolus": nucleolus}
STORED = ("least core", "nucleolus", "second order", "FedIF")


@cache
def rounds() -> Recorded:
    return fb.recorded(fb.WORLDS[SCENARIO], SEED)


@cache
def worths() -> torch.Tensor:
    """Minus the validation loss of every coalition's mean model in the first round, [256]."""
    record, (x, y) = rounds().records[0], rounds().server.validation
    inputs, labels, sizes = x.flatten(1).numpy(), y.numpy(), record["sizes"].numpy()
    found = []
    for members in fm.all_coalitions(N).numpy():
        shares = members * sizes / max(1, members @ sizes)
        theta = record["theta"].numpy() + shares @ record["updates"].numpy()
        first, second = theta[: 64 * 32].reshape(32, 64), theta[2080:2400].reshape(10, 32)
        hidden = np.maximum(inputs @ first.T + theta[2048:2080], 0)
        scores = hidden @ second.T + theta[2400:]
        chosen = scores[np.arange(len(labels)), labels]
        found.append(-(np.log(np.exp(scores).sum(1)) - chosen).mean())
    return torch.tensor(np.array(found)).double()


@pytest.mark.parametrize("name", VALUES)
def test_a_score_is_the_value_of_the_first_round(make_table_game, name: str) -> None:
    method, server = METHODS[name], replace(rounds().server, seed=0)
    done = method.step(server, method.init(server), rounds().rounds[0])
    wanted = VALUES[name](make_table_game(worths())).values
    found = method.scores(server, done.state).double()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert float(wanted.max() - wanted.min()) > 1e-3


def test_the_board_has_what_they_say_of_all_rounds() -> None:
    """Stored scores are what the methods of today say of the rounds of today."""
    methods = {name: compared()[name] for name in STORED}
    submitted = {
        one.name: one
        for one in map(
            fb.read_submission, sorted((truth.folders()[0] / "submissions").glob("*.csv"))
        )
    }
    for one in fb.entered(methods, [SCENARIO], [SEED]):
        mine, stored = one.scores[SCENARIO, SEED], submitted[one.name].scores[SCENARIO, SEED]
        assert (mine - stored).abs().max() <= 1e-4 * stored.abs().max()
        assert torch.isfinite(stored).all()
