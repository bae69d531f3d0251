"""Corruptions: exactly what they say, deterministic, and never in place."""

import numpy as np
import pytest
import torch

from fedlab_mini.worlds.attacks import UpdateAttack, free_ride, replay, scale, sign_flip
from fedlab_mini.worlds.corrupt import (
    DataCorruption,
    backdoor,
    delete_words,
    flip_labels,
    relabel_as,
    swap_labels,
)
from fedlab_mini.worlds.data import load

DIGITS, SMS = load("digits"), load("sms-synthetic")
EVEN = DIGITS.only_classes([0, 2, 4, 6, 8])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


DATA = [
    flip_labels(0.4),
    relabel_as(3, 0.9),
    swap_labels((0, 1), (2, 4)),
    backdoor(2, 0.3, (1, 8, 8)),
    backdoor(None, 0.3, (1, 8, 8)),
]
ATTACKS = [sign_flip(), sign_flip(3.0), free_ride(), free_ride(0.1), scale(5.0), replay()]


@pytest.mark.parametrize("corruption", DATA, ids=repr)
def test_inputs_are_not_modified_and_changed_tells_the_truth(corruption):
    x, y = EVEN.x.clone(), EVEN.y.clone()
    new_x, new_y, changed = corruption(x, y, 5, generator())
    assert x.equal(EVEN.x)
    assert y.equal(EVEN.y)
    assert new_x.data_ptr() != x.data_ptr()
    assert new_y.data_ptr() != y.data_ptr()
    assert changed.dtype == torch.bool
    assert changed.equal((new_x != x).any(1) | (new_y != y))
    assert (new_x.dtype, new_y.dtype) == (x.dtype, y.dtype)
    assert int(new_y.min()) >= 0
    assert int(new_y.max()) < 5


@pytest.mark.parametrize("corruption", DATA, ids=repr)
def test_the_generator_decides(corruption):
    first, again = (corruption(EVEN.x, EVEN.y, 5, generator(1)) for _ in range(2))
    other = corruption(EVEN.x, EVEN.y, 5, generator(2))
    assert all(map(torch.equal, first, again))
    if not isinstance(corruption, swap_labels):
        assert not all(map(torch.equal, first, other))


@pytest.mark.parametrize("corruption", [*DATA, delete_words(0.2)], ids=repr)
def test_data_corruptions_are_marked_and_attacks_too(corruption):
    assert isinstance(corruption, DataCorruption)
    assert not isinstance(corruption, UpdateAttack)
    assert all(isinstance(attack, UpdateAttack) for attack in ATTACKS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_stays(dtype):
    x, _, _ = backdoor(None, 0.3, (1, 8, 8))(EVEN.x.to(dtype), EVEN.y, 5, generator())
    assert x.dtype == dtype


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.5, 1.0])
def test_flip_labels_flips_exactly_so_many(share):
    x, y, changed = flip_labels(share)(EVEN.x, EVEN.y, 5, generator())
    assert int((y != EVEN.y).sum()) == int(changed.sum()) == round(share * len(EVEN))
    assert x.equal(EVEN.x)


def test_flip_labels_takes_each_other_class_equally_often():
    y = torch.full((40_000,), 2)
    _, flipped, _ = flip_labels(1.0)(torch.zeros(40_000, 1), y, 5, generator())
    counts = flipped.bincount(minlength=5)
    assert counts[2] == 0
    assert (counts[[0, 1, 3, 4]] - 10_000).abs().max() < 400  # 4.6 standard deviations


def test_relabel_as_sets_so_many_labels():
    _, y, changed = relabel_as(4, 0.9)(EVEN.x, EVEN.y, 5, generator())
    already = EVEN.y == 4
    assert int(changed.sum()) <= round(0.9 * len(EVEN))
    assert int((y == 4).sum()) == int(changed.sum()) + int(already.sum())
    _, y, _ = relabel_as(4)(EVEN.x, EVEN.y, 5, generator())
    assert (y == 4).all()


def test_swap_labels_swaps_and_twice_is_nothing():
    corruption = swap_labels((0, 1), (2, 4))
    _, y, _ = corruption(EVEN.x, torch.arange(5).repeat(179)[: len(EVEN)], 5, generator())
    assert y[:5].tolist() == [1, 0, 4, 3, 2]
    _, twice, _ = corruption(EVEN.x, y, 5, generator())
    assert twice[:5].tolist() == [0, 1, 2, 3, 4]


def test_delete_words_from_counts():
    bag = SMS.subset(range(300))
    corruption = delete_words(0.2)
    x, y, changed = corruption(bag.x, bag.y, 2, generator())
    total = bag.x.sum(1)
    assert x.sum(1).equal(total - (0.2 * total.double()).round().to(total))
    assert ((x >= 0) & (x <= bag.x)).all()
    assert y.equal(bag.y)
    assert changed.equal((x != bag.x).any(1))


