"""Scores of directions do not know lengths, and first-order scores grow with them."""

from __future__ import annotations

import pytest
import torch
from helpers import Played, a_round, numbers

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Server
from fedlab_mini.judge.registry import scoring

NET, BOOK = fm.mlp(4, 5, 3), scoring()
SERVER = Server(5, 3, NET, (numbers(40, 4, seed=1), torch.arange(40) % 3), 0)
THETA = NET.init(1, dtype=torch.float64)
UPDATES = 0.1 * (numbers(1, NET.P, seed=2) + numbers(5, NET.P, seed=3))
DIRECTIONS = {"size": fm.FedAvg(), "CGSV": fm.CGSV(), "CGSV, as printed": fm.CGSV(literal=True)}
DIRECTIONS |= {name: BOOK[name] for name in ("class cosine", "trust cosine", "FedIF")}
IN_PROPORTION = {"first order": fm.methods.Taylor(1), "capped": fb.CappedTaylor(1)}


def after(strategy: fm.FedAvg, factor: float) -> torch.Tensor:
    """What a strategy says after two rounds of equal clients."""
    shown = Played(strategy, SERVER)
    for t, rows in ((1, UPDATES), (2, UPDATES.flip(1))):
        assert shown.step(a_round(factor * rows, t=t, theta=THETA)).theta.isfinite().all()
    return shown.scores.double()


@pytest.mark.parametrize("name", DIRECTIONS | IN_PROPORTION)
def test_a_common_factor_changes_no_direction_and_multiplies_a_first_order_score(name):
    strategy = (DIRECTIONS | IN_PROPORTION)[name]
    for factor in (1e-30, 1e-6, 1e30):
        unit = factor if name in IN_PROPORTION else 1
        found = after(strategy, factor) / unit
        torch.testing.assert_close(found, after(strategy, 1), rtol=1e-9, atol=0)
