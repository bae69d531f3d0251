"""Local training: the settings, and which samples make which minibatch."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from helpers import of_module

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD, Shuffles, train_rows
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (10, 1, 7, 32, 33)


@pytest.fixture(autouse=True, params=["all samples are put in order", "each draws a number"])
def way(request, monkeypatch):
    """Both ways of dealing minibatches: in a small federation, and in one of many clients."""
    if request.param.startswith("each"):
        monkeypatch.setattr("fedlab_mini.engine.minibatches.CROWD", 0)


def batches(plan, e: int) -> list[list[int]]:
    """The sample indices of entry e, step by step."""
    return [samples.tolist() for samples in plan.batches(e)]


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


def test_padding_is_a_sample_of_the_client_itself(make_fed):
    fed = make_fed(SIZES)
    plan = Shuffles(fed, LocalSGD(2, 8), 0).plan(1, np.arange(5), np.array(SIZES))
    for e in range(5):
        own = plan.blocks[int(plan.first[e]) :][: int(plan.steps[e])]
        assert (own >= fed.offsets[e]).all()
        assert (own < fed.offsets[e + 1]).all()
    assert plan.fill.tolist() == [8, 2] * 2 + [1] * 2 + [7] * 2 + [8] * 8 + [8, 8, 8, 8, 1] * 2


def test_a_plan_does_not_depend_on_the_plans_before(make_fed):
    """What entries share is kept from round to round; another set of entries starts anew."""
    fed, local = make_fed(SIZES), LocalSGD(batch=4, steps=3)
    kept = Shuffles(fed, local, 7)
    for t, clients, counts in [
        (1, [0, 1, 2], [10, 1, 7]),
        (2, [0, 1, 2], [10, 1, 7]),
        (3, [0, 1, 2], [9, 1, 7]),
        (4, [2, 0, 3], [7, 10, 32]),
        (2, [0, 1, 2], [10, 1, 7]),
    ]:
        entries = np.array(clients), np.array(counts)
        one, fresh = kept.plan(t, *entries), Shuffles(fed, local, 7).plan(t, *entries)
        for name in ("blocks", "fill", "first", "steps", "clients"):
            assert torch.equal(getattr(one, name), getattr(fresh, name))


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


def test_every_order_of_a_clients_samples_is_as_likely(make_fed):
    """Three samples have six orders; 4,000 draws deviate by 5 standard errors (118) hardly ever."""
    fed, seen = make_fed([3] * 400), Counter()
    for t in range(10):
        plan = Shuffles(fed, LocalSGD(batch=1), 0).plan(t, np.arange(400), np.full(400, 3))
        seen.update(map(tuple, (plan.blocks.view(400, 3) - fed.offsets[:-1, None]).tolist()))
    assert len(seen) == 6
    assert all(abs(n - 4000 / 6) < 5 * (4000 / 6 * 5 / 6) ** 0.5 for n in seen.values())


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


def test_numpy_numbers_are_numbers():
    given = LocalSGD(np.int64(2), np.uint8(8), np.float32(0.5), np.int32(3), np.float64(0.5))
    assert given == LocalSGD(2, 8, 0.5, 3, 0.5)
    assert repr(given) == repr(LocalSGD(2, 8, 0.5, 3, 0.5))


def test_a_step_size_that_overflows_is_refused_before_training(make_fed):
    fed, net, local = make_fed((4, 5)), fm.logistic(6, 3), LocalSGD(decay=10.0)
    assert local.rate(300) == pytest.approx(1e298)
    for use in (
        lambda: local.rate(400),
        lambda: fm.train(fed, net, fm.FedAvg(), rounds=400, local=local),
        lambda: fm.simulate(fed, net, torch.zeros(1, 400, 2), local=local),
    ):
        with pytest.raises(ValueError, match=r"^decay: 10 makes the step size of round 400"):
            use()


@pytest.mark.parametrize(
    ("t", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (np.nan, TypeError)]
)
def test_a_round_is_a_whole_number_from_one(make_fed, t, error):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    for clients in (None, []):
        with pytest.raises(error, match=r"^t: "):
            fm.local_updates(fed, net, net.init(0), clients, t=t)


def test_rows_come_in_stacks_that_are_overwritten(make_fed, monkeypatch):
    """The memory of a training is one stack's, whatever the number of rows."""
    fed, net, local = make_fed(SIZES), fm.mlp(6, 4, 3), LocalSGD(batch=4)
    monkeypatch.setattr("fedlab_mini.engine.local.STACK", 2 * net.P * 8)
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


