"""Scenarios: who is corrupted and how much, how samples are dealt, what a message looks like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import fedlab_mini as fm

SEEDS = range(6)


def shares_wrong(fed: fm.Federation, clean: fm.Federation) -> Tensor:
    """Share of each client's labels that differ from those of a clean twin, [K]."""
    pairs = [(fed.client(k)[1], clean.client(k)[1]) for k in range(fed.clients)]
    return torch.stack([(a != b).double().mean() for a, b in pairs])


def clean_digits(seed: int, **options) -> fm.Federation:
    """The federation of the noisy digits before the noise."""
    sizes = {"clients": 5, "validation": 359, "test": 359} | options
    return fm.federation(fm.load("digits"), seed=seed, **sizes)


def made_up(n: int, classes: int = 10, seed: int = 0) -> fm.Dataset:
    """n samples with one input that tells them apart."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.arange(n, dtype=torch.float32)[:, None]
    return fm.Dataset(x=x, y=torch.randint(classes, (n,), generator=generator), classes=classes)


# --- noisy digits --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_set", [1, 2, 3])
def test_sizes_are_three_fifths_a_fifth_and_a_fifth(noise_set):
    fed = fm.noisy_digits(noise_set=noise_set)
    assert fed.clients == 5
    assert fed.classes == 10
    assert len(fed.validation[1]) == len(fed.test[1]) == 1797 // 5
    assert int(fed.sizes.sum()) == 1797 - 2 * (1797 // 5)
    assert int(fed.sizes.max() - fed.sizes.min()) <= 1


@pytest.mark.parametrize("noise_set", [1, 2, 3])
def test_only_labels_are_touched_and_noise_says_how_many(noise_set):
    fed, clean = fm.noisy_digits(noise_set=noise_set, seed=2), clean_digits(2)
    assert torch.equal(fed.x, clean.x)
    for part in ("validation", "test"):
        for one, other in zip(fed.server(part), clean.server(part), strict=True):
            assert torch.equal(one, other)
    wrong = shares_wrong(fed, clean)
    assert torch.equal(fed.noise, wrong)
    assert set(wrong.nonzero().flatten().tolist()) == fed.corrupted


@pytest.mark.parametrize("seed", SEEDS)
def test_set_one_half_of_one_clients_labels(seed):
    fed = fm.noisy_digits(noise_set=1, seed=seed)
    (k,) = fed.corrupted
    size = int(fed.sizes[k])
    assert float(fed.noise[k]) * size == pytest.approx(round(0.5 * size))
    assert float(fed.noise.sum()) == float(fed.noise[k])


@pytest.mark.parametrize("seed", SEEDS)
def test_set_two_ten_to_fifty_per_cent(seed):
    fed = fm.noisy_digits(noise_set=2, seed=seed)
    assert fed.corrupted == set(range(5))
    order = fed.noise.argsort()
    for k, level in zip(order.tolist(), (0.1, 0.2, 0.3, 0.4, 0.5), strict=True):
        size = int(fed.sizes[k])
        assert round(float(fed.noise[k]) * size) == round(level * size)


@pytest.mark.parametrize("seed", SEEDS)
def test_set_three_nine_in_ten_become_a_nine(seed):
    fed, clean = fm.noisy_digits(noise_set=3, seed=seed), clean_digits(seed)
    (k,) = fed.corrupted
    now, before = fed.client(k)[1], clean.client(k)[1]
    changed = now != before
    assert (now[changed] == 9).all()
    kept = len(now) - round(0.9 * len(now))  # so many were not chosen
    assert len(now) - int((now == 9).sum()) <= kept
    assert 0.7 < float(fed.noise[k]) <= 0.9 + 0.5 / len(now)
    assert float(fed.noise.sum()) == float(fed.noise[k])


@pytest.mark.parametrize("noise_set", [1, 2, 3])
def test_the_seed_decides_who_is_noisy(noise_set):
    digits = fm.load("digits")
    feds = [fm.noisy_digits(digits, noise_set, seed=s) for s in range(25)]
    assert {int(fed.noise.argmax()) for fed in feds} == set(range(5))
    one, same = (fm.noisy_digits(noise_set=noise_set, seed=4) for _ in range(2))
    assert torch.equal(one.y, same.y)
    assert one.truth == same.truth


def test_the_papers_sizes_where_there_is_enough():
    fed = fm.noisy_digits(made_up(14_000))
    assert fed.sizes.tolist() == [2_000] * 5
    assert len(fed.validation[1]) == len(fed.test[1]) == 2_000
    owned = torch.cat([fed.x, fed.validation[0], fed.test[0]])
    assert len(owned.unique()) == 14_000  # nothing twice
    fed = fm.noisy_digits(made_up(13_999))
    assert len(fed.validation[1]) == len(fed.test[1]) == 2_799
    assert int(fed.sizes.sum()) == 13_999 - 2 * 2_799


def test_sizes_of_ones_own():
    sizes = {"samples": 90, "validation": 50, "test": made_up(7)}
    fed = fm.noisy_digits(made_up(500), clients=3, **sizes)
    assert fed.sizes.tolist() == [30] * 3
    assert (len(fed.validation[1]), len(fed.test[1])) == (50, 7)


def test_digits_in_another_type():
    assert fm.noisy_digits(dtype=torch.float64).x.dtype == torch.float64


def test_one_client_may_be_all_there_is():
    fed = fm.noisy_digits(clients=1)
    assert fed.corrupted == {0}


# --- irrelevant digits ---------------------------------------------------------------------------

EVEN = {0: 0, 2: 1, 4: 2, 6: 3, 8: 4}  # the classes of the task


def digit_of(fed: fm.Federation, data: fm.Dataset) -> list[Tensor]:
    """The true digit behind every sample of each client, found by its inputs."""
    table: dict[tuple, set[int]] = {}
    for row, digit in zip(data.x.tolist(), data.y.tolist(), strict=True):
        table.setdefault(tuple(row), set()).add(digit)
    assert all(len(digits) == 1 for digits in table.values())  # no image under two names
    return [
        torch.tensor([next(iter(table[tuple(row)])) for row in fed.client(k)[0].tolist()])
        for k in range(fed.clients)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_irrelevant_clients_hold_odd_digits_under_even_names(seed):
    fed, digits = fm.irrelevant_digits(seed=seed), fm.load("digits")
    assert fed.clients == 10
    assert fed.classes == 5
    assert len(fed.corrupted) == 4
    names: dict[int, set[int]] = {}
    for k, true in enumerate(digit_of(fed, digits)):
        given = fed.client(k)[1]
        if k in fed.corrupted:
            assert (true % 2 == 1).all()
            for digit, label in zip(true.tolist(), given.tolist(), strict=True):
                names.setdefault(digit, set()).add(label)
            assert fed.truth[k].startswith("odd digits named as even")
            assert float(fed.noise[k]) == 1
        else:
            assert given.tolist() == [EVEN[d] for d in true.tolist()]
            assert float(fed.noise[k]) == 0
    assert set(names) == {1, 3, 5, 7, 9}  # one bijection, the same for all of them
    assert all(len(labels) == 1 for labels in names.values())
    assert set().union(*names.values()) == set(range(5))
    mapping = [names[odd].pop() for odd in (1, 3, 5, 7, 9)]
    told = next(fed.truth[k] for k in fed.corrupted)
    assert f"mapping={mapping}" in told


def test_every_digit_is_dealt_once_and_the_server_keeps_even_ones():
    data = made_up(1000)
    fed = fm.irrelevant_digits(data, seed=3)
    kept = torch.cat([fed.x, fed.validation[0], fed.test[0]])
    assert sorted(kept.flatten().tolist()) == sorted(data.x.flatten().tolist())
    even, odd = int((data.y % 2 == 0).sum()), int((data.y % 2 == 1).sum())
    assert len(fed.validation[1]) == len(fed.test[1]) == even // 5
    for x, y in (fed.validation, fed.test):
        assert y.tolist() == [EVEN[int(data.y[int(i)])] for i in x.flatten().tolist()]
    bad = sorted(fed.corrupted)
    assert int(fed.sizes[bad].sum()) == odd
    good = sorted(set(range(10)) - fed.corrupted)
    assert int(fed.sizes[good].sum()) == even - 2 * (even // 5)
    for ids in (bad, good):
        assert int(fed.sizes[ids].max() - fed.sizes[ids].min()) <= 1


def test_the_papers_split_gives_one_or_two_classes():
    fed = fm.irrelevant_digits(seed=2)
    held = (fed.label_counts > 0).sum(1)
    assert int(held.max()) <= 3
    assert float(held.double().mean()) < 2.5
    even = fm.irrelevant_digits(seed=2, split=fm.iid())
    assert ((even.label_counts > 0).sum(1) == 5).all()
    assert even.corrupted == fed.corrupted


def test_the_seed_decides_who_is_irrelevant_and_by_what_names():
    data = made_up(600)
    feds = [fm.irrelevant_digits(data, seed=seed) for seed in range(15)]
    assert set().union(*(fed.corrupted for fed in feds)) == set(range(10))
    assert len({frozenset(fed.corrupted) for fed in feds}) > 10
    assert len({fed.truth[min(fed.corrupted)].split("mapping=")[1] for fed in feds}) > 8
    one, same = (fm.irrelevant_digits(data, seed=4) for _ in range(2))
    assert torch.equal(one.x, same.x)
    assert torch.equal(one.y, same.y)
    assert one.truth == same.truth


@pytest.mark.parametrize("seed", SEEDS)
def test_one_relevant_client_may_be_corrupted(seed):
    wrong = fm.swap_labels((1, 2))
    fed = fm.irrelevant_digits(seed=seed, corrupt=wrong, split=fm.iid())
    clean = fm.irrelevant_digits(seed=seed, split=fm.iid())
    assert torch.equal(fed.x, clean.x)
    (k,) = fed.corrupted - clean.corrupted
    assert clean.corrupted < fed.corrupted
    assert fed.truth[k] == repr(wrong)
    before, after = clean.client(k)[1], fed.client(k)[1]
    table = torch.tensor([0, 2, 1, 3, 4])
    assert torch.equal(after, table[before])
    assert float(fed.noise[k]) == pytest.approx(float((after != before).double().mean()))
    assert torch.equal(shares_wrong(fed, clean).nonzero().flatten(), torch.tensor([k]))


@pytest.mark.parametrize("seed", range(12))
def test_a_corruption_goes_to_a_client_that_it_changes(seed):
    """Of six clients with a class or two, not all hold digits 2 or 4."""
    wrong = fm.swap_labels((1, 2))
    fed, clean = (fm.irrelevant_digits(seed=seed, corrupt=c) for c in (wrong, None))
    (k,) = (k for k, text in fed.truth.items() if text == repr(wrong))
    assert k not in clean.corrupted
    assert float(fed.noise[k]) > 0
    assert torch.equal(shares_wrong(fed, clean).nonzero().flatten(), torch.tensor([k]))
    held = clean.label_counts[k] > 0
    assert held[1] or held[2]


def test_a_corruption_that_changes_nobody_makes_nobody_corrupted():
    clean = fm.irrelevant_digits()
    with pytest.warns(UserWarning, match="^corrupt: flip_labels.* changes no relevant client"):
        fed = fm.irrelevant_digits(corrupt=fm.flip_labels(1e-6))
    assert fed.truth == clean.truth
    assert torch.equal(fed.y, clean.y)


def test_the_seed_decides_which_client_is_corrupted():
    data, wrong = made_up(600), fm.flip_labels(1.0)
    feds = [fm.irrelevant_digits(data, corrupt=wrong, seed=seed) for seed in range(20)]
    ids = {k for fed in feds for k, text in fed.truth.items() if text == repr(wrong)}
    assert len(ids) > 5


def test_without_irrelevant_clients_all_hold_even_digits():
    fed = fm.irrelevant_digits(relevant=10, irrelevant=0)
    assert fed.corrupted == set()
    assert not fed.noise.any()
    assert all((true % 2 == 0).all() for true in digit_of(fed, fm.load("digits")))


def test_the_papers_server_where_there_is_enough():
    fed = fm.irrelevant_digits(made_up(29_000, seed=1))
    assert len(fed.validation[1]) == 1_000
    assert len(fed.test[1]) == 4_000
    few = fm.irrelevant_digits(made_up(27_000, seed=1))
    assert len(few.validation[1]) == len(few.test[1]) < 2_800


def test_sizes_of_the_irrelevant_digits_server():
    fed = fm.irrelevant_digits(made_up(600), validation=31, test=40, relevant=3, irrelevant=2)
    assert (len(fed.validation[1]), len(fed.test[1]), fed.clients) == (31, 40, 5)
    assert fm.irrelevant_digits(dtype=torch.float64).x.dtype == torch.float64


def test_an_attack_on_a_relevant_client_is_kept():
    fed = fm.irrelevant_digits(corrupt=fm.sign_flip())
    (k,) = (k for k, text in fed.truth.items() if not text.startswith("odd"))
    assert isinstance(fed.attacks[k], fm.sign_flip)


# --- skewed digits -------------------------------------------------------------------------------


@pytest.mark.parametrize(("skew", "classes"), [("iid", 10), ("weak", 5), ("strong", 2)])
def test_skew_says_how_many_classes_a_client_holds(skew, classes):
    fed = fm.skewed_digits(skew=skew)
    assert fed.clients == 20
    assert ((fed.label_counts > 0).sum(1) == classes).all()
    assert len(fed.validation[1]) == len(fed.test[1]) == 1797 // 5
    assert int(fed.sizes.sum()) == 1797 - 2 * (1797 // 5)
    assert fed.corrupted == set()
    assert not fed.noise.any()


@pytest.mark.parametrize("skew", ["iid", "weak", "strong"])
@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_the_skewed_clients_is_noisy(skew, seed):
    fed, clean = (fm.skewed_digits(skew=skew, noise=noise, seed=seed) for noise in (0.4, 0.0))
    assert len(fed.corrupted) == 4
    assert set(fed.truth.values()) == {repr(fm.flip_labels(0.4))}
    assert torch.equal(fed.x, clean.x)
    assert torch.equal(fed.noise, shares_wrong(fed, clean))
    for k in range(20):
        size = int(fed.sizes[k])
        wanted = round(0.4 * size) if k in fed.corrupted else 0
        assert round(float(fed.noise[k]) * size) == wanted


def test_the_seed_decides_which_skewed_clients_are_noisy():
    bad = [frozenset(fm.skewed_digits(noise=0.4, seed=s).corrupted) for s in (0, 1, 2, 3, 0)]
    assert bad[0] == bad[4]
    assert len(set(bad)) == 4
    levels = [fm.skewed_digits(noise=noise, seed=1).corrupted for noise in (0.1, 1.0)]
    assert levels[0] == levels[1]


@pytest.mark.parametrize(("share", "count"), [(0, 0), (0.12, 1), (0.13, 1), (0.5, 5), (1, 10)])
def test_share_counts_skewed_clients(share, count):
    assert len(fm.skewed_digits(clients=10, noise=0.3, share=share).corrupted) == count
    assert fm.skewed_digits(clients=10, share=share).corrupted == set()


def test_another_corruption_of_skewed_clients():
    trigger = fm.backdoor(0, 0.5, fm.load("digits").shape)
    fed = fm.skewed_digits(corrupt=trigger, seed=2)
    assert len(fed.corrupted) == 4
    assert set(fed.truth.values()) == {repr(trigger)}
    assert fed.corrupted == fm.skewed_digits(noise=0.4, seed=2).corrupted
    fed = fm.skewed_digits(corrupt=fm.sign_flip(), seed=2)
    assert set(fed.attacks) == fed.corrupted


def test_sizes_of_ones_own_for_skewed_digits():
    fed = fm.skewed_digits(
        made_up(900), "iid", clients=3, samples=90, validation=50, test=made_up(7)
    )
    assert fed.sizes.tolist() == [30] * 3
    assert (len(fed.validation[1]), len(fed.test[1])) == (50, 7)
    assert fm.skewed_digits(dtype=torch.float64).x.dtype == torch.float64


def test_a_large_server_keeps_five_thousand():
    fed = fm.skewed_digits(made_up(26_000), "weak")
    assert len(fed.validation[1]) == len(fed.test[1]) == 5_000
    assert int(fed.sizes.sum()) == 16_000


# --- spam ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def messages() -> fm.Dataset:
    """The synthetic messages as bags of words."""
    return fm.load("sms-synthetic")


@pytest.fixture(scope="module")
def tokens() -> fm.Dataset:
    """The synthetic messages as word ids."""
    return fm.load("sms-synthetic", features="tokens")


@pytest.mark.parametrize("seed", range(3))
def test_fifty_clients_of_unequal_size(messages, seed):
    fed = fm.spam(messages, seed=seed)
    assert fed.clients == 50
    assert fed.classes == 2
    assert len(fed.validation[1]) == len(fed.test[1]) == 572
    assert int(fed.sizes.sum()) == len(messages) - 2 * 572
    assert int(fed.sizes.min()) >= 5
    assert float(fed.sizes.double().std() / fed.sizes.double().mean()) > 0.8  # Dirichlet(.5): 1.4


@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_the_clients_flips_every_label(messages, seed):
    fed, clean = fm.spam(messages, seed=seed), fm.spam(messages, share=0, seed=seed)
    assert len(fed.corrupted) == 10
    assert clean.corrupted == set()
    assert torch.equal(clean.noise, torch.zeros(50, dtype=torch.float64))
    bad = torch.zeros(50, dtype=torch.float64)
    bad[sorted(fed.corrupted)] = 1
    assert torch.equal(fed.noise, bad)
    assert torch.equal(shares_wrong(fed, clean), bad)
    assert torch.equal(fed.x, clean.x)
    assert torch.equal(fed.validation[1], clean.validation[1])


def test_the_seed_decides_who_is_corrupted(messages):
    bad = [frozenset(fm.spam(messages, seed=s).corrupted) for s in (0, 1, 2, 0)]
    assert bad[0] == bad[3]
    assert len(set(bad)) == 3


@pytest.mark.parametrize(("share", "count"), [(0, 0), (0.1, 2), (0.33, 7), (0.5, 10), (1, 20)])
def test_share_counts_clients(messages, share, count):
    assert len(fm.spam(messages, clients=20, share=share).corrupted) == count


def test_a_corruption_of_ones_own(messages):
    wrong = fm.delete_words(0.5)
    fed, clean = fm.spam(messages, corrupt=wrong), fm.spam(messages, share=0)
    assert set(fed.truth.values()) == {repr(wrong)}
    assert torch.equal(fed.y, clean.y)
    for k in range(50):
        words, before = fed.client(k)[0].sum(1), clean.client(k)[0].sum(1)
        assert torch.equal(words < before, words != before)
        share = (words != before).double().mean()
        assert float(fed.noise[k]) == pytest.approx(float(share))
        assert (float(fed.noise[k]) > 0.5) == (k in fed.corrupted)


def test_sizes_follow_alpha_and_floor(messages):
    even, uneven = (fm.spam(messages, clients=20, alpha=a, floor=1).sizes for a in (1e4, 0.1))
    assert int(even.max()) < 1.2 * int(even.min())
    assert int(uneven.max()) > 5 * int(uneven.double().median())
    assert fm.spam(messages, clients=20, floor=221).sizes.min() >= 221
    fed = fm.spam(messages, clients=4, validation=30, test=40)
    assert int(fed.sizes.sum()) == len(messages) - 70


def test_counts_are_left_as_they_are(messages):
    fed = fm.spam(messages)
    assert torch.equal(fed.x, fed.x.round())
    assert float(fed.x.min()) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_are_standardised_by_the_clients_messages(dtype):
    fed = fm.spam(features="tokens", dtype=dtype)
    assert fed.x.dtype == fed.validation[0].dtype == fed.test[0].dtype == dtype
    x = fed.x.double()
    used = x.abs().amax(0) > 0
    assert used[:10].all()
    zero, one = torch.zeros(int(used.sum())).double(), torch.ones(int(used.sum())).double()
    atol = 1e-4 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(x[:, used].mean(0), zero, rtol=0, atol=atol)
    torch.testing.assert_close((x[:, used] ** 2).mean(0), one, rtol=0, atol=atol)


def test_the_servers_tokens_are_scaled_like_the_clients(tokens):
    """``features`` only decides about scaling here: the data are given."""
    wrong = fm.delete_words(0.5, form="tokens")
    fed = fm.spam(tokens, features="tokens", corrupt=wrong, seed=3)
    raw = fm.spam(tokens, corrupt=wrong, seed=3)
    assert float(raw.x.max()) > 100  # word ids
    mean, spread = raw.x.double().mean(0), raw.x.double().std(0, correction=0)
    spread = spread.where(spread > 0, torch.ones_like(spread))
    for part in ("validation", "test"):
        wanted = (raw.server(part)[0].double() - mean) / spread
        torch.testing.assert_close(fed.server(part)[0].double(), wanted, rtol=1e-3, atol=1e-3)
        assert torch.equal(fed.server(part)[1], raw.server(part)[1])
    wanted = (raw.x.double() - mean) / spread
    torch.testing.assert_close(fed.x.double(), wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(fed.y, raw.y)
    assert torch.equal(fed.noise, raw.noise)
    assert fed.truth == raw.truth
    assert torch.equal(fed.sizes, raw.sizes)


def test_a_corruption_comes_before_the_scaling(tokens):
    """Deleting words needs whole numbers, so it can only act before."""
    fed = fm.spam(tokens, features="tokens", corrupt=fm.delete_words(0.2, form="tokens"))
    assert float(fed.noise.sum()) > 5


# --- bad and unusual arguments --------------------------------------------------------------------

NAN = float("nan")
ALL = [("seed", 0.5), ("data", 3), ("dtype", torch.int64), ("validation", 0), ("test", 99_999)]
BAD = {  # argument: value, and the name that the message begins with where it is another one
    fm.noisy_digits: [
        ("noise_set", 0), ("noise_set", 4), ("noise_set", "1"), ("noise_set", 1.0),
        ("clients", 0), ("clients", -1), ("clients", 2.0), ("clients", 5000),
        ("samples", 4), ("samples", 99_999), ("test", 1797), *ALL,
    ],
    fm.irrelevant_digits: [
        ("relevant", 0), ("relevant", -1), ("relevant", 2.5), ("relevant", "6"),
        ("relevant", 5000), ("irrelevant", -1), ("irrelevant", None),
        ("irrelevant", 5000), ("data", made_up(100, classes=9)), ("split", "iid"),
        ("corrupt", "flip", r"corrupt\[0\]"), ("corrupt", fm.swap_labels((1, 7)), "pairs"), *ALL,
    ],
    fm.skewed_digits: [
        ("skew", "some"), ("skew", None), ("clients", 0), ("clients", 2.0), ("clients", 5000),
        ("clients", 3, "classes_per_client"), ("share", -0.1), ("share", 1.1), ("share", NAN),
        ("share", "all"), ("samples", 4), ("test", 1797), ("noise", -0.1), ("noise", 1.1),
        ("noise", NAN), ("noise", "much"), ("corrupt", "flip", r"corrupt\[\d+\]"), *ALL,
    ],
    fm.spam: [
        ("clients", 0), ("clients", -1), ("clients", 2.0), ("share", -0.1), ("share", 1.1),
        ("share", NAN), ("features", "words"), ("features", 3), ("alpha", 0), ("floor", 0),
        ("floor", 10_000, "clients"), ("corrupt", "flip", r"corrupt\[\d+\]"), *ALL,
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "argument", "value", "name"),
    [(make, *(*case, case[0])[:3]) for make, cases in BAD.items() for case in cases],
    ids=lambda part: getattr(part, "__name__", str(part))[:20],
)
def test_bad_arguments_are_named(scenario, argument, value, name):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: "):
        scenario(**{argument: value})


@pytest.mark.parametrize("clients", [4, 6])
def test_the_second_set_has_levels_for_five(clients):
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.noisy_digits(noise_set=2, clients=clients)


def test_numpy_numbers_are_numbers():
    for fed, twin in (
        (fm.noisy_digits(noise_set=np.int64(2), clients=np.int8(5)), fm.noisy_digits(noise_set=2)),
        (fm.skewed_digits(noise=np.float32(0.5), share=np.float64(0.1)),
         fm.skewed_digits(noise=0.5, share=0.1)),
        (fm.irrelevant_digits(relevant=np.int64(3), irrelevant=np.uint8(1)),
         fm.irrelevant_digits(relevant=3, irrelevant=1)),
    ):  # fmt: skip
        assert torch.equal(fed.y, twin.y)
        assert fed.truth == twin.truth