def test_delete_words_from_tokens_moves_the_rest_left():
    row = torch.tensor([[5.0, 3.0, 5.0, 9.0, 1.0, 0.0, 0.0], [7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    y = torch.zeros(2, dtype=torch.long)
    for seed in range(20):
        x, _, _ = delete_words(0.4, form="tokens")(row, y, 2, generator(seed))
        left = x[0][x[0] > 0].tolist()
        assert len(left) == 3
        assert x[0, :3].tolist() == left  # padding only at the end
        remaining = iter(row[0].tolist())
        assert all(token in remaining for token in left)  # in their order
        assert x[1].equal(row[1])  # round(0.4 * 1) = 0


def test_delete_words_from_some_messages_only():
    bag = SMS.subset(range(400))
    full = bag.subset(bag.x.sum(1) >= 5)
    _, _, changed = delete_words(0.2, messages=0.25)(full.x, full.y, 2, generator())
    assert int(changed.sum()) == round(0.25 * len(full))


def test_delete_words_all_or_none():
    bag = SMS.subset(range(50))
    x, _, _ = delete_words(1.0)(bag.x, bag.y, 2, generator())
    assert (x == 0).all()
    x, _, changed = delete_words(0.0)(bag.x, bag.y, 2, generator())
    assert x.equal(bag.x)
    assert not changed.any()


def test_deleted_occurrences_are_equally_likely():
    x = torch.tensor([[6.0, 3.0, 1.0]]).repeat(6000, 1)
    y = torch.zeros(6000, dtype=torch.long)
    left, _, _ = delete_words(0.5)(x, y, 2, generator())
    assert torch.allclose(left.mean(0), torch.tensor([3.0, 1.5, 0.5]), atol=0.05)


def test_backdoor_stamps_the_corner_and_relabels():
    corruption = backdoor(2, 0.3, (1, 8, 8), size=2)
    x, y, changed = corruption(EVEN.x, EVEN.y, 5, generator())
    images = x.view(-1, 8, 8)
    stamped = (images[:, 6:, 6:] == 1).all(dim=(1, 2))
    assert int(stamped.sum()) == round(0.3 * len(EVEN))
    assert (y[stamped] == 2).all()
    assert y[~stamped].equal(EVEN.y[~stamped])
    images[:, 6:, 6:] = EVEN.x.view(-1, 8, 8)[:, 6:, 6:]
    assert images.reshape(-1, 64).equal(EVEN.x)  # nothing else has changed
    assert not changed[~stamped].any()


def test_backdoor_in_colour_and_pixel_only():
    x = torch.zeros(4, 3 * 5 * 4)
    y = torch.tensor([0, 1, 0, 1])
    stamped, labels, _ = backdoor(None, 1.0, (3, 5, 4), size=1)(x, y, 2, generator())
    assert labels.equal(y)
    expected = torch.zeros(4, 3, 5, 4)
    expected[:, :, -1, -1] = 1
    assert stamped.view(4, 3, 5, 4).equal(expected)


def test_attacks_do_what_they_say():
    updates = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
    previous = torch.tensor([3.0, 7.0])
    assert sign_flip()(updates, previous, generator()).equal(-updates)
    assert sign_flip(2.0)(updates, previous, generator()).equal(-2 * updates)
    assert scale(10.0)(updates, previous, generator()).equal(10 * updates)
    assert scale(0.0)(updates, previous, generator()).equal(0 * updates)
    assert replay()(updates, previous, generator()).equal(previous.repeat(2, 1))
    assert replay()(updates, updates + 1, generator()).equal(updates + 1)
    assert replay()(updates, None, generator()).equal(torch.zeros(2, 2))


def test_free_ride_sends_noise_whatever_the_update():
    updates = torch.ones(3, 20_000)
    sent = free_ride(0.01)(updates, None, generator())
    assert sent.std().item() == pytest.approx(0.01, rel=0.05)
    assert abs(sent.mean().item()) < 3e-4
    assert sent.equal(free_ride(0.01)(updates * 9, None, generator()))
    assert not sent[0].equal(sent[1])
    assert free_ride(0.0)(updates, None, generator()).equal(torch.zeros_like(updates))


@pytest.mark.parametrize("attack", ATTACKS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attacks_leave_their_inputs_alone(attack, dtype):
    updates, previous = torch.ones(2, 3, dtype=dtype), torch.ones(3, dtype=dtype)
    sent = attack(updates, previous, generator(5))
    assert sent.equal(attack(updates, previous, generator(5)))
    assert sent.shape == (2, 3)
    assert sent.dtype == dtype
    sent += 1
    assert (updates == 1).all()
    assert (previous == 1).all()


@pytest.mark.parametrize(
    ("make", "error", "argument"),
    [
        (lambda: flip_labels(1.1), ValueError, "share"),
        (lambda: flip_labels(-0.1), ValueError, "share"),
        (lambda: flip_labels(float("nan")), ValueError, "share"),
        (lambda: flip_labels("0.5"), TypeError, "share"),
        (lambda: relabel_as(0, 2), ValueError, "share"),
        (lambda: relabel_as(-1), ValueError, "target"),
        (lambda: relabel_as(0.5), TypeError, "target"),
        (lambda: delete_words(-1), ValueError, "share"),
        (lambda: delete_words(0.1, messages=1.5), ValueError, "messages"),
        (lambda: delete_words(0.1, form="bag"), ValueError, "form"),
        (lambda: backdoor(0, 3.0, (1, 8, 8)), ValueError, "share"),
        (lambda: backdoor(0, 0.3, (8, 8)), ValueError, "shape"),
        (lambda: backdoor(0, 0.3, (1, 8.5, 8)), TypeError, "shape"),
        (lambda: backdoor(0, 0.3, (1, 8, 8), size=9), ValueError, "size"),
        (lambda: backdoor(0, 0.3, (1, 8, 8), size=1.5), TypeError, "size"),
        (lambda: swap_labels(), ValueError, "pairs"),
        (lambda: swap_labels((1, 2), (2, 3)), ValueError, "pairs"),
        (lambda: swap_labels((1.5, 2)), TypeError, "pairs"),
        (lambda: swap_labels(1, 2), ValueError, "pairs"),
        (lambda: sign_flip(0.0), ValueError, "strength"),
        (lambda: free_ride(-1.0), ValueError, "noise"),
        (lambda: scale(float("inf")), ValueError, "factor"),
        (lambda: scale(None), TypeError, "factor"),
        (lambda: flip_labels(0.5)(EVEN.x, torch.zeros(len(EVEN)).long(), 1, generator()),
         ValueError, "classes"),
        (lambda: flip_labels(0.5)(EVEN.x, EVEN.y, 3, generator()), ValueError, "y"),
        (lambda: flip_labels(0.5)(EVEN.x[:5], EVEN.y, 5, generator()), ValueError, "y"),
        (lambda: flip_labels(0.5)(None, EVEN.y, 5, generator()), TypeError, "x"),
        (lambda: flip_labels(0.5)(EVEN.x, EVEN.y, 5, [generator()]), TypeError, "generator"),
        (lambda: swap_labels((0, 1))(EVEN.x, EVEN.y, 5, None), TypeError, "generator"),
        (lambda: free_ride()(torch.ones(2, 3), None, [generator()]), TypeError, "generator"),
        (lambda: scale(2.0)(torch.ones(3), None, generator()), ValueError, "updates"),
        (lambda: replay()(torch.ones(2, 3), torch.ones(4), generator()), ValueError, "previous"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(make, error, argument):
    with pytest.raises(error, match=f"^{argument}: "):
        make()


@pytest.mark.parametrize(
    ("corruption", "argument"),
    [
        (relabel_as(5), "target"),
        (backdoor(9, 0.3, (1, 8, 8)), "target"),
        (backdoor(0, 0.3, (1, 28, 28)), "shape"),
        (swap_labels((0, 7)), "pairs"),
        (delete_words(0.2), "x: delete_words"),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_data_is_named(corruption, argument):
    with pytest.raises(ValueError, match=f"^{argument}"):
        corruption(EVEN.x, EVEN.y, 5, generator())


def test_numpy_is_accepted():
    wrong = flip_labels(np.float32(0.5))
    assert wrong == flip_labels(0.5)
    mine = wrong(EVEN.x.numpy(), EVEN.y.numpy(), np.int64(5), generator())
    assert all(map(torch.equal, mine, wrong(EVEN.x, EVEN.y, 5, generator())))
    assert repr(swap_labels(*np.array([(2, 4)]))) == "swap_labels((2, 4))"
    updates = np.ones((2, 3))
    assert scale(np.int64(2))(updates, None, generator()).tolist() == [[2.0] * 3] * 2


def test_a_corruption_of_ones_own_says_what_it_changes():
    class Brighter(DataCorruption):
        def change(self, x, y, classes, generator):
            x[:3] += 1
            return x, y

    before = EVEN.x.clone()
    x, y, changed = Brighter()(EVEN.x, EVEN.y, 5, generator())
    assert changed.nonzero()[:, 0].tolist() == [0, 1, 2]
    assert x[:3].equal(before[:3] + 1)
    assert (EVEN.x.equal(before), y.equal(EVEN.y)) == (True, True)


def test_the_repr_tells_what_happens():
    assert repr(flip_labels(0.4)) == "flip_labels(share=0.4)"
    assert repr(swap_labels((2, 4), [1, 7])) == "swap_labels((2, 4), (1, 7))"
    assert repr(sign_flip()) == "sign_flip(strength=1.0)"
    assert repr(replay()) == "replay()"