@pytest.mark.parametrize("steps", [2, 30])
def test_tables_of_a_few_steps_at_a_time_give_the_same_bytes(make_fed, monkeypatch, steps):
    fed, net, local = make_fed(SIZES), fm.mlp(6, 4, 3), LocalSGD(batch=4, steps=steps)
    theta = net.init(0, dtype=torch.float64)
    wanted = fm.local_updates(fed, net, theta, local=local)
    for places in (1, 5 * 4 * 3):
        monkeypatch.setattr("fedlab_mini.engine.local.TABLE", places)
        assert torch.equal(fm.local_updates(fed, net, theta, local=local), wanted)


class Sends(UpdateAttack):
    """An attack of a user, which returns what it was made with."""

    def __init__(self, what):
        self.what = what

    def __call__(self, updates, previous, generator):
        return self.what


@pytest.mark.parametrize(
    ("what", "error"),
    [(None, TypeError), (1.0, ValueError), (torch.ones(2, 21), ValueError), ("no", TypeError)],
    ids=str,
)
def test_an_attack_that_sends_no_update_is_refused_by_name(make_fed, what, error):
    fed = fm.Federation(**{**vars(make_fed((4, 5))), "attacks": {1: Sends(what)}})
    with pytest.raises(error, match=r"^attack of client 1: expected an array \[1, 21\]"):
        fm.train(fed, fm.logistic(6, 3), fm.FedAvg(), rounds=1)


def test_an_attack_may_send_numpy_and_another_type(make_fed):
    attack = Sends(np.ones((1, 21), dtype=np.float32))
    fed = fm.Federation(**{**vars(make_fed((4, 5))), "attacks": {1: attack}})
    updates = fm.local_updates(fed, fm.logistic(6, 3), fm.logistic(6, 3).init(0))
    assert updates.dtype == torch.float64
    assert (updates[1] == 1).all()
    assert (updates[0] != 1).all()


def flushing() -> bool:
    """Whether this thread counts denormal numbers as 0."""
    return bool(torch.tensor(1e-310, dtype=torch.float64) * 2 == 0)


flushes = pytest.mark.skipif(
    not torch.set_flush_denormal(False), reason="the processor cannot flush denormals"
)


@flushes
@pytest.mark.parametrize("stacked", [True, False])
def test_denormals_count_as_zero_while_clients_train_and_models_are_judged(make_fed, stacked):
    """A tiny weight would cost some processors a hundred usual ones; here it is no weight."""
    plain, net = make_fed((4, 5)), of_module(fm.logistic(6, 3), stacked)
    fed = fm.Federation(**{**vars(plain), "x": plain.x.sign() * 1e300})  # times 1e-310: 1e-10
    theta = torch.zeros(net.P, dtype=torch.float64)
    theta[:6] = 1e-310
    assert torch.equal(*(fm.local_updates(fed, net, start) for start in (theta, theta * 0)))
    loss = net.evaluate(theta[None], fed.x, fed.y, "loss")
    assert float(loss) == pytest.approx(np.log(3), abs=1e-12)
    assert not flushing()


@flushes
@pytest.mark.parametrize("before", [False, True])
def test_denormals_are_as_they_were_after_training(make_fed, before):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    poisoned = fm.Federation(**{**vars(fed), "attacks": {1: Sends(None)}})
    torch.set_flush_denormal(before)
    try:
        fm.train(fed, net, fm.FedAvg(), rounds=1)
        assert flushing() == before
        with pytest.raises(TypeError, match="attack of client 1"):
            fm.simulate(poisoned, net, torch.ones(1, 1, 2))
        assert flushing() == before
    finally:
        torch.set_flush_denormal(False)


class Few(fm.FedAvg):
    """Asks few clients."""

    def select(self, server, state, t):
        return torch.arange(t)


def test_memory_is_that_of_the_clients_that_take_part(make_fed):
    """m x P: 10,000 clients with 500,000 parameters, ten a round, would be 20 GB as K x P."""
    fed, net, held = make_fed([2] * 500), fm.mlp(6, 50, 3), []

    def watch(round, step):
        held.append(round.updates.untyped_storage().nbytes())

    fm.train(fed, net, Few(), rounds=3, watch=watch)
    assert held[-1] == 3 * net.P * 8
