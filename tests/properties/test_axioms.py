"""The axioms, on games that hypothesis draws: who should satisfy which, and who should not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers import airport, majority
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate

Estimator = Callable[[fm.Game], Estimate]

EXACT: dict[str, Estimator] = {"subsets": fm.exact, "kernel": lambda game: fm.kernel(game, 64)}
ORDERS: dict[str, Estimator] = {  # efficient and null in every single order
    "permutation": lambda game: fm.permutation(game, 3, 1),
    "antithetic": lambda game: fm.permutation(game, 4, 1, antithetic=True),
    "truncated": lambda game: fm.truncated(game, 3, 0.0, 1),
    "guided": lambda game: fm.guided(game, 4, 0.0, 1),
}
KERNEL: dict[str, Estimator] = {"few": lambda game: fm.kernel(game, 2 * game.n + 2, 1)}
BANZHAF: dict[str, Estimator] = {"Banzhaf": fm.banzhaf}
ONE: dict[str, Estimator] = {"leave one out": fm.leave_one_out, "alone": fm.alone}
SAME_COALITIONS = {  # what they evaluate depends on the seed only, so they are linear in the worths
    **ORDERS,
    "sampled Banzhaf": lambda game: fm.banzhaf(game, 40, 2),
}


def named(*groups: dict[str, Estimator]) -> pytest.MarkDecorator:
    """Run the test for every estimator of the groups."""
    merged = {name: f for group in groups for name, f in group.items()}
    return pytest.mark.parametrize("estimate", merged.values(), ids=merged.keys())


def tables(least: int = 1, most: int = 5) -> st.SearchStrategy[Tensor]:
    """The worths [2^n] of a game with ``least`` to ``most`` players."""
    worths = st.floats(-100, 100, allow_subnormal=False)
    return (
        st.integers(least, most)
        .flatmap(lambda n: arrays(np.float64, 1 << n, elements=worths))
        .map(torch.from_numpy)
    )


def players(table: Tensor) -> int:
    """n, from the 2^n worths."""
    return len(table).bit_length() - 1


def close(a: Tensor, b: Tensor) -> None:
    """Equal to rounding, for worths up to some hundreds."""
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@named(EXACT, ORDERS, KERNEL)
@given(table=tables())
def test_efficiency(estimate, make_table_game, table):
    values = estimate(make_table_game(table)).values
    close(values.sum(), table[-1] - table[0])


@named(EXACT, ORDERS, BANZHAF, ONE)
@given(table=tables(), data=st.data())
def test_null_player_gets_nothing(estimate, make_table_game, table, data):
    null = data.draw(st.integers(0, players(table)), label="null player")
    wider = table.view(-1, 1, 1 << null).expand(-1, 2, -1).reshape(-1)
    close(estimate(make_table_game(wider)).values[null], torch.tensor(0.0, dtype=torch.float64))


@named(EXACT, BANZHAF, ONE, SAME_COALITIONS)
@given(table=tables(), a=st.floats(-3, 3), b=st.floats(-3, 3))
def test_linearity(estimate, make_table_game, table, a, b):
    """A constant added to every worth changes nothing, either."""
    other = (table * 7.3 + 11).sin() * 50
    first, second, both = (
        estimate(make_table_game(t)).values for t in (table, other, a * table + b * other + 10 * b)
    )
    close(both, a * first + b * second)


@given(w=arrays(np.float64, st.integers(1, 6), elements=st.floats(-10, 10)).map(torch.from_numpy))
def test_additive_games_leave_nothing_to_estimate(w):
    game = fm.additive(w)
    for estimate in (*EXACT.values(), *BANZHAF.values(), *ONE.values(), *ORDERS.values()):
        close(estimate(game).values, w)


def test_one_client_s_own_gain_and_loss_where_any_two_suffice():
    for estimate in ONE.values():
        assert estimate(majority([1, 1, 1], 2)).values.tolist() == [0, 0, 0]
    assert fm.alone(airport([1, 2, 3])).values.tolist() == [1, 2, 3]
