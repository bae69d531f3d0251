"""Federation: who holds what, from data sets of any origin or dealt from one, and its errors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import fedlab_mini as fm


def pair(n: int = 4, inputs: int = 3, label: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples of one class."""
    return torch.ones(n, inputs), torch.full((n,), label)


def build(*datasets, **changes) -> fm.Federation:
    """A federation of the given clients, with a server that fits unless told otherwise."""
    server = {"validation": pair(label=2), "test": pair(label=0)}
    arguments = {"datasets": datasets or [pair()]} | server | changes
    return fm.Federation.from_datasets(**arguments)


@pytest.fixture(scope="module")
def digits() -> fm.Dataset:
    """The embedded digits."""
    return fm.load("digits")


def test_clients_keep_their_samples_and_ids():
    sizes = (5, 1, 3)
    pairs = [(torch.full((n, 2), float(k)), torch.full((n,), k)) for k, n in enumerate(sizes)]
    fed = build(*pairs, validation=pair(inputs=2), test=pair(inputs=2))
    assert (fed.clients, fed.classes) == (3, 3)
    assert fed.sizes.tolist() == [5, 1, 3]
    assert fed.offsets.tolist() == [0, 5, 6, 9]
    for k, (x, y) in enumerate(pairs):
        assert torch.equal(fed.client(k)[0], x)
        assert torch.equal(fed.client(k)[1], y)
    assert fed.label_counts.tolist() == [[5, 0, 0], [0, 1, 0], [0, 0, 3]]
    assert fed.corrupted == set()
    assert "3 clients x 1-5 samples" in repr(fed)


def test_the_number_of_classes_comes_from_all_labels_or_from_the_caller():
    assert build(pair(label=0)).classes == 3
    assert build(test=pair(label=6)).classes == 7
    assert build(classes=10).classes == 10
    assert build(classes=10).label_counts.shape == (1, 10)


def test_small_integer_labels_and_images_are_accepted():
    x, y = torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 2, 1], dtype=torch.uint8)
    fed = build((x, y), validation=(x, y), test=(x, y))
    assert fed.y.dtype == torch.long
    assert fed.x.shape == (4, 1, 2, 2)


def test_another_type_keeps_everything_else():
    fed = build(pair(), pair(2)).to(dtype=torch.float64)
    assert {t.dtype for t in (fed.x, fed.validation[0], fed.test[0])} == {torch.float64}
    assert {t.dtype for t in (fed.y, fed.validation[1], fed.test[1])} == {torch.long}
    assert fed.sizes.tolist() == [4, 2]


def test_server_samples_by_name():
    fed = build()
    for part, samples in {"validation": fed.validation, "test": fed.test}.items():
        assert all(map(torch.equal, fed.server(part), samples))


def test_numpy_arrays_lists_and_generators_are_accepted():
    x, y = np.arange(6.0).reshape(3, 2), np.array([0, 2, 1], dtype=np.int32)
    server = {"validation": (x, y), "test": (x.tolist(), y.tolist())}
    with pytest.raises(TypeError, match="validation: inputs are"):
        fm.Federation.from_datasets([(x, y)], **server | {"validation": (x.astype(np.float32), y)})
    fed = fm.Federation.from_datasets(((x, y) for _ in range(2)), **server)
    assert fed.x.tolist() == [*x.tolist(), *x.tolist()]
    assert fed.x.dtype == torch.float64
    assert fed.y.tolist() == [0, 2, 1] * 2
    assert fed.client(np.int64(1))[0].tolist() == x.tolist()
    small = (x.astype(np.uint8), y)
    fed = fm.Federation.from_datasets([small], validation=small, test=small, classes=np.int64(9))
    assert (fed.x.dtype, fed.classes) == (torch.float32, 9)


