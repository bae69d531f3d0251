"""The study by another engine: what it writes out by hand is what the package computes."""

from __future__ import annotations

import math

import torch
from helpers import numbers

import fedlab_mini as fm
from fedlab_mini.streams import stream
from studies import cgsv, ledger, plain_engine, sfedavg
from studies.items import items


def test_shapley_values_written_out_are_those_of_the_package() -> None:
    data, net, _ = sfedavg.setting()
    fed = sfedavg.federation_of(data, sfedavg.SPLITS["1 class"], 4, seed=3)
    theta = net.init(3, dtype=data.x.dtype)
    updates = 0.3 * numbers(4, len(theta), seed=1)
    theirs = fm.exact(fm.round_game(net, theta, updates, *fed.validation)).values
    ours = plain_engine.shapley(fed, net, theta, updates)
    assert torch.allclose(ours, theirs, atol=1e-12)
    assert ours.abs().max() > 0.01


def test_cosine_weights_written_out_are_those_of_the_package() -> None:
    data, net = cgsv.setting("digits")
    fed = cgsv.ladder(data, "digits", seed=2)
    ours = plain_engine.aligned(fed, net, seed=2, rounds=3)
    theirs = cgsv.trained(fed, net, fm.CGSV(server_lr=1.0), seed=2, rounds=3).scores[-1]
    assert torch.allclose(ours, theirs, atol=1e-9)
    assert ours.std() > 1e-3


def test_draws_follow_the_softmax_and_only_the_asked_move() -> None:
    data, net, local = sfedavg.setting()
    fed = sfedavg.federation_of(data, sfedavg.SPLITS["1 class"], 4, seed=1)
    course = plain_engine.selected(fed, net, local, 0.02, seed=1, rounds=3)
    assert (course.asked.sum(1) == sfedavg.M).all()
    before = torch.full((10,), 0.1, dtype=torch.float64)
    for asked, phi in zip(course.asked, course.relevance, strict=True):
        assert torch.equal(phi[~asked], before[~asked])
        before = phi
    alike = plain_engine.selected(fed, net, local, math.inf, seed=1, rounds=3)
    assert (alike.relevance == 0.1).all()
    assert len(alike.accuracy) == 4
    assert stream(1, "selection", 1).initial_seed() != 1  # its draws are not the package's


def test_central_rows_come_out_alike() -> None:
    found = ledger.by_plain_engine()
    assert [stored.item.id for stored, _ in found] == [
        item.id for item in items() if item.id in plain_engine.CENTRAL
    ]
    assert len(found) >= 5
    for stored, plain in found:
        assert stored.verdict == plain.verdict, stored.item.id
        assert plain.interval.low < stored.interval.high, stored.item.id
        assert stored.interval.low < plain.interval.high, stored.item.id
