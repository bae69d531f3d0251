"""Scenarios: who is corrupted and how much, how samples are dealt, what a message looks like."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.worlds.corrupt import DeleteWords


def shares_wrong(fed: fm.Federation, clean: fm.Federation) -> Tensor:
    """Share of each client's labels that differ from those of a clean twin, [K]."""
    pairs = [(fed.client(k)[1], clean.client(k)[1]) for k in range(fed.clients)]
    return torch.stack([(a != b).double().mean() for a, b in pairs])


def made_up(n: int, classes: int = 10, seed: int = 0) -> fm.Dataset:
    """n samples with one input that tells them apart."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.arange(n, dtype=torch.float32)[:, None]
    return fm.Dataset(x=x, y=torch.randint(classes, (n,), generator=generator), classes=classes)


def server_sizes(fed: fm.Federation) -> tuple[int, int]:
    return len(fed.validation[1]), len(fed.test[1])


def same(fed: fm.Federation, twin: fm.Federation) -> bool:
    return torch.equal(fed.x, twin.x) and torch.equal(fed.y, twin.y) and fed.truth == twin.truth


# --- noisy digits --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_set", [1, 2, 3])
def test_noisy_digits_have_the_papers_noise_and_nothing_else(noise_set):
    seed, fifth = 4, 1797 // 5
    fed = fm.noisy_digits(noise_set=noise_set, seed=seed)
    assert (fed.clients, fed.classes, server_sizes(fed)) == (5, 10, (fifth, fifth))
    assert int(fed.sizes.sum()) == 1797 - 2 * fifth
    assert int(fed.sizes.max() - fed.sizes.min()) <= 1
    clean = fm.federation(fm.load("digits"), clients=5, validation=fifth, test=fifth, seed=seed)
    assert torch.equal(fed.x, clean.x)
    assert all(map(torch.equal, (*fed.validation, *fed.test), (*clean.validation, *clean.test)))
    assert torch.equal(fed.noise, shares_wrong(fed, clean))
    assert set(fed.noise.nonzero().flatten().tolist()) == fed.corrupted
    wrong = (fed.noise * fed.sizes).round()
    if noise_set == 2:
        order = fed.noise.argsort()
        levels = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]).double()
        assert torch.equal(wrong[order], (levels * fed.sizes[order]).round())
        return
    (k,) = fed.corrupted
    size, now, before = int(fed.sizes[k]), fed.client(k)[1], clean.client(k)[1]
    if noise_set == 1:
        assert int(wrong[k]) == round(0.5 * size)
    else:
        assert (now[now != before] == 9).all()
        assert int((now != 9).sum()) <= size - round(0.9 * size)  # so many were not chosen
        assert 0.7 < float(fed.noise[k]) <= 0.9 + 0.5 / size


def test_sizes_of_noisy_digits():
    """The paper's where there is enough; else fifths, or those that are asked."""
    fed = fm.noisy_digits(made_up(14_000))
    assert fed.sizes.tolist() == [2_000] * 5
    assert server_sizes(fed) == (2_000, 2_000)
    owned = torch.cat([fed.x, fed.validation[0], fed.test[0]])
    assert len(owned.unique()) == 14_000  # nothing twice
    fed = fm.noisy_digits(made_up(13_999))
    assert server_sizes(fed) == (2_799, 2_799)
    assert int(fed.sizes.sum()) == 13_999 - 2 * 2_799


# --- irrelevant digits ---------------------------------------------------------------------------