NAN = (torch.tensor([[1.0, torch.nan, 0.0]]), torch.tensor([1]))
INF = (torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([1]))
BAD = [
    (lambda: build(datasets=[]), ValueError, "datasets"),
    (lambda: build(pair(), pair(0)), ValueError, r"datasets\[1\]"),
    (lambda: build(pair(0)), ValueError, r"datasets\[0\]"),
    (lambda: build(pair(), pair(inputs=2)), ValueError, r"datasets\[1\]"),
    (lambda: build(pair(), (torch.ones(3, 3), torch.ones(2).long())), ValueError, r"datasets\[1\]"),
    (lambda: build((torch.ones(3, 3), torch.ones(3))), TypeError, r"datasets\[0\]: y"),
    (lambda: build((torch.ones(3, 3), torch.ones(3).bool())), TypeError, r"datasets\[0\]: y"),
    (lambda: build((torch.ones(3, 3).bool(), torch.ones(3).long())), TypeError, r"datasets\[0\]"),
    (lambda: build((torch.ones(3, 3), torch.ones(3, 1).long())), ValueError, r"datasets\[0\]"),
    (lambda: build((torch.ones(3, 3), -torch.ones(3).long())), ValueError, r"datasets\[0\]"),
    (lambda: build(pair(), (pair()[0].double(), pair()[1])), TypeError, r"datasets\[1\]"),
    (lambda: build("ab"), TypeError, r"datasets\[0\]"),
    (lambda: build((1, 2)), ValueError, r"datasets\[0\]"),
    (lambda: build(("a", [0])), TypeError, r"datasets\[0\]"),
    (lambda: build(datasets=3), TypeError, "datasets"),
    (lambda: build(validation=pair(0)), ValueError, "validation"),
    (lambda: build(test=pair(inputs=9)), ValueError, "test"),
    (lambda: build(test=None), TypeError, "test"),
    (lambda: build(validation=NAN), ValueError, "validation"),
    (lambda: build(test=INF), ValueError, "test"),
    (lambda: build(NAN, INF), ValueError, "datasets"),
    (lambda: build(classes=2), ValueError, "classes"),
    (lambda: build(classes=0), ValueError, "classes"),
    (lambda: build(classes=7.5), TypeError, "classes"),
    (lambda: build(classes=np.nan), TypeError, "classes"),
    (lambda: build().client(-1), ValueError, "k"),
    (lambda: build().client(1), ValueError, "k"),
    (lambda: build().client(0.5), TypeError, "k"),
    (lambda: build().server("training"), ValueError, "on"),
    (lambda: build().to(dtype=torch.int64), ValueError, "dtype"),
    (lambda: build().to(dtype="float32"), TypeError, "dtype"),
    (lambda: replace(build(), x=NAN[0].expand(4, 3)), ValueError, "x"),
    (lambda: replace(build(), y=torch.full((4,), 3)), ValueError, "x, y"),
    (lambda: replace(build(), sizes=[3]), ValueError, "sizes"),
    (lambda: replace(build(), sizes=[4, 0]), ValueError, "sizes"),
    (lambda: replace(build(), test=pair(inputs=2)), ValueError, "test"),
    (lambda: replace(build(), validation=INF), ValueError, "validation"),
    (lambda: replace(build(), truth=["bad"]), TypeError, "truth"),
    (lambda: replace(build(), truth={1: "bad"}), ValueError, "truth"),
    (lambda: replace(build(), attacks={0: fm.flip_labels(0.1)}), TypeError, r"attacks\[0\]"),
    (lambda: replace(build(), attacks={1: fm.sign_flip()}), ValueError, "attacks"),
    (lambda: replace(build(), unusable={0}), ValueError, "unusable"),
    (lambda: replace(build(), unusable={5}), ValueError, "unusable"),
    (lambda: replace(build(), noise=torch.zeros(2)), ValueError, "noise"),
    (lambda: replace(build(), classes=0), ValueError, "classes"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "name"), BAD)
def test_what_does_not_fit_is_named(make, error, name):
    with pytest.raises(error, match=rf"^{name}: "):
        make()


@pytest.mark.parametrize("broken", [NAN, INF], ids=["NaN", "infinite"])
def test_a_client_with_broken_inputs_stays_but_is_named(broken):
    with pytest.warns(UserWarning, match="client 1 holds NaN or infinite"):
        fed = build(pair(), broken, pair(2))
    assert (fed.clients, fed.unusable) == (3, frozenset({1}))


def test_dealing_gives_every_sample_to_one_owner(digits):
    fed = fm.federation(digits, clients=7, validation=100, test=200, seed=3)
    parts = [fed.x, fed.validation[0], fed.test[0]]
    assert [len(p) for p in parts] == [1797 - 300, 100, 200]
    rows = torch.cat(parts)
    assert torch.equal(rows.sum(0), digits.x.sum(0)) or torch.allclose(rows.sum(0), digits.x.sum(0))
    assert len(rows.unique(dim=0)) == len(digits.x.unique(dim=0))
    assert (fed.clients, fed.classes) == (7, 10)


def test_dealing_is_decided_by_the_seed(digits):
    one, same, other = (fm.federation(digits, seed=s) for s in (0, 0, 1))
    assert torch.equal(one.x, same.x)
    assert not torch.equal(one.test[0], other.test[0])


def test_samples_limits_what_the_clients_hold(digits):
    fed = fm.federation(digits, clients=4, samples=81)
    assert int(fed.sizes.sum()) == 81


def test_the_server_may_bring_its_own_samples(digits):
    own = fm.Dataset(
        x=digits.x[:5], y=digits.y[:5], classes=10, name="own", source="here", licence="CC0"
    )
    fed = fm.federation(digits, validation=own, test=30)
    assert torch.equal(fed.validation[0], digits.x[:5])
    assert int(fed.sizes.sum()) == 1797 - 30


def test_corruption_reaches_only_the_named_client_and_is_recorded(digits):
    clean = fm.federation(digits, clients=5, seed=2)
    fed = fm.federation(
        digits, clients=5, seed=2, corrupt={3: fm.flip_labels(1.0), 1: fm.sign_flip()}
    )
    for k in (1, 2, 4):
        assert torch.equal(fed.client(k)[1], clean.client(k)[1])
    assert not (fed.client(3)[1] == clean.client(3)[1]).any()
    assert torch.equal(fed.x, clean.x)
    assert set(fed.attacks) == {1}
    assert {1, 3} <= fed.corrupted
    assert "flip_labels" in fed.truth[3]


