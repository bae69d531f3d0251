"""Scores of directions do not know lengths, and first-order scores grow with them."""

from __future__ import annotations

import pandas
import pytest
import torch
from helpers import Played, a_round, numbers

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.local import limit_of, usable
from fedlab_mini.engine.rounds import Server
from fedlab_mini.judge.registry import SCORES
from fedlab_mini.methods.numerics import of_usual_size

NET, BOOK = fm.mlp(4, 5, 3), SCORES
SERVER = Server(5, 3, NET, (numbers(40, 4, seed=1), torch.arange(40) % 3), 0)
THETA = NET.init(1, dtype=torch.float64)
UPDATES = 0.1 * (numbers(1, NET.P, seed=2) + numbers(5, NET.P, seed=3))
DIRECTIONS = {"size": fm.FedAvg(), "CGSV": fm.CGSV(), "CGSV, as printed": fm.CGSV(literal=True)}
DIRECTIONS |= {name: BOOK[name] for name in ("class cosine", "trust cosine", "FedIF")}
IN_PROPORTION = {"first order": fm.methods.Taylor(1), "capped": fb.CappedTaylor(1)}


def after(strategy: fm.FedAvg, factor: float) -> torch.Tensor:
    """What a strategy says after two rounds of equal clients."""
    shown = Played(strategy, SERVER)
    for t, rows in ((1, UPDATES), (2, UPDATES.flip(1))):
        assert shown.step(a_round(factor * rows, t=t, theta=THETA)).theta.isfinite().all()
    return shown.scores.double()


@pytest.mark.parametrize("name", DIRECTIONS | IN_PROPORTION)
def test_a_common_factor_changes_no_direction_and_multiplies_a_first_order_score(name):
    strategy = (DIRECTIONS | IN_PROPORTION)[name]
    for factor in (1e-30, 1e-6, 1e30):
        unit = factor if name in IN_PROPORTION else 1
        found = after(strategy, factor) / unit
        torch.testing.assert_close(found, after(strategy, 1), rtol=1e-9, atol=0)


def test_updates_whose_squares_overflow_are_left_out_and_named():
    """3e38 is a number of float32; lengths, and the outputs of a model with it, are not."""
    x, y = SERVER.validation
    huge, missing = UPDATES.float(), UPDATES.float()
    huge[1], missing[1] = 3e38, torch.nan
    asked = {"net": NET, "validation": (x.float(), y), "theta": THETA, "methods": sorted(BOOK)}
    named = r"round 1: the update of \[1\] is not finite, or its square is not; left out"
    with pytest.warns(UserWarning, match=named):
        found = fm.score([huge], **asked)
    with pytest.warns(UserWarning, match=named):
        same = fm.score([missing], **asked)
    pandas.testing.assert_frame_equal(found, same)
    with pytest.raises(ValueError, match=r"updates: got numbers up to 3e\+38, whose squares"):
        fm.round_game(NET, THETA.float(), huge, x.float(), y)


def test_scores_of_directions_know_no_largest_number():
    for row in (UPDATES[:1], -UPDATES[:1]):
        end = row / row.abs().max() * torch.finfo(torch.float32).max
        usual = of_usual_size(end.float())
        torch.testing.assert_close(usual / usual.norm(), (row / row.norm()).float())


def test_a_training_from_a_huge_model_still_leaves_out_what_is_infinite():
    for dtype, huge in ((torch.float32, 1e20), (torch.float64, 1e200)):
        limit = limit_of(torch.full((4,), huge, dtype=dtype))
        sent = torch.tensor([[1, 0], [0, torch.inf], [torch.nan, 1]], dtype=dtype)
        good = usable(sent, limit)
        assert good is not None
        assert good.tolist() == [True, False, False]
