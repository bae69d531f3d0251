"""The study by another engine: what it writes out by hand is what the package computes."""

from __future__ import annotations

import torch
from helpers import numbers

import fedlab_mini as fm
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
