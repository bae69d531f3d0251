"""Estimators: what they count, how sure they are, and the traps of public implementations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.games import kernel

SAMPLED = {
    "permutation": lambda game, seed: fm.permutation(game, 100, seed),
    "antithetic": lambda game, seed: fm.permutation(game, 160, seed, antithetic=True),
    "guided": lambda game, seed: fm.guided(game, 84, 0.0, seed),
    "kernel": lambda game, seed: fm.kernel(game, 90, seed),
    "sampled Banzhaf": lambda game, seed: fm.banzhaf(game, 100, seed),
}
ALL = {
    "exact": lambda game, seed: fm.exact(game),
    "leave one out": lambda game, seed: fm.leave_one_out(game),
    "alone": lambda game, seed: fm.alone(game),
    "Banzhaf": lambda game, seed: fm.banzhaf(game),
    "truncated": lambda game, seed: fm.truncated(game, 10, 0.5, seed),
    **SAMPLED,
}
every = pytest.mark.parametrize("estimate", ALL.values(), ids=ALL.keys())


def recorded(game: fm.Game) -> tuple[fm.Game, list[tuple[bool, ...]]]:
    """The same game, and a list that fills with every coalition its value function is asked for."""
    asked: list[tuple[bool, ...]] = []

    def value(s: torch.Tensor) -> torch.Tensor:
        asked.extend(tuple(row) for row in s.tolist())
        return game.value(s)

    return fm.Game(game.n, value), asked


def saturating(n: int, seed: int = 0, noise: float = 0.02) -> fm.Game:
    """Worths like accuracies of federated models: concave in who takes part, with some noise."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.rand(n, generator=generator, dtype=torch.float64)
    extra = noise * torch.randn(1 << n, generator=generator, dtype=torch.float64)
    bits = 1 << torch.arange(n)
    return fm.Game(n, lambda s: (s.double() @ w).sqrt() + extra[(s * bits).sum(1)])


# --- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_exactly_so_many_evaluations(make_game, n):
    for estimate, count in (
        (fm.exact, 2**n),
        (fm.banzhaf, 2**n),
        (fm.leave_one_out, n + 1),
        (fm.alone, n + 1),
        (lambda game: fm.kernel(game, 5000), 2**n),
        (lambda game: fm.permutation(game, 1), n + 1),
    ):
        game, asked = recorded(make_game(n))
        result = estimate(game)
        assert result.evaluations == count == len(asked) == len(set(asked))


@every
def test_evaluations_count_as_if_nothing_had_been_evaluated_before(make_game, estimate):
    """No coalition is evaluated twice, and the same seed gives the same bytes."""
    game, fresh = make_game(7), make_game(7)
    fresh, asked = recorded(fresh)
    game.all()
    again, first = estimate(game, 3), estimate(fresh, 3)
    assert again.evaluations == first.evaluations == len(asked) == len(set(asked))
    assert again.values.numpy().tobytes() == first.values.numpy().tobytes()
    assert again.stderr.numpy().tobytes() == first.stderr.numpy().tobytes()
    certain = not first.stderr.any()
    assert torch.equal(first.values, estimate(fresh, 4).values) == certain


def test_the_cost_of_training_is_counted_per_member():
    game = fm.Game(4, lambda s: s.sum(1).sqrt(), client_epochs=2.5)
    assert fm.exact(game).client_epochs == 2.5 * 4 * 8
    assert fm.leave_one_out(game).client_epochs == 2.5 * (4 + 4 * 3)
    assert fm.permutation(game, 1).client_epochs == 2.5 * (1 + 2 + 3 + 4)


# --- how good ------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", SAMPLED.values(), ids=SAMPLED.keys())
def test_estimates_are_unbiased_and_know_their_error(estimate):
    game = saturating(7)
    results = [estimate(game, seed) for seed in range(100)]
    banzhaf = results[0].method == "Banzhaf"
    truth = (fm.banzhaf(game) if banzhaf else fm.exact(game)).values
    values = torch.stack([r.values for r in results])
    stderr = torch.stack([r.stderr for r in results])
    mean_error = (values.mean(0) - truth) / (values.std(0) / math.sqrt(len(results)))
    assert float(mean_error.abs().max()) < 5
    z = (values - truth) / stderr
    assert 0.85 < float(z.std()) < 1.2
    assert float(((values - truth).abs() > 5 * stderr).double().mean()) < 0.005


FEW = {
    "permutation": lambda game, seed: fm.permutation(game, 4, seed),
    "antithetic": lambda game, seed: fm.permutation(game, 8, seed, antithetic=True),
    "truncated": lambda game, seed: fm.truncated(game, 4, 1e-9, seed),
    "guided": lambda game, seed: fm.guided(game, 24, 0.0, seed),
    "sampled Banzhaf": lambda game, seed: fm.banzhaf(game, 8, seed),
}


