"""Games whose Shapley value is known: by formula, by hand, by enumeration two ways."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from helpers import airport, majority

import fedlab_mini as fm

pytestmark = pytest.mark.oracle


def random_quadratic(n: int, P: int = 7, seed: int = 0) -> fm.Game:
    """A quadratic game with n random updates and a positive definite H."""
    generator = torch.Generator().manual_seed(seed)
    updates, root = (torch.randn(m, P, generator=generator, dtype=torch.float64) for m in (n, P))
    weights = torch.rand(n, generator=generator, dtype=torch.float64)
    return fm.quadratic(updates, weights / weights.sum(), root[0], root @ root.T)


GAMES = {
    "additive 1": lambda: fm.additive([3.0]),
    "glove 1+4": lambda: fm.glove(1, 4),
    "glove 5+7": lambda: fm.glove(5, 7),
    "airport 7": lambda: airport([3, 1, 2, 2, 0, 5.5, 1]),
    "quadratic 5": lambda: random_quadratic(5),
}


def by_orders(game: fm.Game) -> torch.Tensor:
    """The Shapley value by its definition: what a player adds, averaged over all n! orders."""
    worth, total = game.all().tolist(), [0.0] * game.n
    for order in itertools.permutations(range(game.n)):
        before = 0
        for player in order:
            total[player] += worth[before | 1 << player] - worth[before]
            before |= 1 << player
    return torch.tensor(total, dtype=torch.float64) / math.factorial(game.n)


@pytest.mark.parametrize("make", GAMES.values(), ids=GAMES.keys())
def test_enumeration_two_ways_gives_the_closed_form(make):
    game = make()
    torch.testing.assert_close(fm.exact(game).values, game.shapley, rtol=1e-11, atol=1e-11)
    assert game.evaluations == 2**game.n
    if game.n <= 7:
        torch.testing.assert_close(by_orders(game), game.shapley, rtol=1e-11, atol=1e-11)


BY_HAND = [
    (fm.glove(1, 2), [2 / 3, 1 / 6, 1 / 6]),
    (airport([3, 1, 2]), [11 / 6, 1 / 3, 5 / 6]),
    (majority([50, 49, 1], 51), [2 / 3, 1 / 6, 1 / 6]),
    # The council of the European Economic Community of 1958: Luxembourg's vote never counted.
    (majority([4, 4, 4, 2, 2, 1], 12), [14 / 60] * 3 + [9 / 60] * 2 + [0]),
    # The United Nations Security Council since 1965: five vetoes.
    (majority([7] * 5 + [1] * 10, 39), [421 / 2145] * 5 + [4 / 2145] * 10),
]


@pytest.mark.parametrize(("game", "phi"), BY_HAND, ids=[game.name for game, _ in BY_HAND])
def test_values_known_by_hand(game, phi):
    wanted = torch.tensor(phi, dtype=torch.float64)
    torch.testing.assert_close(fm.exact(game).values, wanted, rtol=1e-10, atol=1e-12)


def test_quadratic_worth_is_minus_the_loss_at_the_coalitions_step():
    game = fm.quadratic(
        torch.tensor([[1.0, 0.0], [0.0, 2.0]]),
        torch.tensor([0.5, 0.25]),
        torch.tensor([-1.0, 1.0]),
        torch.tensor([[2.0, 1.0], [1.0, 4.0]]),
    )
    # x_S = (.5, 0), (0, .5), (.5, .5); loss g.x + x'Hx/2
    assert game.all().tolist() == pytest.approx([0, 0.5 - 0.25, -0.5 - 0.5, -1.0])


def test_quadratic_with_the_cosine_games_choice_is_alignment():
    updates = torch.randn(4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    total, c = weights @ updates, 1.7
    game = fm.quadratic(updates, weights, -c * total, torch.eye(6))
    alignment = (c - 0.5) * weights * (updates @ total)
    torch.testing.assert_close(fm.exact(game).values, alignment, rtol=1e-12, atol=1e-12)


def test_one_antithetic_pair_is_exact_where_only_pairs_interact():
    game = random_quadratic(10, seed=1)
    pair = fm.permutation(game, 2, antithetic=True)
    torch.testing.assert_close(pair.values, game.shapley, rtol=1e-11, atol=1e-11)
    assert pair.evaluations <= 2 * 9 + 2
    plain = fm.permutation(game, 200)
    assert float((plain.values - game.shapley).abs().max()) > 1e-3


def test_unanimity_games_share_equally():
    for size in range(1, 7):
        game = fm.Game(6, lambda s, size=size: s[:, :size].all(1).double())
        phi = fm.exact(game).values
        assert phi.tolist() == pytest.approx([1 / size] * size + [0] * (6 - size))
        assert fm.banzhaf(game).values.tolist() == pytest.approx(
            [2.0 ** (1 - size)] * size + [0] * (6 - size)
        )
