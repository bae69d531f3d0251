"""Federation: who holds what, from data sets of any origin or dealt from one, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.worlds.corrupt import Backdoor


def pair(n: int = 4, inputs: int = 3, label: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples of one class."""
    return torch.ones(n, inputs), torch.full((n,), label)


def build(*datasets, **changes) -> fm.Federation:
    """A federation of the given clients, with a server that fits unless told otherwise."""
    server = {"validation": pair(label=2), "test": pair(label=0)}
    arguments = {"datasets": datasets or [pair()]} | server | changes
    return fm.Federation.from_datasets(**arguments)


DIGITS = fm.load("digits")


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
    assert (fed.corrupted, fed.noise.tolist()) == (set(), [0, 0, 0])
    assert "3 clients x 1-5 samples" in repr(fed)
    for part, samples in {"validation": fed.validation, "test": fed.test}.items():
        assert all(map(torch.equal, fed.server(part), samples))
    # the number of classes comes from all labels, or from the caller
    assert build(pair(label=0)).classes == 3
    assert build(test=pair(label=6)).classes == 7
    assert build(classes=10).label_counts.shape == (1, 10)


def test_arrays_images_lists_and_generators_are_accepted():
    x, y = np.arange(6.0).reshape(3, 2), np.array([0, 2, 1], dtype=np.uint8)
    server = {"validation": (x, y), "test": (x.tolist(), y.tolist())}
    fed = fm.Federation.from_datasets(((x, y) for _ in range(2)), **server)
    assert fed.x.tolist() == [*x.tolist(), *x.tolist()]
    assert (fed.x.dtype, fed.y.dtype) == (torch.float64, torch.long)
    assert fed.y.tolist() == [0, 2, 1] * 2
    single = fed.to(dtype=torch.float32)
    assert {t.dtype for t in (single.x, single.validation[0], single.test[0])} == {torch.float32}
    small = (x.astype(np.uint8).reshape(3, 1, 2), y)
    fed = fm.Federation.from_datasets([small], validation=small, test=small, classes=np.int64(9))
    assert (fed.x.dtype, fed.x.shape, fed.classes) == (torch.float32, (3, 1, 2), 9)


NAN = (torch.tensor([[1.0, torch.nan, 0.0]]), torch.tensor([1]))
INF = (torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([1]))


def test_a_client_with_broken_inputs_stays_but_is_named():
    with pytest.warns(UserWarning, match="client 1, 3 holds NaN or infinite"):
        fed = build(pair(), NAN, pair(2), INF)
    assert (fed.clients, fed.unusable) == (4, frozenset({1, 3}))


def test_dealing_gives_every_sample_to_one_owner_by_the_seed():
    fed = fm.federation(DIGITS, clients=7, validation=100, test=200, seed=3)
    parts = [fed.x, fed.validation[0], fed.test[0]]
    assert [len(p) for p in parts] == [1797 - 300, 100, 200]
    dealt = sorted(map(tuple, torch.cat(parts).tolist()))
    assert dealt == sorted(map(tuple, DIGITS.x.tolist()))
    assert (fed.clients, fed.classes) == (7, 10)
    one, same, other = (fm.federation(DIGITS, seed=s) for s in (0, 0, 1))
    assert torch.equal(one.x, same.x)
    assert not torch.equal(one.test[0], other.test[0])
    assert int(fm.federation(DIGITS, clients=4, samples=81).sizes.sum()) == 81
    own = DIGITS.subset(range(5))
    fed = fm.federation(DIGITS, validation=own, test=30)
    assert torch.equal(fed.validation[0], own.x)
    assert int(fed.sizes.sum()) == 1797 - 30


def test_corruption_reaches_only_the_named_clients_and_noise_counts_what_it_changed():
    wrongs = {
        0: fm.FlipLabels(0.4),
        1: fm.RelabelAs(3, 1.0),
        2: fm.attacks.SignFlip(),
        3: [fm.FlipLabels(0.5), fm.attacks.Scale(2.0)],
        6: fm.SwapLabels((2, 7)),
        7: Backdoor(None, 0.25, DIGITS.shape),
        8: [fm.FlipLabels(1.0), fm.RelabelAs(4, 1.0)],  # changed twice counts once
    }
    clean = fm.federation(DIGITS, clients=9, seed=2)
    fed = fm.federation(DIGITS, clients=9, seed=2, corrupt=wrongs)
    differs = (fed.x != clean.x).any(1) | (fed.y != clean.y)
    wanted = torch.stack([part.double().mean() for part in differs.split(fed.sizes.tolist())])
    assert torch.equal(fed.noise[:8], wanted[:8])
    assert float(fed.noise[0] * fed.sizes[0]) == pytest.approx(round(0.4 * int(fed.sizes[0])))
    assert fed.noise[[2, 4, 5]].tolist() == [0, 0, 0]
    assert float(fed.noise[8]) == 1
    assert set(fed.client(8)[1].tolist()) == {4}
    assert fed.corrupted == set(wrongs)
    assert fed.attacks == {2: fm.attacks.SignFlip(), 3: fm.attacks.Scale(2.0)}
    assert "FlipLabels" in fed.truth[3]
