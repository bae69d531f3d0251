"""The bill of a sweep: bytes of a task, and the time that a number of workers need."""

from __future__ import annotations

import joblib
import pytest
import torch

from fedlab_mini.bill import makespan, parcel


@pytest.mark.parametrize(
    ("seconds", "workers", "more", "wanted"),
    [
        ([3, 1, 2], 1, {}, 6),
        ([3, 1, 2], 2, {}, 3),
        ([1, 2, 3], 2, {}, 4),  # the longest begins last
        ([3, 1, 2], 1000, {}, 3),
        ([1, 1, 1, 1], 2, {"start": 5}, 7),
        ([1, 1, 1, 1], 1, {"send": 0.5}, 6),
        ([1, 1, 1, 1], 1000, {"send": 0.5}, 3),  # sent one after another
    ],
)
def test_small_sweeps_by_hand(seconds, workers, more, wanted):
    assert makespan(torch.tensor(seconds), workers, **more) == pytest.approx(wanted)


@pytest.mark.parametrize("workers", [1, 3, 10, 100, 1000])
def test_the_bounds_of_list_scheduling(workers):
    """Graham: at least the mean load and the longest task, at most their weighted sum."""
    tasks = torch.empty(500).cauchy_(generator=torch.Generator().manual_seed(0)).abs()
    mean, longest = float(tasks.sum()) / workers, float(tasks.max())
    found = makespan(tasks, workers)
    assert max(mean, longest) <= found * (1 + 1e-6)
    assert found <= (mean + longest * (1 - 1 / workers)) * (1 + 1e-6)
    assert makespan(tasks, workers, send=0.1) >= 500 * 0.1


def test_beyond_what_one_sender_keeps_busy_workers_do_not_help():
    """400 tasks of 1 s, a tenth of a second to send: ten workers are busy, a thousand wait."""
    taken = [makespan(torch.ones(400), w, send=0.1) for w in (5, 10, 20, 1000)]
    assert taken[0] > 1.9 * taken[1]
    assert taken[2:] == pytest.approx([41, 41])


def test_a_parcel_holds_the_data():
    few, many = (parcel(joblib.delayed(len)(torch.zeros(n))) for n in (1000, 11_000))
    assert many - few == pytest.approx(40_000, abs=100)


@pytest.mark.parametrize("task", [None, len, (1, 2, 3)])
def test_a_parcel_is_a_delayed_call(task):
    with pytest.raises((TypeError, ValueError), match="task"):
        parcel(task)


@pytest.mark.parametrize(
    "given",
    [{"seconds": [-1.0]}, {"workers": 0}, {"workers": 1.5}, {"send": -1}, {"start": torch.nan}],
)
def test_a_bill_without_meaning_is_refused(given):
    (name,) = given
    with pytest.raises((TypeError, ValueError), match=name):
        makespan(**{"seconds": torch.ones(3), "workers": 2} | given)
