"""Corruptions: exactly what they say, deterministic, and never in place.

What is refused: tests/properties/out_of_range.py.
"""

import pytest
import torch

from fedlab_mini.worlds.corrupt import (
    Backdoor,
    DeleteWords,
    FlipLabels,
    RelabelAs,
    SwapLabels,
)
from fedlab_mini.worlds.data import load

DIGITS, SMS = load("digits"), load("sms-synthetic")
EVEN = DIGITS.only_classes([0, 2, 4, 6, 8])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


DATA = [
    FlipLabels(0.4),
    RelabelAs(3, 0.9),
    SwapLabels((0, 1), (2, 4)),
    Backdoor(2, 0.3, (1, 8, 8)),
    Backdoor(None, 0.3, (1, 8, 8)),
]


@pytest.mark.parametrize("corruption", DATA, ids=repr)
def test_inputs_are_not_modified_and_changed_tells_the_truth(corruption):
    x, y = EVEN.x.clone(), EVEN.y.clone()
    new_x, new_y, changed = corruption(x, y, 5, generator(1))
    assert x.equal(EVEN.x)
    assert y.equal(EVEN.y)
    assert changed.equal((new_x != x).any(1) | (new_y != y))
    assert {*new_y.tolist()} <= {*range(5)}
    again, other = (corruption(x, y, 5, generator(seed)) for seed in (1, 2))
    assert all(map(torch.equal, (new_x, new_y, changed), again))
    if not isinstance(corruption, SwapLabels):
        assert not all(map(torch.equal, again, other))


def test_flip_labels_takes_each_other_class_equally_often():
    """And exactly so many."""
    for share in (0.0, 0.1, 0.5):
        _, y, _ = FlipLabels(share)(EVEN.x, EVEN.y, 5, generator())
        assert int((y != EVEN.y).sum()) == round(share * len(EVEN))
    y = torch.full((40_000,), 2)
    _, flipped, _ = FlipLabels(1.0)(torch.zeros(40_000, 1), y, 5, generator())
    counts = flipped.bincount(minlength=5)
    assert counts[2] == 0
    assert (counts[[0, 1, 3, 4]] - 10_000).abs().max() < 400  # 4.6 standard deviations


def test_swap_labels_swaps_and_relabel_as_names():
    labels = torch.arange(5).repeat(179)[: len(EVEN)]
    _, y, _ = SwapLabels((0, 1), [2, 4])(EVEN.x, labels, 5, generator())
    assert y[:5].tolist() == [1, 0, 4, 3, 2]
    assert repr(SwapLabels((0, 1), [2, 4])) == "SwapLabels((0, 1), (2, 4))"
    _, y, changed = RelabelAs(4, 0.9)(EVEN.x, 0 * EVEN.y, 5, generator())
    assert int((y == 4).sum()) == int(changed.sum()) == round(0.9 * len(EVEN))


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_delete_words_from_counts(share):
    bag = SMS.subset(range(300))
    x, _, changed = DeleteWords(share)(bag.x, bag.y, 2, generator())
    total = bag.x.sum(1)
    assert x.sum(1).equal(total - (share * total.double()).round().to(total))
    assert ((x >= 0) & (x <= bag.x)).all()
    assert changed.equal((x != bag.x).any(1))
    full = bag.subset((total >= 5).nonzero()[:, 0])
    _, _, changed = DeleteWords(share, messages=0.25)(full.x, full.y, 2, generator())
    assert int(changed.sum()) == round(0.25 * len(full))


def test_delete_words_from_tokens_moves_the_rest_left():
    row = torch.tensor([[5.0, 3.0, 5.0, 9.0, 1.0, 0.0, 0.0], [7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    y = torch.zeros(2, dtype=torch.long)
    for seed in range(20):
        x, _, _ = DeleteWords(0.4, form="tokens")(row, y, 2, generator(seed))
        remaining = iter(row[0].tolist())
        assert all(token in remaining for token in x[0, :3].tolist())  # in their order
        assert not x[0, 3:].any()  # padding only at the end
        assert x[1].equal(row[1])  # round(0.4 * 1) = 0


def test_backdoor_stamps_the_corner_and_relabels():
    x, y, _ = Backdoor(2, 0.3, (1, 8, 8), size=2)(EVEN.x, EVEN.y, 5, generator())
    images = x.view(-1, 8, 8)
    stamped = (images[:, 6:, 6:] == 1).all(dim=(1, 2))
    assert int(stamped.sum()) == round(0.3 * len(EVEN))
    assert (y[stamped] == 2).all()
    assert y[~stamped].equal(EVEN.y[~stamped])
    images[:, 6:, 6:] = EVEN.x.view(-1, 8, 8)[:, 6:, 6:]
    assert images.reshape(-1, 64).equal(EVEN.x)  # nothing else has changed
    colour, y = torch.zeros(4, 3 * 5 * 4), torch.tensor([0, 1, 0, 1])
    stamped, labels, _ = Backdoor(None, 1.0, (3, 5, 4), size=1)(colour, y, 2, generator())
    assert labels.equal(y)
    expected = torch.zeros(4, 3, 5, 4)
    expected[:, :, -1, -1] = 1
    assert stamped.view(4, 3, 5, 4).equal(expected)
