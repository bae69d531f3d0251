"""Partitions: disjoint, complete, no client empty, and each with the property its name promises."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.partition import (
    IID,
    ByClass,
    DirichletLabels,
    DirichletSizes,
    SortedShards,
)

LABELS = load("digits").y


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def classes_held(y, groups):
    return [set(y[group].tolist()) for group in groups]


@given(
    y=st.lists(st.integers(0, 4), min_size=12, max_size=80).map(torch.tensor),
    clients=st.integers(1, 6),
    seed=st.integers(0, 2**31),
    alpha=st.sampled_from([1e-300, 1e-3, 1.0, 100.0, 1e300]),
)
@settings(max_examples=40, deadline=None)
def test_any_labels_are_dealt_completely(y, clients, seed, alpha):
    for split, least in (
        (IID(), len(y) // clients),
        (SortedShards(2), 1),
        (DirichletLabels(alpha, floor=2), 2),
        (DirichletSizes(alpha, floor=2), 2),
    ):
        groups = split(y, clients, generator(seed))
        assert torch.cat(groups).sort().values.equal(torch.arange(len(y)))
        assert len(groups) == clients
        assert min(len(group) for group in groups) >= least


def test_by_class_counts_those_that_occur_in_order_and_refuses_what_it_cannot_do():
    groups = ByClass(3)(LABELS, 8, generator())
    assert torch.cat(groups).sort().values.equal(torch.arange(len(LABELS)))
    held = classes_held(LABELS, groups)
    assert all(len(classes) == 3 for classes in held)
    assert set.union(*held) == set(range(10))
    held = classes_held(LABELS, ByClass(2)(LABELS, 5, generator()))
    assert held == [{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}]
    y = torch.tensor([3, 3, 8, 8])
    assert classes_held(y, ByClass(1)(y, 2, generator())) == [{3}, {8}]
    with pytest.raises(ValueError, match="only_classes"):
        ByClass(1)(LABELS, 4, generator())
    with pytest.raises(ValueError, match="class 1 has 1 samples for 2"):
        ByClass(1)(torch.tensor([0, 0, 0, 1]), 4, generator())
    dealt = ByClass(1)(torch.tensor([0, 0, 1, 1]), 4, generator())  # one each is enough
    assert [len(positions) for positions in dealt] == [1, 1, 1, 1]


def test_sorted_shards_are_equal_and_hold_few_classes():
    groups = SortedShards(2)(LABELS, 10, generator())
    assert {len(group) for group in groups} <= {178, 179, 180}
    # a shard of 90 samples from classes of about 180 spans at most two classes
    assert max(len(classes) for classes in classes_held(LABELS, groups)) <= 4


def spread(alpha: float) -> float:
    """Mean over clients of the largest share of one class."""
    groups = DirichletLabels(alpha)(LABELS, 10, generator(3))
    counts = torch.stack([LABELS[g].bincount(minlength=10).double() for g in groups])
    return (counts.max(1).values / counts.sum(1)).mean().item()


def test_a_small_alpha_concentrates_the_classes_or_the_sizes():
    assert spread(1000.0) < 0.15 < spread(0.5) < spread(0.01)
    for alpha in (1e-6, 1e-3):
        sizes = [len(group) for group in DirichletSizes(alpha)(LABELS, 10, generator())]
        assert sorted(sizes) == [1] * 9 + [len(LABELS) - 9]


def test_dirichlet_shares_have_the_right_mean_and_variance():
    """Dirichlet(a, ..., a) over K clients: mean 1/K, variance (K - 1) / (K^2 (K a + 1))."""
    y, alpha, clients = torch.zeros(10_000, dtype=torch.long), 0.5, 4
    variance = (clients - 1) / clients**2 / (clients * alpha + 1)
    for split in (DirichletLabels(alpha), DirichletSizes(alpha)):
        dealt = [[len(g) for g in split(y, clients, generator(seed))] for seed in range(300)]
        shares = torch.tensor(dealt).double() / 10_000
        assert torch.allclose(shares.mean(0), torch.full((4,), 0.25).double(), atol=0.05)
        assert shares.var().item() == pytest.approx(variance, rel=0.15)


def test_dirichlet_sizes_leave_the_labels_alone_and_floors_are_kept():
    groups = DirichletSizes(0.5, floor=100)(LABELS, 5, generator())
    assert min(map(len, groups)) >= 100
    for group in groups:
        share = LABELS[group].bincount(minlength=10).double() / len(group)
        assert (share - 0.1).abs().max() < 0.12
    for split in (DirichletLabels(0.05, floor=179), DirichletSizes(0.05, floor=179)):
        assert [len(group) for group in split(LABELS[:1790], 10, generator())] == [179] * 10
    for split in (DirichletLabels(0.5, 200), DirichletSizes(0.5, 200), SortedShards(200)):
        with pytest.raises(ValueError, match="clients"):
            split(LABELS, 10, generator())