def too_wide_by(errors: list[torch.Tensor], stated: list[torch.Tensor]) -> float:
    """The mean square that estimates state, where they state one, over that of their errors."""
    squares, mine = (torch.stack(each).square() for each in (errors, stated))
    known = mine.isfinite()
    return float(mine[known].mean() / squares[known].mean())


@pytest.mark.parametrize("estimate", FEW.values(), ids=FEW.keys())
def test_an_error_from_four_draws_is_right_over_many_games(estimate):
    """So few that each degree of freedom counts: one more or less, and it is a third off."""
    errors, stated = [], []
    for seed in range(400):
        game = saturating(6, seed, noise=9)
        found = estimate(game, seed)
        truth = fm.banzhaf(game) if found.method == "Banzhaf" else fm.exact(game)
        errors.append(found.values - truth.values)
        stated.append(found.stderr)
    assert 0.85 < too_wide_by(errors, stated) < 1.15


def test_a_fit_of_ten_pairs_knows_that_five_values_were_fitted():
    """All pairs of three against three, as alike as pairs can be, in 600 games of noise."""
    halves = [[k in team for k in range(6)] for team in itertools.combinations(range(6), 3)]
    pairs, generator = torch.tensor(halves[:10]).double(), torch.Generator().manual_seed(0)
    worth = torch.randn(600, 2, 10, generator=generator, dtype=torch.float64)
    fits = [kernel._least_squares(pairs, noise, torch.ones(10).double(), 0.0) for noise in worth]
    assert 0.88 < too_wide_by(*zip(*fits, strict=True)) < 1.12  # with four or six: 0.83, 1.25


@pytest.mark.parametrize("w", [[1.0, -1.0, 2.0, -2.0], [0.1, 0.2, -0.3 + 1e-15, 0.7, -0.7]])
def test_a_game_without_gain_is_followed_to_its_end(w):
    """v(N) = v(empty), to the last bit or up to rounding, and often met on the way."""
    game = fm.additive(w)
    for found in (fm.permutation(game, 50), fm.truncated(game, 50), fm.guided(game, 60)):
        torch.testing.assert_close(found.values.tolist(), w, rtol=0, atol=1e-12)
    # a tolerance, as printed: every order ends before it begins
    nothing = fm.truncated(game, 50, 1e-6)
    assert nothing.values.tolist() == [0.0] * len(w)
    assert nothing.stderr.isnan().all()


def test_the_kernel_never_errs_beyond_the_error_it_states():
    """Additive games are the easy case: few pairs may leave values open, but not surely wrong."""
    w = torch.arange(8, dtype=torch.float64) + 1
    for budget, seed in itertools.product(range(11, 32), range(3)):
        try:
            found = fm.kernel(fm.additive(w), budget, seed)
        except ValueError as error:
            assert str(error).startswith("budget: ")  # noqa: PT017
            assert budget < 16
            continue
        assert budget - 1 <= found.evaluations <= budget
        wrong = (found.values - w).abs() > 5 * found.stderr + 1e-9  # False where it is NaN
        assert not wrong.any(), (budget, seed, found)


def test_a_single_order_has_no_standard_error(make_game):
    assert fm.permutation(make_game(4), 2, antithetic=True).stderr.isnan().all()
    assert fm.guided(make_game(4), 7).stderr.isnan().all()  # one whole sweep
    assert fm.guided(make_game(4), 40).stderr.isfinite().all()
    with pytest.raises(ValueError, match=r"^samples: "):
        fm.permutation(make_game(4), 3, antithetic=True)


def test_every_player_leads_once_a_sweep():
    """In a game of leaders, worth n to whoever comes first, a sweep of guided orders is exact."""
    game = fm.Game(6, lambda s: s.any(1).double() * 6)
    assert fm.guided(game, 6).values.tolist() == [1.0] * 6
    assert fm.guided(game, 18).stderr.isnan().all()  # that all sweeps agree proves nothing
    assert fm.permutation(game, 6).values.tolist() != [1.0] * 6


@every
def test_a_game_of_one_player(estimate):
    assert estimate(fm.additive([2.0]), 0).values.tolist() == pytest.approx([2.0], abs=1e-9)


def test_truncation_compares_a_difference_with_the_tolerance():
    steps = fm.Game(4, lambda s: torch.tensor([0.0, 0.5, 0.8, 0.95, 1.0])[s.sum(1)].double())
    for tolerance, followed in ((0.0, 4), (0.05, 3), (0.1, 3), (0.2, 2), (0.6, 1), (1, 0)):
        game, asked = recorded(steps)
        found = fm.truncated(game, 1, tolerance + 1e-6, 0)
        assert int((found.values != 0).sum()) == followed, tolerance
        # beside the empty and the full coalition, which every order knows
        assert len(asked) == 2 + min(followed, 3), tolerance
    # worth above v(N) is as far from it as worth below
    hill = fm.Game(3, lambda s: torch.tensor([0.0, 2.0, 1.5, 1.0])[s.sum(1)].double())
    assert sorted(fm.truncated(hill, 1, 0.6, 0).values.tolist()) == [-0.5, 0.0, 2.0]
