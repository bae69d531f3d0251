"""Who was not changed is not called corrupted, and a warning says so."""

from __future__ import annotations

import warnings

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.worlds.attacks import FreeRide
from fedlab_mini.worlds.corrupt import Backdoor

CORRUPTIONS = {
    "no label": fm.FlipLabels(1e-6),
    "RelabelAs": fm.RelabelAs(3, 0.3),
    "SwapLabels": fm.SwapLabels((0, 1)),
    "swapped back": [fm.SwapLabels((0, 1)), fm.SwapLabels((0, 1))],
    "backdoor": Backdoor(None, 0.2, (1, 8, 8)),
    "with an attack": [fm.FlipLabels(1e-6), FreeRide()],
}


@pytest.mark.parametrize("corruption", CORRUPTIONS.values(), ids=CORRUPTIONS)
@pytest.mark.parametrize("samples", [10, 30])
def test_corrupted_is_who_differs_from_an_honest_federation(corruption, samples):
    data = fm.load("digits")
    made = {"clients": 10, "samples": samples, "seed": samples}
    clean = fm.federation(data, **made)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asked = dict.fromkeys(range(0, 10, 2), corruption) | {1: fm.FlipLabels(0.0)}
        fed = fm.federation(data, corrupt=asked, **made)
    differs = {
        k
        for k in range(10)
        if not all(map(torch.equal, fed.client(k), clean.client(k))) or k in fed.attacks
    }
    assert fed.corrupted == differs
    assert set((fed.noise > 0).nonzero().flatten().tolist()) | set(fed.attacks) == differs
    named = [k for k in range(10) if any(f"corrupt[{k}]: " in str(one.message) for one in said)]
    assert named == sorted(set(range(0, 10, 2)) - differs)


def test_a_scenario_says_it_too():
    with pytest.warns(UserWarning, match=r"^corrupt\[\d\]: .* changes none of its 1 samples"):
        fed = fm.noisy_digits(clients=5, samples=5, seed=0)
    assert fed.corrupted == set()
