"""Scores of directions do not know lengths, and first-order scores grow with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import Played, a_round
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Server
from fedlab_mini.judge.registry import scoring

NET = fm.mlp(4, 5, 3)
FACTORS = (1e-30, 1e-6, 1e30)
Made = Callable[[], fm.FedAvg]

BOOK = scoring()
DIRECTIONS: dict[str, Made] = {  # what they say of a round is said of directions alone
    "size": fm.FedAvg,
    "CGSV": fm.CGSV,
    "CGSV, lengths kept": lambda: fm.CGSV(normalise=False),
    "CGSV, original": lambda: fm.CGSV(original=True),
    "CGSV, as printed": lambda: fm.CGSV(literal=True),
    **{name: lambda name=name: BOOK[name] for name in ("class cosine", "trust cosine", "FedIF")},
}
IN_PROPORTION: dict[str, Made] = {  # twice the updates, twice the score
    "first order": lambda: fm.Taylor(1),
    "first order, capped": lambda: fb.CappedTaylor(1),
}


def drawn(seed: int, clients: int = 5) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """A model [P], updates [m, P], validation samples, all in float64."""
    chance = torch.Generator().manual_seed(seed)
    real = {"generator": chance, "dtype": torch.float64}
    x, y = torch.randn(40, 4, **real), torch.randint(0, 3, (40,), generator=chance)
    lengths = 10 ** torch.rand(clients, 1, **real)
    pull = torch.randn(NET.P, **real)
    updates = 0.01 * lengths * (pull + torch.randn(clients, NET.P, **real))
    return NET.init(seed, dtype=torch.float64), updates, (x, y)


def after(made: Made, theta: Tensor, updates: Tensor, samples: tuple[Tensor, Tensor]):
    """What a strategy says after two rounds of equal clients, and where its last step led."""
    shown = Played(made(), Server(len(updates), 3, NET, samples, 0))
    for t, rows in ((1, updates), (2, updates.flip(1))):
        step = shown.step(a_round(rows, t=t, theta=theta)).theta - theta
    return shown.scores.double(), step


@pytest.mark.parametrize("name", DIRECTIONS | IN_PROPORTION)
def test_a_common_factor_changes_no_direction_and_multiplies_a_first_order_score(name):
    made = (DIRECTIONS | IN_PROPORTION)[name]
    theta, updates, samples = drawn(1)
    wanted, _ = after(made, theta, updates, samples)
    for factor in FACTORS:
        found, step = after(made, theta, factor * updates, samples)
        assert step.isfinite().all()
        unit = factor if name in IN_PROPORTION else 1
        torch.testing.assert_close(found / unit, wanted, rtol=1e-9, atol=0, msg=f"{factor:g}")