def test_several_corruptions_of_one_client_act_in_turn(digits):
    wrongs = [fm.relabel_as(4, 1.0), fm.scale(3.0)]
    fed = fm.federation(digits, clients=3, corrupt={2: wrongs})
    assert set(fed.client(2)[1].tolist()) == {4}
    assert fed.attacks[2] == fm.scale(3.0)


def test_without_corruption_there_is_no_noise(digits):
    for fed in (build(pair(), pair(2)), fm.federation(digits, clients=2)):
        assert torch.equal(fed.noise, torch.zeros(2, dtype=torch.float64))


def test_noise_is_the_share_of_samples_that_corruptions_changed(digits):
    wrongs = {
        0: fm.flip_labels(0.4),
        1: fm.relabel_as(3, 1.0),
        2: fm.sign_flip(),
        3: [fm.flip_labels(0.5), fm.scale(2.0)],
        4: fm.flip_labels(1e-6),
        6: fm.swap_labels((2, 7)),
    }
    clean = fm.federation(digits, clients=7, seed=2)
    with pytest.warns(
        UserWarning, match=r"^corrupt\[4\]: flip_labels\(share=1e-06\) changes none of"
    ):
        fed = fm.federation(digits, clients=7, seed=2, corrupt=wrongs)
    labels = [(fed.client(k)[1], clean.client(k)[1]) for k in range(7)]
    wanted = torch.stack([(now != before).double().mean() for now, before in labels])
    assert torch.equal(fed.noise, wanted)
    assert float(fed.noise[0] * fed.sizes[0]) == pytest.approx(round(0.4 * int(fed.sizes[0])))
    assert float(fed.noise[1]) == float((clean.client(1)[1] != 3).double().mean())
    assert fed.noise[[2, 4, 5]].tolist() == [0, 0, 0]
    assert fed.corrupted == set(wrongs) - {4}


def test_a_sample_that_is_changed_twice_counts_once(digits):
    wrongs = {0: [fm.flip_labels(1.0), fm.relabel_as(4, 1.0)], 1: [fm.flip_labels(0.5)] * 2}
    clean = fm.federation(digits, clients=3)
    fed = fm.federation(digits, clients=3, corrupt=wrongs)
    assert float(fed.noise[0]) == 1
    now, before = fed.client(1)[1], clean.client(1)[1]
    assert float((now != before).double().mean()) <= float(fed.noise[1]) <= 1
    assert 0.5 < float(fed.noise[1]) < 0.9  # two halves drawn apart: three quarters


def test_noise_of_inputs_counts_too(digits):
    wrong = fm.backdoor(None, 0.25, digits.shape)
    fed = fm.federation(digits, clients=3, corrupt={1: wrong})
    clean = fm.federation(digits, clients=3)
    touched = (fed.client(1)[0] != clean.client(1)[0]).any(1)
    assert float(fed.noise[1]) == float(touched.double().mean())
    assert 0.2 < float(fed.noise[1]) <= 0.26


def test_noise_stays_with_a_federation_that_is_moved(digits):
    fed = fm.federation(digits, clients=3, corrupt={1: fm.flip_labels(0.5)})
    moved = fed.to(dtype=torch.float64)
    assert torch.equal(moved.noise, fed.noise)
    assert moved.truth == fed.truth


def test_numpy_numbers_deal_the_same_federation(digits):
    own = {"clients": np.int64(4), "validation": np.int32(50), "seed": np.int16(3)}
    wrong = {np.int64(2): fm.flip_labels(np.float32(0.5))}
    fed = fm.federation(digits, **own, corrupt=wrong, samples=np.uint8(200))
    twin = fm.federation(
        digits, clients=4, validation=50, seed=3, samples=200, corrupt={2: fm.flip_labels(0.5)}
    )
    assert torch.equal(fed.x, twin.x)
    assert torch.equal(fed.y, twin.y)
    assert fed.truth == twin.truth


def test_slices_of_a_larger_tensor_are_copied_so_that_a_task_carries_its_own_data_only():
    x, y = torch.rand(3000, 50), torch.arange(3000) % 3
    parts = [(x[start : start + 10], y[start : start + 10]) for start in (0, 10, 20)]
    server = {"validation": (x[30:40], y[30:40]), "test": (x[40:50], y[40:50])}
    fed = fm.Federation.from_datasets(parts, **server)
    assert len(pickle.dumps(fed)) < 5 * 4 * 10 * 50 + 20_000  # 600,000 with the rest of x
    by_hand = fm.Federation(x[:30], y[:30], torch.tensor([10] * 3), **server, classes=3)
    assert len(pickle.dumps(by_hand)) < 5 * 4 * 10 * 50 + 20_000
    assert torch.equal(by_hand.x, x[:30])
