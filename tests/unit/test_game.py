"""Game: a memoised set function that counts and checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedlab_mini as fm


@pytest.mark.parametrize("n", [1, 3, 20, 21, 62, 63, 70])
def test_values_come_in_the_order_asked_and_a_coalition_is_evaluated_once(n):
    asked: list[tuple[bool, ...]] = []

    def value(s: torch.Tensor) -> torch.Tensor:
        asked.extend(map(tuple, s.tolist()))
        return (s * (torch.arange(n) + 1.0)).sum(1).sqrt()

    game = fm.Game(n, value)
    s = torch.rand(50, n, generator=torch.Generator().manual_seed(0)) < 0.5
    wanted = (s * (torch.arange(n) + 1.0)).sum(1).sqrt().double()
    for some in (slice(10), slice(5, 20), slice(None)):
        assert torch.equal(game(s[some]), wanted[some])
    assert torch.equal(game(s.flip(0)), wanted.flip(0))
    assert set(asked) == {tuple(row) for row in s.tolist()}
    assert len(asked) == len(set(asked)) == game.evaluations


def test_all_is_indexed_by_bit_mask():
    game = fm.Game(3, lambda s: s.double() @ torch.tensor([1.0, 10, 100], dtype=torch.float64))
    assert game.all().tolist() == [0, 1, 10, 11, 100, 101, 110, 111]
    assert fm.all_coalitions(2).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_value_is_a_function_that_gives_one_finite_number_each():
    game = fm.Game(np.int64(3), lambda s: s.numpy().sum(1))
    assert game(np.array([[True, False, True]])).tolist() == game([[True, False, True]]).tolist()
    with pytest.raises(ValueError, match=r"value: expected an array \[4\]"):
        fm.Game(2, lambda s: s.double()).all()
    with pytest.raises(TypeError, match="value: "):
        fm.Game(2, lambda s: None).all()
    pairs_fail = fm.Game(3, lambda s: torch.where(s.sum(1) == 2, torch.nan, 1.0))
    with pytest.raises(ValueError, match=r"value: gave nan for the coalition \[0, 1\]"):
        pairs_fail.all()
