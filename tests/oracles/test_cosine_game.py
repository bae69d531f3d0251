"""The cosine game by enumeration, and how far a client's cosine is from its Shapley value."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

import fedlab_mini as fm


def directions(n: int, seed: int, spread: float | Tensor, entries: int = 20) -> Tensor:
    """n unit updates around a common direction; the larger ``spread``, the less alike."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n + 1, entries, generator=generator, dtype=torch.float64)
    rows = normalize(rows, dim=1)
    return normalize(rows[:1] + spread * rows[1:], dim=1)


def worth(rows: Tensor, members: tuple[int, ...]) -> float:
    """v(S) by PyTorch's own cosine; the empty coalition is worth 0."""
    if not members:
        return 0.0
    together = rows[list(members)].sum(0)
    return float(cosine_similarity(together, rows.sum(0), dim=0, eps=1e-300))


def shapley(rows: Tensor) -> Tensor:
    """Shapley values [n] of the cosine game: what each adds, over all orders."""
    n, total = len(rows), torch.zeros(len(rows), dtype=torch.float64)
    for order in itertools.permutations(range(n)):
        for place, i in enumerate(order):
            total[i] += worth(rows, order[: place + 1]) - worth(rows, order[:place])
    return total / math.factorial(n)


# --- the game ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1e6, 0.3], ids=["random", "alike"])
@pytest.mark.parametrize("scale", [None, 1e-14, 1e9])
@pytest.mark.parametrize("n", [1, 5])
def test_worths_and_shapley_values_by_the_definition(spread, n, scale):
    """Lengths of updates do not matter, nor a common factor of the weights."""
    rows, lengths = directions(n, 3, spread), torch.arange(1.0, n + 1)[:, None]
    rows[: n // 2] *= -1
    weights = None if scale is None else scale * (torch.arange(n) + 2).double()
    game = fm.cosine_game(lengths * rows, weights)
    if weights is not None:
        rows = weights[:, None] / scale * rows
    for members, found in zip(fm.all_coalitions(n), game.all().tolist(), strict=True):
        wanted = worth(rows, tuple(members.nonzero().flatten().tolist()))
        assert found == pytest.approx(wanted, abs=1e-10)
    values = fm.exact(game).values
    torch.testing.assert_close(values, shapley(rows), rtol=0, atol=1e-10)
    assert float(values.sum()) == pytest.approx(1, abs=1e-12)


def test_a_zero_update_is_a_null_player():
    rows = torch.cat([directions(3, 1, 0.5), torch.zeros(1, 20, dtype=torch.float64)])
    game = fm.cosine_game(rows)
    assert float(game(torch.tensor([[False, False, False, True]]))) == 0
    values = fm.exact(game).values
    assert float(values[3]) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(values[:3], shapley(rows[:3]), rtol=0, atol=1e-10)


def test_coalitions_that_cancel_are_worth_zero():
    rows = torch.tensor([[1.0, 0], [-1, 0], [0.6, 0.8]], dtype=torch.float64)
    game = fm.cosine_game(rows)
    assert float(game(torch.tensor([[True, True, False]]))) == 0
    assert float(game(torch.tensor([[True, False, False]]))) == pytest.approx(0.6)


@pytest.mark.parametrize(
    "updates", [[[1.0, torch.nan]], [[1.0, 0], [-1, 0]], [[0.0, 0.0]]], ids=str
)
def test_what_makes_no_game_is_named(updates):
    with pytest.raises(ValueError, match=r"^updates: "):
        fm.cosine_game(torch.tensor(updates))


# --- cosines against Shapley values --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_eight_alike_clients_have_shapley_values_like_their_cosines(seed):
    rows = directions(8, seed, 0.5)
    phi = fm.exact(fm.cosine_game(rows)).values
    psi = fm.cosines(rows, rows.sum(0))
    torch.testing.assert_close(psi, cosine_similarity(rows, rows.sum(0, keepdim=True), dim=1))
    assert float((psi / psi.sum() - phi / phi.sum()).abs().sum()) < 0.01
    assert (psi > 3 * phi).all()  # raw cosines are several times the Shapley values
    rows[5] *= -1  # the order of the seven others, who differ by chance, need not be the same
    phi = fm.exact(fm.cosine_game(rows)).values
    psi = fm.cosines(rows, rows.sum(0))
    assert phi.argmin() == psi.argmin() == 5
    assert max(float(psi[5]), float(phi[5])) < 0
