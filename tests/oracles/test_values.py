"""Other values against published anchors, Kohlberg's criterion, and a general-purpose solver."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.gate.games import core_shortfall, least_core, nucleolus


def game_of(worth: dict[str, float], n: int) -> fm.Game:
    """A game by its coalitions, such as {"1": 3.0, "12": 5.0}; the others are worth 0."""
    table = torch.zeros(1 << n, dtype=torch.float64)
    for names, value in worth.items():
        table[sum(1 << (int(name) - 1) for name in names)] = value
    return fm.Game(n, lambda s: table[s.long() @ (1 << torch.arange(n))])


def estate(amount: float) -> fm.Game:
    """The bankruptcy game of the Talmud: claims of 100, 200 and 300 on an estate."""
    claims = torch.tensor([100.0, 200.0, 300.0], dtype=torch.float64)
    return fm.Game(3, lambda s: (amount - (~s.bool()).double() @ claims).clamp(min=0))


ALONE, TOGETHER = {"1": 46125, "2": 17437.5, "3": 5812.5}, {"12": 69187.5, "13": 53812.5}
LEMAIRE = game_of({**ALONE, **TOGETHER, "23": 30750, "123": 90000}, 3)
GLOVES = game_of({"12": 1, "13": 1, "123": 1}, 3)
RANDOM = [(seed, n) for n in (3, 6) for seed in range(3)]


@pytest.mark.parametrize(
    ("game", "shares"),
    [
        (LEMAIRE, (52687.5, 24468.75, 12843.75)),
        (estate(100), (100 / 3, 100 / 3, 100 / 3)),
        (estate(200), (50, 75, 75)),
        (estate(300), (50, 100, 150)),
        (GLOVES, (1, 0, 0)),
    ],
    ids=["Lemaire 1991", "Talmud 100", "Talmud 200", "Talmud 300", "gloves"],
)
def test_the_nucleolus_of_published_games(game: fm.Game, shares: tuple) -> None:
    assert nucleolus(game).values.tolist() == pytest.approx(shares, abs=1e-6)


def test_the_shapley_values_beside_them() -> None:
    assert fm.exact(LEMAIRE).values.tolist() == pytest.approx([51750, 25875, 12375])
    assert fm.exact(estate(200)).values.tolist() == pytest.approx([100 / 3, 250 / 3, 250 / 3])
    assert core_shortfall(LEMAIRE) == pytest.approx(-6562.5)


def excesses(game: fm.Game, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    v = game.all().double().numpy()
    sets = fm.all_coalitions(game.n).double().numpy()[1:-1]
    return sets, (v - v[0])[1:-1] - sets @ x


@pytest.mark.parametrize(("seed", "n"), RANDOM)
def test_the_nucleolus_meets_kohlbergs_criterion(make_game, seed: int, n: int) -> None:
    """Kohlberg 1971: for every level, the coalitions at least that short are balanced.

    Balanced: the grand coalition is a combination of them in which each has a positive weight
    """
    game = make_game(n, seed)
    x = nucleolus(game).values.numpy()
    sets, short = excesses(game, x)
    for level in np.unique(np.round(short, 7)):
        chosen = sets[short >= level - 1e-6]
        columns = np.c_[chosen.T, np.zeros(n)]  # weights, and the least of them, as large as can be
        least = np.c_[-np.eye(len(chosen)), np.ones(len(chosen))]
        found = linprog(
            np.r_[np.zeros(len(chosen)), -1.0],
            A_ub=least,
            b_ub=np.zeros(len(chosen)),
            A_eq=columns,
            b_eq=np.ones(n),
            bounds=[(0, None)] * len(chosen) + [(None, None)],
        )
        assert found.status == 0
        assert -found.fun > 1e-7


@pytest.mark.parametrize(("seed", "n"), RANDOM)
def test_the_least_core_is_the_shortest_of_the_fairest(make_game, seed: int, n: int) -> None:
    game = make_game(n, seed)
    x, shortfall = least_core(game).values.numpy(), core_shortfall(game)
    sets, short = excesses(game, x)
    assert short.max() == pytest.approx(shortfall, abs=1e-7)
    assert shortfall <= excesses(game, nucleolus(game).values.numpy())[1].max() + 1e-9
    other = minimize(
        lambda y: y @ y,
        x + 0.01,
        jac=lambda y: 2 * y,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda y: sets @ y - (sets @ x + short) + shortfall + 1e-9},
            {"type": "eq", "fun": lambda y: y.sum() - x.sum()},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert x @ x <= other.x @ other.x + 1e-6


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (16, 1), (2.5, 3.5)])
def test_beta_shapley_joins_with_a_random_probability(make_game, alpha: float, beta: float) -> None:
    """The integral over the probability, by quadrature on every coalition of the others."""
    n, game = 5, make_game(5, 1)
    t = (np.arange(20_000) + 0.5) / 20_000
    density = t ** (beta - 1) * (1 - t) ** (alpha - 1)
    density /= density.sum()
    v, expected = game.all().double(), []
    for i in range(n):
        total = 0.0
        for code in range(1 << n):
            if not code >> i & 1:
                s = code.bit_count()
                chance = float((density * t**s * (1 - t) ** (n - 1 - s)).sum())
                total += chance * float(v[code | 1 << i] - v[code])
        expected.append(total)
    found = fb.beta_shapley(game, alpha, beta).values.tolist()
    assert found == pytest.approx(expected, abs=1e-4)
    if alpha == beta == 1:
        torch.testing.assert_close(fb.beta_shapley(game, 1, 1).values, fm.exact(game).values)


def test_one_player_gets_all() -> None:
    alone = fm.Game(1, lambda s: 3 * s[:, 0].double())
    for value in (least_core, nucleolus, fb.beta_shapley):
        assert value(alone).values.tolist() == pytest.approx([3.0])
    assert core_shortfall(alone) == 0
