"""No false certainty: a sample in which a player's draws all agree does not know its error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import majority, numbers
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.show import plots

SAMPLERS: dict[str, Callable[[fm.Game, int, int], Estimate]] = {
    "permutation": fm.permutation,
    "antithetic": lambda game, draws, seed: fm.permutation(game, 2 * draws, seed, antithetic=True),
    "truncated": lambda game, draws, seed: fm.truncated(game, draws, 0.01, seed),
    "guided": lambda game, draws, seed: fm.guided(game, draws * game.n, 0.0, seed),
    "kernel": lambda game, draws, seed: fm.kernel(game, 2 * game.n + 2 * draws, seed),
    "Banzhaf": lambda game, draws, seed: fm.banzhaf(game, 4 * draws, seed),
}
samplers = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


def drawn(seed: int) -> fm.Game:
    """A game whose gain hangs on a few large coalitions, by a factor and an offset of any size."""
    chance = torch.Generator().manual_seed(seed)
    players, needed = 7 + seed % 3, 5 + seed % 2
    factor = 10.0 ** float(torch.randint(-9, 10, (), generator=chance))
    offset = factor * float(torch.randn((), generator=chance, dtype=torch.float64))
    weights = 1 + 0.01 * torch.rand(players, generator=chance, dtype=torch.float64)

    def worth(coalitions: Tensor) -> Tensor:
        reached = (coalitions.sum(1) >= needed) & coalitions[:, : seed % 2 + 1].all(1)
        return offset + factor * reached * (
            1 + (coalitions.double() @ weights if seed % 5 == 0 else 0)
        )

    return fm.Game(players, worth, name=f"drawn {seed}")


@samplers
def test_a_sampled_value_is_never_called_sure(sampler):
    """Nor nearly so: an error is 0 for no sampled value, and a value that is wrong by far has one
    that says it, or none."""
    for seed in range(15):
        game = drawn(seed)
        found = sampler(game, 2 + seed % 4, seed)
        truth = (fm.banzhaf if found.method == "Banzhaf" else fm.exact)(game).values
        assert not (found.stderr == 0).any(), (seed, found)
        sure = found.stderr < 1e-9 * (found.values - truth).abs()
        assert not sure.any(), (seed, found, truth)

    gains = numbers(8, seed=0)
    sums = fm.Game(8, lambda coalitions: 1e3 + coalitions.double() @ gains)
    found = sampler(sums, 4, 0)  # every draw is right, and agrees with all others but for rounding
    if found.method != "Banzhaf":  # whose draws are worths, and differ
        assert found.stderr.isnan().all(), found


def test_what_is_unknown_is_seen():
    """In words, in tables, and at the end of a bar."""
    found = fm.permutation(majority([1] * 12, 11), 3)
    unknown = found.stderr.isnan()
    assert 0 < int(unknown.sum()) < 12
    assert repr(found).count("0±?") == int(unknown.sum())
    assert found.to_frame().stderr.isna().tolist() == unknown.tolist()
    figure = plots.scores({"a": found.values}, stderr={"a": found.stderr})
    marks = [text for text in figure.axes[0].texts if text.get_text() == "±?"]
    at = sorted(round(mark.xy[0]) for mark in marks)
    assert at == unknown.nonzero().flatten().tolist()
