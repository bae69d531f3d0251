"""Partitions: disjoint, complete, no client empty, and each with the property its name promises."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.partition import (
    by_class,
    dirichlet_labels,
    dirichlet_sizes,
    iid,
    sorted_shards,
)

SPLITS = [
    iid(),
    by_class(1),
    by_class(3),
    sorted_shards(),
    sorted_shards(5),
    dirichlet_labels(),
    dirichlet_labels(0.01, floor=20),
    dirichlet_sizes(),
    dirichlet_sizes(1e-3, floor=7),
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def labels() -> torch.Tensor:
    return load("digits").y


def classes_held(y, groups):
    return [set(y[group].tolist()) for group in groups]


@pytest.mark.parametrize("split", SPLITS, ids=repr)
@pytest.mark.parametrize("clients", [10, 25])
def test_every_sample_has_one_client_and_no_client_is_empty(split, clients, labels):
    groups = split(labels, clients, generator())
    assert len(groups) == clients
    assert all(len(group) > 0 and group.dtype == torch.int64 for group in groups)
    assert torch.equal(torch.cat(groups).sort().values, torch.arange(len(labels)))
    assert all((group.diff() > 0).all() for group in groups)


@pytest.mark.parametrize("split", SPLITS, ids=repr)
def test_the_generator_decides(split, labels):
    first, again = (split(labels, 25, generator(1)) for _ in range(2))
    other = split(labels, 25, generator(2))
    assert all(map(torch.equal, first, again))
    assert not all(a.equal(b) for a, b in zip(first, other, strict=True))


@given(
    y=st.lists(st.integers(0, 4), min_size=12, max_size=80).map(torch.tensor),
    clients=st.integers(1, 6),
    seed=st.integers(0, 2**31),
    alpha=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
)
@settings(max_examples=60, deadline=None)
def test_any_labels_are_dealt_completely(y, clients, seed, alpha):
    for split in (
        iid(),
        sorted_shards(2),
        dirichlet_labels(alpha, floor=2),
        dirichlet_sizes(alpha, floor=2),
    ):
        groups = split(y, clients, generator(seed))
        assert torch.cat(groups).sort().values.equal(torch.arange(len(y)))
        assert min(len(group) for group in groups) >= (2 if "floor" in repr(split) else 1)


def test_iid_sizes_differ_by_at_most_one(labels):
    sizes = [len(group) for group in iid()(labels, 7, generator())]
    assert max(sizes) - min(sizes) <= 1


def test_one_client_and_one_sample_each():
    y = torch.tensor([2, 0, 1])
    assert iid()(y, 1, generator())[0].tolist() == [0, 1, 2]
    assert sorted(g.item() for g in iid()(y, 3, generator())) == [0, 1, 2]


@pytest.mark.parametrize(("each", "clients"), [(1, 10), (1, 30), (2, 10), (3, 8), (10, 4)])
def test_by_class_gives_each_client_so_many_classes(each, clients, labels):
    held = classes_held(labels, by_class(each)(labels, clients, generator()))
    assert all(len(classes) == each for classes in held)
    assert set.union(*held) == set(range(10))


def test_by_class_counts_classes_in_order(labels):
    held = classes_held(labels, by_class(2)(labels, 5, generator()))
    assert held == [{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}]


def test_by_class_skips_labels_that_do_not_occur():
    y = torch.tensor([3, 3, 8, 8])
    assert classes_held(y, by_class(1)(y, 2, generator())) == [{3}, {8}]


def test_sorted_shards_are_equal_and_hold_few_classes(labels):
    groups = sorted_shards(2)(labels, 10, generator())
    assert {len(group) for group in groups} <= {178, 179, 180}
    # a shard of 90 samples from classes of about 180 spans at most two classes
    assert max(len(classes) for classes in classes_held(labels, groups)) <= 4


def spread(alpha: float, labels: torch.Tensor) -> float:
    """Mean over clients of the largest share of one class."""
    groups = dirichlet_labels(alpha)(labels, 10, generator(3))
    counts = torch.stack([labels[g].bincount(minlength=10).double() for g in groups])
    return (counts.max(1).values / counts.sum(1)).mean().item()


def test_a_small_alpha_concentrates_the_classes(labels):
    assert spread(1000.0, labels) < 0.15 < spread(0.5, labels) < spread(0.01, labels)


def test_dirichlet_shares_have_the_right_mean_and_variance():
    """Dirichlet(a, ..., a) over K clients: mean 1/K, variance (K - 1) / (K^2 (K a + 1))."""
    y, alpha, clients = torch.zeros(10_000, dtype=torch.long), 0.5, 4
    sizes = torch.tensor(
        [
            [len(g) for g in dirichlet_labels(alpha)(y, clients, generator(seed))]
            for seed in range(400)
        ]
    ).double()
    shares = sizes / 10_000
    variance = (clients - 1) / clients**2 / (clients * alpha + 1)
    assert torch.allclose(shares.mean(0), torch.full((4,), 0.25).double(), atol=0.04)
    assert shares.var().item() == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3])
def test_a_tiny_alpha_does_not_underflow(alpha, labels):
    sizes = [len(group) for group in dirichlet_sizes(alpha)(labels, 10, generator())]
    assert sorted(sizes) == [1] * 9 + [len(labels) - 9]


def test_dirichlet_sizes_leave_the_labels_alone(labels):
    groups = dirichlet_sizes(0.5, floor=100)(labels, 5, generator())
    assert min(map(len, groups)) >= 100
    for group in groups:
        share = labels[group].bincount(minlength=10).double() / len(group)
        assert (share - 0.1).abs().max() < 0.12


def test_a_floor_that_takes_everything_gives_equal_sizes(labels):
    for split in (dirichlet_labels(0.05, floor=179), dirichlet_sizes(0.05, floor=179)):
        sizes = [len(group) for group in split(labels[:1790], 10, generator())]
        assert sizes == [179] * 10


@pytest.mark.parametrize("split", SPLITS, ids=repr)
@pytest.mark.parametrize("clients", [0, -1, 2000, True, 2.0])
def test_a_bad_number_of_clients_is_named(split, clients, labels):
    with pytest.raises((TypeError, ValueError), match="clients"):
        split(labels, clients, generator())


def test_too_few_samples_for_the_floor_or_the_shards(labels):
    for split in (dirichlet_labels(0.5, 200), dirichlet_sizes(0.5, 200), sorted_shards(200)):
        with pytest.raises(ValueError, match="clients"):
            split(labels, 10, generator())


def test_by_class_refuses_what_it_cannot_do(labels):
    with pytest.raises(ValueError, match="only_classes"):
        by_class(1)(labels, 4, generator())
    with pytest.raises(ValueError, match="classes_per_client"):
        by_class(11)(labels, 4, generator())
    with pytest.raises(ValueError, match="class 1 has 1 samples for 2"):
        by_class(1)(torch.tensor([0, 0, 0, 1]), 4, generator())
    dealt = by_class(1)(torch.tensor([0, 0, 1, 1]), 4, generator())  # one each is enough
    assert [len(positions) for positions in dealt] == [1, 1, 1, 1]


def test_wrong_types_are_named(labels):
    with pytest.raises(TypeError, match="y"):
        iid()(labels.float(), 2, generator())
    with pytest.raises(TypeError, match="y"):
        iid()("ab", 2, generator())
    with pytest.raises(TypeError, match="generator"):
        iid()(labels, 2, 0)


def test_the_repr_is_the_call():
    assert repr(dirichlet_labels(alpha=0.5)) == "dirichlet_labels(alpha=0.5, floor=1)"
    assert repr(iid()) == "iid()"
    assert by_class(2) == by_class(2)


def test_numpy_labels_and_numbers_deal_the_same(labels):
    for mine, twin in (
        (by_class(np.int64(2)), by_class(2)),
        (dirichlet_sizes(np.float64(0.5), floor=np.int8(3)), dirichlet_sizes(0.5, floor=3)),
    ):
        assert repr(mine) == repr(twin)
        groups = mine(labels.numpy(), np.int64(6), generator())
        assert all(map(torch.equal, groups, twin(labels, 6, generator())))


@pytest.mark.parametrize("alpha", [1e-300, 1e300])
def test_extreme_alphas_deal_everything(alpha, labels):
    for split in (dirichlet_sizes(alpha), dirichlet_labels(alpha)):
        assert len(torch.cat(split(labels, 5, generator()))) == len(labels)
