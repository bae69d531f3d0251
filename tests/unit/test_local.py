"""Local training: the settings, and which samples make which minibatch."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD, Shuffles

SIZES = (10, 1, 7, 32, 33)


@pytest.fixture(params=["all samples are put in order", "each draws a number"])
def way(request, monkeypatch):
    """Both ways of dealing minibatches: in a small federation, and in one of many clients."""
    if request.param.startswith("each"):
        monkeypatch.setattr("fedlab_mini.engine.minibatches.CROWD", 0)


both_ways = pytest.mark.usefixtures("way")


def planned(fed, local: LocalSGD, seed: int, t: int, **used: int):
    """A round's plan for clients "k3": how many samples each of them uses."""
    ids = np.array([int(name[1:]) for name in used])
    return Shuffles(fed, local, seed).plan(t, ids, np.array([*used.values()]))


def batches(plan, e: int) -> list[list[int]]:
    """The sample indices of entry e, step by step."""
    owned = slice(int(plan.first[e]), int(plan.first[e] + plan.steps[e]))
    rows = zip(plan.blocks[owned].tolist(), plan.fill[owned].tolist(), strict=True)
    return [row[:count] for row, count in rows]


def joined(steps: list[list[int]]) -> list[int]:
    """The samples of several steps, one after another."""
    return list(itertools.chain.from_iterable(steps))


@both_ways
@pytest.mark.parametrize(("epochs", "batch"), [(1, 1), (3, 8), (2, 100)])
def test_an_epoch_shows_every_sample_of_the_client_once(make_fed, epochs, batch):
    fed = make_fed(SIZES)
    plan = planned(fed, LocalSGD(epochs, batch), 5, 2, k3=32, k0=10, k4=33, k1=1)
    for e, k in enumerate((3, 0, 4, 1)):
        steps, per_epoch = batches(plan, e), -(-SIZES[k] // batch)
        assert len(steps) == epochs * per_epoch
        own = list(range(int(fed.offsets[k]), int(fed.offsets[k + 1])))
        for epoch in range(epochs):
            part = steps[epoch * per_epoch : (epoch + 1) * per_epoch]
            assert sorted(joined(part)) == own
            assert [len(b) for b in part[:-1]] == [batch] * (per_epoch - 1)


@both_ways
def test_minibatches_depend_on_seed_round_and_client_only(make_fed):
    """Not on who else takes part, and not on the rounds before."""
    fed, local = make_fed(SIZES), LocalSGD(2, 4)
    everybody = {f"k{k}": n for k, n in enumerate(SIZES)}
    whole = planned(fed, local, 7, 3, **everybody)
    some = planned(fed, local, 7, 3, k4=33, k2=7)
    assert [batches(some, e) for e in (0, 1)] == [batches(whole, e) for e in (4, 2)]
    for seed, t in ((8, 3), (7, 4)):
        assert batches(planned(fed, local, seed, t, **everybody), 3) != batches(whole, 3)
    assert batches(whole, 3)[:8] != batches(whole, 3)[8:]  # every epoch has its own order
    kept = Shuffles(fed, local, 7)
    for t, clients, counts in [
        (2, [0, 1, 2], [10, 1, 7]),
        (3, [0, 1, 2], [9, 1, 7]),
        (4, [2, 0, 3], [7, 10, 32]),
        (2, [0, 1, 2], [10, 1, 7]),
    ]:
        entries = np.array(clients), np.array(counts)
        one, fresh = kept.plan(t, *entries), Shuffles(fed, local, 7).plan(t, *entries)
        assert all(batches(one, e) == batches(fresh, e) for e in range(3))


@both_ways
def test_every_order_of_a_clients_samples_is_as_likely(make_fed):
    """Three samples have six orders; 4,000 draws deviate by 5 standard errors (118) hardly ever."""
    fed, seen = make_fed([3] * 400), Counter()
    for t in range(10):
        plan = Shuffles(fed, LocalSGD(batch=1), 0).plan(t, np.arange(400), np.full(400, 3))
        seen.update(map(tuple, (plan.blocks.view(400, 3) - fed.offsets[:-1, None]).tolist()))
    assert len(seen) == 6
    assert all(abs(n - 4000 / 6) < 5 * (4000 / 6 * 5 / 6) ** 0.5 for n in seen.values())


@both_ways
def test_a_share_is_a_prefix_of_one_fixed_shuffle_in_the_order_of_the_round(make_fed):
    fed, local = make_fed((10, 6)), LocalSGD(batch=12)

    def used(t: int, count: int) -> list[int]:
        (shown,) = batches(planned(fed, local, 4, t, k0=count), 0)
        assert len(shown) == len(set(shown)) == count
        return shown

    for count in range(1, 10):
        assert set(used(1, count)) == set(used(2, count))
        assert set(used(1, count)) < set(used(1, count + 1))
        # Common random numbers: leaving samples out does not reshuffle those that stay.
        assert used(1, count) == [i for i in used(1, 10) if i in used(1, count)]
    assert set(used(1, 5)) != set(range(5))


def test_step_sizes_decay_and_passes_over_the_data_are_counted(make_fed):
    local = LocalSGD(lr=0.8, decay=0.5, decay_every=2)
    assert [local.rate(t) for t in (1, 2, 3, 4, 5)] == [0.8, 0.8, 0.4, 0.4, 0.2]
    for local, passes in [
        (LocalSGD(epochs=3, batch=4), 3.0),
        (LocalSGD(batch=4, steps=5), 1.8),
        (LocalSGD(batch=100, steps=2), 2.0),
    ]:
        assert local.passes(10) == pytest.approx(passes)
    with pytest.raises(ValueError, match=r"^decay: 10 makes the step size of round 400"):
        fm.train(
            make_fed((4, 5)), fm.logistic(6, 3), fm.FedAvg(), rounds=400, local=LocalSGD(decay=10.0)
        )


def test_tables_of_a_few_steps_at_a_time_give_the_same_bytes(make_fed, monkeypatch):
    fed, net, local = make_fed(SIZES), fm.mlp(6, 4, 3), LocalSGD(batch=4, steps=30)
    theta = net.init(0, dtype=torch.float64)
    wanted = fm.local_updates(fed, net, theta, local=local)
    for places in (1, 5 * 4 * 3):
        monkeypatch.setattr("fedlab_mini.engine.fast.stacks.TABLE", places)
        assert torch.equal(fm.local_updates(fed, net, theta, local=local), wanted)
