"""Who was not changed is not called corrupted, and a warning says so."""

from __future__ import annotations

import warnings

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.worlds.attacks import free_ride
from fedlab_mini.worlds.corrupt import DataCorruption

CORRUPTIONS = {
    "flip_labels": fm.flip_labels(0.4),
    "no label": fm.flip_labels(1e-6),
    "relabel_as": fm.relabel_as(3, 0.3),
    "relabel_as, all": fm.relabel_as(3),
    "swap_labels": fm.swap_labels((0, 1)),
    "swapped back": [fm.swap_labels((0, 1)), fm.swap_labels((0, 1))],
    "backdoor": fm.backdoor(None, 0.2, (1, 8, 8)),
    "both": [fm.flip_labels(0.1), fm.relabel_as(5, 0.3)],
    "with an attack": [fm.flip_labels(1e-6), free_ride()],
}


@pytest.mark.parametrize("corruption", CORRUPTIONS.values(), ids=CORRUPTIONS)
@pytest.mark.parametrize("samples", [10, 14, 30, 300])
def test_corrupted_is_who_differs_from_an_honest_federation(corruption, samples):
    data = fm.load("digits")
    made = {"clients": 10, "samples": samples, "seed": samples}
    clean = fm.federation(data, **made)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fed = fm.federation(data, corrupt=dict.fromkeys(range(0, 10, 2), corruption), **made)
    differs = {
        k
        for k in range(10)
        if not all(map(torch.equal, fed.client(k), clean.client(k))) or k in fed.attacks
    }
    assert fed.corrupted == differs
    assert set((fed.noise > 0).nonzero().flatten().tolist()) | set(fed.attacks) == differs
    named = [k for k in range(10) if any(f"corrupt[{k}]: " in str(one.message) for one in said)]
    assert named == sorted(set(range(0, 10, 2)) - differs)


class Nothing(DataCorruption):
    def change(self, x, y, classes, generator):
        return x, y


def test_a_scenario_says_it_too():
    with pytest.warns(UserWarning, match=r"^corrupt: .*Nothing.* changes no relevant client"):
        fed = fm.irrelevant_digits(relevant=3, irrelevant=2, corrupt=Nothing(), seed=0)
    assert len(fed.corrupted) == 2
    with pytest.warns(UserWarning, match=r"^corrupt\[\d\]: .* changes none of its 1 samples"):
        fed = fm.noisy_digits(clients=5, samples=5, seed=0)
    assert fed.corrupted == set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed = fm.irrelevant_digits(relevant=5, corrupt=fm.swap_labels((1, 2)), seed=0)
    assert sum("swap" in told for told in fed.truth.values()) == 1


def test_a_share_of_zero_asks_for_nothing_and_is_silent():
    ladder = {k: fm.flip_labels(k / 10) for k in range(10)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed = fm.federation(fm.load("digits"), clients=10, corrupt=ladder, seed=0)
    assert fed.corrupted == set(range(1, 10))