def test_irrelevant_clients_hold_odd_digits_under_even_names():
    """Every digit is dealt once, and the server keeps even ones; inputs tell which they were."""
    data, names = made_up(1000), {}
    fed = fm.irrelevant_digits(data, seed=1)
    assert (fed.clients, fed.classes, len(fed.corrupted)) == (10, 5, 4)
    kept = torch.cat([fed.x, fed.validation[0], fed.test[0]])
    assert sorted(kept.flatten().tolist()) == data.x.flatten().tolist()
    even = int((data.y % 2 == 0).sum())
    assert server_sizes(fed) == (even // 5, even // 5)
    held = {k: fed.client(k) for k in range(10)} | {10: fed.validation, 11: fed.test}
    for k, (x, given) in held.items():
        true = data.y[x.flatten().long()]
        if k in fed.corrupted:
            assert (true % 2 == 1).all()
            for digit, label in zip(true.tolist(), given.tolist(), strict=True):
                names.setdefault(digit, set()).add(label)
        else:
            assert torch.equal(2 * given, true)
    mapping = [names[odd] for odd in (1, 3, 5, 7, 9)]  # one bijection, the same for all of them
    assert sorted(map(list, mapping)) == [[0], [1], [2], [3], [4]]
    told = f"odd digits named as even, mapping={[label for (label,) in mapping]}"
    assert fed.truth == dict.fromkeys(fed.corrupted, told)
    assert fed.noise.tolist() == [float(k in fed.corrupted) for k in range(10)]
    for group in (fed.corrupted, set(range(10)) - fed.corrupted):
        sizes = fed.sizes[sorted(group)]
        assert int(sizes.max() - sizes.min()) <= 1


def test_sizes_and_splits_of_irrelevant_digits():
    fed = fm.irrelevant_digits(seed=2)
    held = (fed.label_counts > 0).sum(1)
    assert int(held.max()) <= 3
    assert float(held.double().mean()) < 2.5  # one class or two, as the paper's
    even = fm.irrelevant_digits(seed=2, split=fm.IID())
    assert ((even.label_counts > 0).sum(1) == 5).all()
    assert even.corrupted == fed.corrupted
    assert server_sizes(fm.irrelevant_digits(made_up(29_000, seed=1))) == (1_000, 4_000)
    few = server_sizes(fm.irrelevant_digits(made_up(27_000, seed=1)))
    assert few[0] == few[1] < 2_800


def test_the_seed_decides_who_is_irrelevant_and_by_what_names():
    data, wrong = made_up(600), fm.FlipLabels(1.0)
    feds = [fm.irrelevant_digits(data, corrupt=wrong, seed=seed) for seed in range(15)]
    odd = [frozenset(k for k, t in fed.truth.items() if t != repr(wrong)) for fed in feds]
    assert set().union(*odd) == set(range(10))
    assert len({fed.truth[min(bad)] for fed, bad in zip(feds, odd, strict=True)}) > 8
    assert same(feds[4], fm.irrelevant_digits(data, corrupt=wrong, seed=4))


@pytest.mark.parametrize("seed", range(3))
def test_a_corruption_goes_to_a_client_that_it_changes(seed):
    """Of six clients with a class or two, not all hold digits 2 or 4."""
    wrong = fm.SwapLabels((1, 2))
    fed, clean = (fm.irrelevant_digits(seed=seed, corrupt=c) for c in (wrong, None))
    assert torch.equal(fed.x, clean.x)
    (k,) = fed.corrupted - clean.corrupted
    assert fed.truth[k] == repr(wrong)
    table = torch.tensor([0, 2, 1, 3, 4])
    assert torch.equal(fed.client(k)[1], table[clean.client(k)[1]])
    assert shares_wrong(fed, clean).nonzero().flatten().tolist() == [k]


# --- skewed digits -------------------------------------------------------------------------------


@pytest.mark.parametrize(("skew", "classes"), [("iid", 10), ("weak", 5), ("strong", 2)])
def test_skewed_digits_hold_so_many_classes_and_a_fifth_of_the_clients_is_noisy(skew, classes):
    fed, clean = (fm.skewed_digits(skew=skew, noise=noise, seed=1) for noise in (0.4, 0.0))
    assert clean.clients == 20
    assert ((clean.label_counts > 0).sum(1) == classes).all()
    assert server_sizes(clean) == (1797 // 5, 1797 // 5)
    assert int(clean.sizes.sum()) == 1797 - 2 * (1797 // 5)
    assert clean.corrupted == set()
    assert len(fed.corrupted) == 4
    assert set(fed.truth.values()) == {repr(fm.FlipLabels(0.4))}
    wrong = [round(0.4 * n) if k in fed.corrupted else 0 for k, n in enumerate(fed.sizes.tolist())]
    assert (shares_wrong(fed, clean) * fed.sizes).round().tolist() == wrong


def test_the_seed_decides_which_skewed_clients_are_corrupted_and_the_share_how_many():
    bad = [frozenset(fm.skewed_digits(noise=0.4, seed=s).corrupted) for s in (0, 1, 2, 3, 0)]
    assert bad[0] == bad[4]
    assert len(set(bad)) == 4
    for share, count in ((0, 0), (0.12, 1), (0.5, 5), (1, 10)):
        assert len(fm.skewed_digits(clients=10, noise=0.3, share=share).corrupted) == count


# --- spam ----------------------------------------------------------------------------------------

MESSAGES = fm.load("sms-synthetic")


def test_spam_has_fifty_clients_of_unequal_size_of_whom_a_fifth_flips_every_label():
    fed, clean = fm.spam(seed=1), fm.spam(MESSAGES, share=0, seed=1)
    assert (fed.clients, fed.classes, server_sizes(fed)) == (50, 2, (572, 572))
    assert int(fed.sizes.sum()) == len(MESSAGES) - 2 * 572
    assert int(fed.sizes.min()) >= 5
    assert float(fed.sizes.double().std() / fed.sizes.double().mean()) > 0.8  # Dirichlet(.5): 1.4
    assert len(fed.corrupted) == 10
    assert fed.noise.tolist() == [float(k in fed.corrupted) for k in range(50)]
    assert torch.equal(shares_wrong(fed, clean), fed.noise)
    assert torch.equal(fed.x, clean.x)
    assert torch.equal(fed.x, fed.x.round())  # counts are left as they are
    fed = fm.spam(MESSAGES, clients=20, share=0.33, floor=221, validation=30, test=40)
    assert len(fed.corrupted) == 7
    assert fed.sizes.min() >= 221
    even = fm.spam(MESSAGES, clients=20, alpha=1e4, floor=1).sizes
    assert int(even.max()) < 1.2 * int(even.min())


def test_tokens_are_standardised_by_the_clients_messages_after_the_corruption():
    """``features`` only decides about scaling where the data are given."""
    tokens = fm.load("sms-synthetic", features="tokens", dtype=torch.float64)
    wrong = DeleteWords(0.5, form="tokens")
    fed = fm.spam(features="tokens", corrupt=wrong, seed=3, dtype=torch.float64)
    raw = fm.spam(tokens, corrupt=wrong, seed=3)
    assert float(raw.x.max()) > 100  # word ids
    mean, spread = raw.x.mean(0), raw.x.std(0, correction=0)
    spread = spread.where(spread > 0, torch.ones_like(spread))
    for one, other in ((fed.x, raw.x), (fed.test[0], raw.test[0])):
        torch.testing.assert_close(one, (other - mean) / spread, rtol=1e-3, atol=1e-3)
    assert torch.equal(fed.noise, raw.noise)
    assert (fed.truth, float(fed.noise.sum()) > 5) == (raw.truth, True)


def test_the_second_set_has_levels_for_five():
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.noisy_digits(noise_set=2, clients=4)
