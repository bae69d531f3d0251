"""Local training: the settings, and which samples make which minibatch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.local import LocalSGD, Shuffles, train_rows

SIZES = (10, 1, 7, 32, 33)


def batches(plan, e: int) -> list[list[int]]:
    """The sample indices of entry e, step by step."""
    first, steps = int(plan.first[e]), int(plan.steps[e])
    return [plan.blocks[at][plan.scale[at] > 0].tolist() for at in range(first, first + steps)]


def joined(steps: list[list[int]]) -> list[int]:
    """The samples of several steps, one after another."""
    return list(itertools.chain.from_iterable(steps))


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("batch", [1, 8, 32, 100])
def test_an_epoch_shows_every_sample_of_the_client_once(make_fed, epochs, batch):
    fed = make_fed(SIZES)
    clients = np.array([3, 0, 4, 1])
    plan = Shuffles(fed, LocalSGD(epochs, batch), 5).plan(2, clients, fed.sizes.numpy()[clients])
    for e, k in enumerate(clients):
        size, steps = SIZES[k], batches(plan, e)
        own = list(range(int(fed.offsets[k]), int(fed.offsets[k + 1])))
        per_epoch = -(-size // batch)
        assert len(steps) == epochs * per_epoch
        for epoch in range(epochs):
            part = steps[epoch * per_epoch : (epoch + 1) * per_epoch]
            assert sorted(joined(part)) == own
            assert [len(b) for b in part[:-1]] == [batch] * (per_epoch - 1)
        assert len(plan.blocks[0]) == batch


def test_padding_has_no_weight_and_a_step_averages_over_its_samples(make_fed):
    fed = make_fed(SIZES)
    plan = Shuffles(fed, LocalSGD(2, 8), 0).plan(1, np.arange(5), np.array(SIZES))
    used = plan.scale > 0
    assert torch.allclose(plan.scale.sum(1), torch.ones(len(used), dtype=torch.float64))
    share = (1 / used.sum(1).double())[:, None].expand_as(used)
    assert torch.allclose(plan.scale[used], share[used])


@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_steps_are_counted_exactly_and_begin_a_new_pass_when_one_ends(make_fed, steps):
    fed = make_fed((10, 3))
    plan = Shuffles(fed, LocalSGD(batch=4, steps=steps), 1).plan(1, np.arange(2), np.array([10, 3]))
    long, short = batches(plan, 0), batches(plan, 1)
    assert [len(b) for b in long] == [4, 4, 2, 4, 4, 2, 4, 4, 2][:steps]
    assert all(sorted(b) == [10, 11, 12] for b in short)
    assert len(short) == steps
    if steps >= 3:
        assert sorted(joined(long[:3])) == list(range(10))


def test_minibatches_depend_on_seed_round_and_client_only(make_fed):
    fed, local = make_fed(SIZES), LocalSGD(2, 4)
    everybody = Shuffles(fed, local, 7).plan(3, np.arange(5), np.array(SIZES))
    some = Shuffles(fed, local, 7).plan(3, np.array([4, 2]), np.array([33, 7]))
    assert batches(some, 0) == batches(everybody, 4)
    assert batches(some, 1) == batches(everybody, 2)
    for other in (
        Shuffles(fed, local, 8).plan(3, np.arange(5), np.array(SIZES)),
        Shuffles(fed, local, 7).plan(4, np.arange(5), np.array(SIZES)),
    ):
        assert batches(other, 3) != batches(everybody, 3)
    first, second = batches(everybody, 3)[:8], batches(everybody, 3)[8:]
    assert first != second  # every epoch has its own order


def test_a_share_is_a_prefix_of_one_fixed_shuffle(make_fed):
    fed = make_fed((10, 6))
    shuffles = Shuffles(fed, LocalSGD(batch=3), 4)

    def used(t: int, count: int) -> set[int]:
        plan = shuffles.plan(t, np.array([0]), np.array([count]))
        shown = joined(batches(plan, 0))
        assert len(shown) == len(set(shown)) == count
        return set(shown)

    for count in range(1, 10):
        assert used(1, count) == used(2, count)
        assert used(1, count) < used(1, count + 1)
    assert used(1, 5) != set(range(5))


def test_small_shares_keep_the_order_of_the_round(make_fed):
    """Common random numbers: leaving samples out does not reshuffle those that stay."""
    fed = make_fed((12,))
    shuffles = Shuffles(fed, LocalSGD(batch=12), 4)
    whole = batches(shuffles.plan(1, np.array([0]), np.array([12])), 0)[0]
    part = batches(shuffles.plan(1, np.array([0]), np.array([5])), 0)[0]
    assert part == [i for i in whole if i in part]


def test_shuffles_are_uniform(make_fed):
    """Every sample is as often in the first minibatch as every other."""
    fed, counts = make_fed((8,)), torch.zeros(8)
    shuffles = Shuffles(fed, LocalSGD(batch=2), 0)
    for t in range(1, 401):
        plan = shuffles.plan(t, np.array([0]), np.array([8]))
        counts[batches(plan, 0)[0]] += 1
    assert float(((counts - 100) ** 2 / 100).sum()) < 24.3  # chi squared, 7 degrees, 0.1 %


def test_learning_rate_decays_in_steps():
    local = LocalSGD(lr=0.8, decay=0.5, decay_every=2)
    assert [local.rate(t) for t in (1, 2, 3, 4, 5)] == [0.8, 0.8, 0.4, 0.4, 0.2]
    assert LocalSGD(lr=0.3).rate(77) == 0.3


@pytest.mark.parametrize(
    ("local", "size", "passes"),
    [
        (LocalSGD(epochs=3, batch=4), 10, 3.0),
        (LocalSGD(batch=4, steps=3), 10, 1.0),
        (LocalSGD(batch=4, steps=1), 10, 0.4),
        (LocalSGD(batch=4, steps=5), 10, 1.8),
        (LocalSGD(batch=100, steps=2), 10, 2.0),
    ],
)
def test_client_epochs_count_passes_over_the_data(local, size, passes):
    assert local.passes(size) == pytest.approx(passes)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epochs": 0}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"epochs": True}, "epochs"),
        ({"batch": -1}, "batch"),
        ({"steps": 0}, "steps"),
        ({"decay_every": 0}, "decay_every"),
        ({"lr": 0.0}, "lr"),
        ({"lr": -1.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"lr": float("inf")}, "lr"),
        ({"lr": "0.1"}, "lr"),
        ({"decay": 0.0}, "decay"),
    ],
)
def test_bad_settings_are_named(changes, name):
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: "):
        LocalSGD(**changes)


def test_rows_come_in_stacks_that_are_overwritten(make_fed, monkeypatch):
    """The memory of a training is one stack's, whatever the number of rows."""
    fed, net, local = make_fed(SIZES), fm.mlp(6, 4, 3), LocalSGD(batch=4)
    monkeypatch.setattr("fedlab_mini.local.STACK", 2 * net.P * 8)
    plan = Shuffles(fed, local, 0).plan(1, np.arange(5), np.array(SIZES))
    order = torch.argsort(plan.steps, descending=True, stable=True)
    theta = net.init(0, dtype=torch.float64)
    seen, addresses = {}, set()
    for rows, part in train_rows(fed, net, theta[None], torch.zeros(5).long(), order, plan, 0.1):
        assert len(part) <= 2
        addresses.add(part.data_ptr())
        seen |= dict(zip(order[rows].tolist(), part.clone(), strict=True))
    assert len(addresses) == 1
    wanted = fm.local_updates(fed, net, theta, local=local)
    torch.testing.assert_close(torch.stack([seen[k] for k in range(5)]), wanted, rtol=0, atol=1e-13)
