"""Game: a memoised set function that counts and checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.games.game import decode, encode


class Counting:
    """A value function that keeps what it was asked for."""

    def __init__(self):
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, s: torch.Tensor) -> torch.Tensor:
        self.asked += [tuple(row.nonzero().flatten().tolist()) for row in s]
        return (s * (torch.arange(s.shape[1]) + 1.0)).sum(1).sqrt()


@pytest.mark.parametrize("n", [1, 3, 20, 21, 62, 63, 70])
def test_values_come_in_the_order_asked(n):
    game = fm.Game(n, Counting())
    s = torch.rand(50, n, generator=torch.Generator().manual_seed(0)) < 0.5
    wanted = (s * (torch.arange(n) + 1.0)).sum(1).sqrt().double()
    assert torch.equal(game(s), wanted)
    assert torch.equal(game(s.flip(0)), wanted.flip(0))
    assert game(s).dtype == torch.float64


@pytest.mark.parametrize("n", [4, 25, 65])
def test_a_coalition_is_evaluated_once_in_the_games_life(n):
    value = Counting()
    game = fm.Game(n, value)
    s = torch.rand(30, n, generator=torch.Generator().manual_seed(1)) < 0.5
    for part in (s[:10], s[5:20], torch.cat([s, s])):
        game(part)
    distinct = {tuple(row.tolist()) for row in s}
    assert len(value.asked) == len(set(value.asked)) == len(distinct) == game.evaluations


def test_all_is_indexed_by_bit_mask():
    game = fm.Game(3, lambda s: s.double() @ torch.tensor([1.0, 10, 100], dtype=torch.float64))
    assert game.all().tolist() == [0, 1, 10, 11, 100, 101, 110, 111]
    assert fm.all_coalitions(2).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize("n", [1, 7, 62, 63, 130])
def test_codes_and_coalitions_are_inverse(n):
    s = torch.rand(40, n, generator=torch.Generator().manual_seed(n)) < 0.5
    s[0], s[1] = False, True
    assert torch.equal(decode(encode(s), n), s)
    assert int(encode(s)[1]) == 2**n - 1


def test_tallies_collect_what_was_asked_even_when_known_and_may_be_nested():
    game = fm.additive([1, 2, 3])
    empty, full = torch.zeros(1, 3).bool(), torch.ones(1, 3).bool()
    game(full)
    with game.tally() as outer:
        with game.tally() as inner:
            game(full)
        game(empty)
    game(torch.tensor([[True, False, False]]))
    assert inner == {7}
    assert outer == {0, 7}


@pytest.mark.parametrize(
    ("coalitions", "error"),
    [
        (torch.ones(2, 3), TypeError),
        (torch.ones(2, 3, dtype=torch.long), TypeError),
        ("abc", TypeError),
        (None, TypeError),
        (np.ones((2, 3)), TypeError),
        (torch.ones(3).bool(), ValueError),
        (torch.ones(2, 4).bool(), ValueError),
        (torch.ones(1, 2, 3).bool(), ValueError),
    ],
)
def test_coalitions_must_be_a_boolean_matrix(coalitions, error):
    with pytest.raises(error, match=r"coalitions: .*\[C, 3\]"):
        fm.additive([1, 2, 3])(coalitions)


def test_numpy_is_as_good_as_torch():
    game = fm.Game(np.int64(3), lambda s: s.numpy().sum(1))
    assert game(np.array([[True, False, True]])).tolist() == game([[True, False, True]]).tolist()
    assert game.all().tolist() == [0, 1, 1, 2, 1, 2, 2, 3]


def test_value_must_be_a_function_that_gives_one_finite_number_each():
    with pytest.raises(ValueError, match=r"value: expected an array \[4\]"):
        fm.Game(2, lambda s: s.double()).all()
    with pytest.raises(TypeError, match="value: "):
        fm.Game(2, lambda s: None).all()
    for bad in (torch.nan, torch.inf):
        pairs_fail = fm.Game(3, lambda s, bad=bad: torch.where(s.sum(1) == 2, bad, 1.0))
        with pytest.raises(ValueError, match=r"value: gave (nan|inf) for the coalition \[0, 1\]"):
            pairs_fail.all()


def test_no_more_than_24_players_for_all_coalitions():
    with pytest.raises(ValueError, match="n: "):
        fm.all_coalitions(25)
