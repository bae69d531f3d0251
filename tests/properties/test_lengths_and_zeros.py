"""Scores of directions do not know lengths, and who sends zeros moves nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
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
# Of these the definition says that zeros leave the others' order as it is.
UNMOVED = {
    **{name: made for name, made in DIRECTIONS.items() if name != "size"},
    **IN_PROPORTION,
    "second order": lambda: fm.Taylor(2),
    "second order, capped": lambda: fb.CappedTaylor(2),
    "Shapley, silent": lambda: BOOK["Shapley, silent"],
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


def after(made: Made, theta: Tensor, updates: Tensor, samples: tuple[Tensor, Tensor], rounds=2):
    """What a strategy says after some rounds of equal clients, and where its last step led."""
    strategy, clients = made(), torch.arange(len(updates))
    server = Server(len(updates), 3, NET, samples, 0)
    state = strategy.init(server)
    for t in range(1, rounds + 1):
        rows = updates if t == 1 else updates.flip(1)
        this = Round(t, theta, clients, torch.full_like(clients, 9), rows)
        model, _, state, _ = strategy.step(server, state, this)
    return strategy.scores(server, state).double(), model - theta


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


@pytest.mark.parametrize("made", UNMOVED.values(), ids=UNMOVED)
@pytest.mark.parametrize("zeros", [1, 9])
def test_zeros_leave_the_order_of_the_others(made, zeros):
    for seed in range(2):
        theta, updates, samples = drawn(seed)
        small = 0.1 * updates
        with_zeros = torch.cat([small, small.new_zeros(zeros, NET.P)])
        # One round: FedIF scales each to [0, 1], and zeros may be at an end of it.
        alone, step = after(made, theta, small, samples, 1)
        beside, moved = after(made, theta, with_zeros, samples, 1)
        told_apart = float(len(alone.unique()) > 1)  # not where all cosines are cut to 0
        assert fm.kendall(alone, beside[:5]) == pytest.approx(told_apart), (seed, alone, beside)
        assert float(moved.norm()) > 1e-3 * float(step.norm()), "the model stands still"
