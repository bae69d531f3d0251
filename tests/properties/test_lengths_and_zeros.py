"""Scores of directions do not know lengths, and who sends zeros moves nobody else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, partialmethod

import pytest
import torch
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.judge.registry import scoring
from fedlab_mini.methods.cgsv import cosine_game, cosines
from fedlab_mini.methods.reinforce import shortened

NET = fm.mlp(4, 5, 3)
FACTORS = (1e-30, 1e-12, 1e-6, 1e6, 1e12, 1e30)
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
# To a small step, a model's own curvature says nothing: these are then said of directions, too.
NEAR = {"FedCE": lambda: BOOK["FedCE"]}
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


@pytest.mark.parametrize("made", (DIRECTIONS | NEAR).values(), ids=DIRECTIONS | NEAR)
def test_a_common_factor_changes_no_score_of_directions(made):
    for seed in range(3):
        theta, updates, samples = drawn(seed)
        wanted, _ = after(made, theta, 1e-4 * updates, samples)
        for factor in FACTORS[: 3 if made in NEAR.values() else None]:
            found, step = after(made, theta, factor * updates, samples)
            assert step.isfinite().all()
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12, msg=f"{factor:g}")


@pytest.mark.parametrize("made", IN_PROPORTION.values(), ids=IN_PROPORTION)
def test_a_common_factor_multiplies_a_first_order_score(made):
    for seed in range(3):
        theta, updates, samples = drawn(seed)
        wanted, _ = after(made, theta, updates, samples)
        for factor in FACTORS:
            found, _ = after(made, theta, factor * updates, samples)
            torch.testing.assert_close(found / factor, wanted, rtol=1e-9, atol=0, msg=f"{factor:g}")


@pytest.mark.parametrize("factor", FACTORS)
def test_a_common_factor_changes_no_cosine(factor):
    _, updates, _ = drawn(1)
    step = updates.mean(0)
    torch.testing.assert_close(cosines(factor * updates, factor * step), cosines(updates, step))
    wanted, found = (fm.exact(cosine_game(rows)).values for rows in (updates, factor * updates))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("made", UNMOVED.values(), ids=UNMOVED)
@pytest.mark.parametrize("zeros", [1, 5, 9])
def test_zeros_leave_the_order_of_the_others(made, zeros):
    for seed in range(3):
        theta, updates, samples = drawn(seed)
        small = 0.1 * updates
        with_zeros = torch.cat([small, small.new_zeros(zeros, NET.P)])
        # One round: FedIF scales each to [0, 1], and zeros may be at an end of it.
        alone, step = after(made, theta, small, samples, 1)
        beside, moved = after(made, theta, with_zeros, samples, 1)
        told_apart = float(len(alone.unique()) > 1)  # not where all cosines are cut to 0
        assert fm.kendall(alone, beside[:5]) == pytest.approx(told_apart), (seed, alone, beside)
        assert float(moved.norm()) > 1e-3 * float(step.norm()), "the model stands still"


@pytest.mark.parametrize("zeros", [0, 1, 5, 9, 30])
def test_longer_updates_are_cut_to_the_median_of_what_was_sent(zeros):
    """Neither more nor less than without the zeros."""
    for seed in range(3):
        theta, updates, samples = drawn(seed)
        rows = torch.cat([updates, torch.zeros(zeros, NET.P, dtype=torch.float64)])
        lengths = updates.norm(dim=1, keepdim=True)
        cut = updates * (lengths.median() / lengths).clamp(max=1)
        wanted, _ = after(lambda: fm.Taylor(1), theta, cut, samples)
        found, _ = after(lambda: fb.CappedTaylor(1), theta, rows, samples)
        share = len(rows) / len(updates)  # zeros count in the weights
        torch.testing.assert_close(found[:5] * share, wanted)
        assert not found[5:].any()
        torch.testing.assert_close(shortened(rows, 1.0)[:5], cut)  # as F-RCCE reads them


def counting(strategy: fm.FedAvg, bill: list[int], function: Callable, *given):
    bill.append(1)
    return function(strategy, *given)


def test_guided_orders_settle_alike_whatever_the_unit_of_worth(monkeypatch):
    """A round's worths times 1e-13: as many orders, and the same values in that unit."""
    bills, sweep = [], fb.GTGShapley._sweep
    for unit in (1.0, 1e-13):
        theta, updates, samples = drawn(2)
        chance = torch.rand(32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        weights = 1 << torch.arange(5)

        def worth(coalitions: Tensor, unit=unit, chance=chance, weights=weights) -> Tensor:
            return unit * chance[coalitions.long() @ weights]

        orders: list[int] = []
        game, asked = fm.Game(5, worth), partialmethod(counting, orders, sweep)
        monkeypatch.setattr(fb.GTGShapley, "table", lambda *given, game=game: game)
        monkeypatch.setattr(fb.GTGShapley, "_sweep", asked)
        made = partial(fb.GTGShapley, within=0.0, samples=400)
        scores, _ = after(made, theta, updates, samples, 1)
        bills.append((len(orders), (scores / unit).round(decimals=6).tolist()))
    assert bills[0] == bills[1]
